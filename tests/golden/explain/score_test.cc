// Chance has no cause, news exceeds choices; least squares against numbers that are known.

#include <array>
#include <numeric>

#include "golden/explain/confirm/score.h"
#include "golden/explain/find/finding.h"
#include "tests/golden/planted.h"
#include "tests/support/random_tensors.h"

namespace mxo {
namespace {

Call made_call(const char* op, NamedTensors in,
               std::initializer_list<std::pair<const char*, std::string>> set = {}) {
  return make_call(op, std::move(in), with(set));
}

/// Small calls of several operators.
std::vector<Call> calls(Backend& b) {
  std::vector<Call> list;
  NamedTensors x;
  x.emplace("x", random_bf16({32, 256}, 3));
  list.push_back(made_call("quantize", x, {{"block", "1x32"}}));
  list.push_back(
      made_call("quantize", x, {{"block", "1x128"}, {"scale", "f32"}, {"rule", "vllm"}}));
  list.push_back(made_call("quantize", x, {{"block", "RxK"}, {"scale", "f32"}, {"rule", "te"}}));
  list.push_back(made_call("dequantize", run_call(b, list[0])));
  list.push_back(
      made_call("dequantize", run_call(b, list[1]), {{"block", "1x128"}, {"scale", "f32"}}));
  list.push_back(made_call("swiglu", x));
  NamedTensors ends;
  ends.emplace("x", random_bf16({40, 64}, 4));
  ends.emplace("group_ends", ends_of({9, 20, 40}));
  list.push_back(made_call("pad_groups", std::move(ends), {{"alignment", "16"}}));
  list.push_back(mx_product(b, 5, {{16, 24, 40}, 40, 32, 64}));
  return list;
}

/// One of several kinds of damage that has no cause: elements, rows, blocks, bytes, whole scales.
void damage(test::Random& random, Tensor& t) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(t.data());
  const auto n = static_cast<Index>(t.bytes());
  const auto any = [&](Index most) { return static_cast<Index>(random.word()) % most; };
  const auto element = static_cast<Index>(size_of(t.dtype()));
  const Index row = (t.rank() == 0 ? 1 : t.shape().back()) * element;
  const auto fill = [&](Index first, Index count) {
    for (Index i = first; i < std::min(first + count, n); ++i)
      bytes[i] = static_cast<std::uint8_t>(random.word() >> 7);
  };
  switch (any(6)) {
    case 0: bytes[any(n)] ^= static_cast<std::uint8_t>(1 + any(255)); return;
    case 1: fill(any(n / element) * element, element); return;
    case 2: fill(any(n / row) * row, row); return;
    case 3: fill(any(n), 16); return;
    case 4:
      for (int i = 0; i < 3; ++i) fill(any(n / element) * element, element);
      return;
    default: bytes[any(n)] ^= static_cast<std::uint8_t>(1 << any(8)); return;
  }
}

TEST(Score, DamageByChanceHasNoCause) {
  const auto backend = make_cpu_backend();
  test::Random random(2026);
  const std::vector<Call> list = calls(*backend);
  std::vector<NamedTensors> right;
  for (const Call& c : list) right.push_back(run_call(*backend, c));
  for (int n = 0; n < 300; ++n) {
    // A product, which takes longest, is every 30th.
    const std::size_t at =
        n % 30 == 29 ? list.size() - 1 : static_cast<std::size_t>(n) % (list.size() - 1);
    NamedTensors got = right[at];
    auto which = got.begin();
    std::advance(which, random.word() % got.size());
    if (which->second.bytes() == 0) continue;
    damage(random, which->second);
    const Explanation e = explain(*backend, list[at], right[at], got);
    for (const Cause& c : e.causes) {
      EXPECT_TRUE(c.is_symptom()) << n << " " << list[at].op << " " << which->first << ": " << c.id
                                  << ": " << e.sentence();
    }
  }
}

Tensor row(const std::vector<float>& values) {
  Tensor t(Dtype::f32, {1, static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), t.as<float>());
  return t;
}

TEST(Score, NeighboursTellLittle) {
  std::vector<float> values(64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.0f + static_cast<float>(i);
  const Tensor expected = row(values);
  const auto gain = [&](bool far) {
    std::vector<float> got = values;
    for (int i = 0; i < 8; ++i) {
      float& v = got[static_cast<std::size_t>(i)];
      v = far ? -3.5f * v : std::nextafter(v, 100.0f);
    }
    const Tensor actual = row(got);
    std::vector<Output> outputs{make_output(Call{"op", {}, {}}, "y", expected, actual)};
    const Weighing before(outputs);
    for (Index i = 0; i < 8; ++i) outputs[0].mark_explained(i);
    return before.gain(outputs);
  };
  EXPECT_NEAR(gain(false), 8 * std::log2(3.0), 1e-9);
  EXPECT_NEAR(gain(true), 8 * std::log2(65.0), 1e-9);
}

TEST(Chance, TellsWhereNewsExceedsChoices) {
  std::vector<float> values(1024);
  std::iota(values.begin(), values.end(), 1.0f);
  const Tensor t = row(values);
  const Output y = make_output(Call{"op", {}, {}}, "y", t, t);
  const Chance chance(y);
  const double each = std::log2(1025.0);
  // Of k pieces of w elements: k w each > k log2(e failing / k) + log2(places) + 20.
  for (const Index width : {1, 2}) {
    for (const std::size_t failing : {4u, 40u}) {
      for (const std::size_t k : {3u, 4u}) {
        std::vector<Index> pieces(k);
        std::iota(pieces.begin(), pieces.end(), 7);
        const double n = static_cast<double>(k);
        const double room = n * static_cast<double>(width) * each -
                            n * std::log2(std::exp(1.0) * static_cast<double>(failing) / n) - 20.0;
        for (int p = 0; p < 60; ++p) {
          EXPECT_EQ(chance.tells(pieces, width, failing, std::size_t{1} << p), room > p)
              << width << " " << failing << " " << k << " " << p;
        }
      }
    }
  }
}

TEST(LeastSquares, UnknownsAreFoundFromWeightedEquations) {
  // 3 a - 2 b + 0 c, off by +-1/16 in turns, of very different weights.
  LeastSquares equations(3);
  for (int i = 0; i < 64; ++i) {
    const double a = 1.0 + i % 7;
    const double b = 1e6 * (1.0 + i % 5);
    const double off = i % 2 == 0 ? 0x1p-4 : -0x1p-4;
    equations.add(std::array{a, b, 0.0}, 3.0 * a - 2.0 * b + off, i % 3 == 0 ? 4.0 : 1.0);
  }
  const auto fit = equations.solved();
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->x[0], 3.0, 3.0 * fit->sigma[0] * fit->misfit);
  EXPECT_NEAR(fit->x[1], -2.0, 3.0 * fit->sigma[1] * fit->misfit);
  EXPECT_LT(fit->sigma[0], 0.1);
  EXPECT_LT(fit->sigma[1], 1e-6);
  EXPECT_EQ(fit->x[2], 0.0);
  EXPECT_TRUE(std::isinf(fit->sigma[2]));
  // 22 equations are off by 1/4, 42 by 1/16.
  EXPECT_NEAR(fit->misfit, std::sqrt((22 * 16 + 42) / 64.0) / 16.0, 5e-3);
  EXPECT_NEAR(fit->left, fit->misfit * fit->misfit * 64.0, 1e-9);
}

}  // namespace
}  // namespace mxo

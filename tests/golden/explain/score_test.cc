// News exceeds choices; least squares against numbers that are known.

#include <array>
#include <numeric>

#include "golden/explain/confirm/score.h"
#include "golden/explain/find/finding.h"
#include "tests/golden/planted.h"

namespace mxo {
namespace {

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

// What the exact product lets pass at a glance passes one by one, too.
#include "golden/judge/beside_exact.h"

#include <gtest/gtest.h>

#include <random>

#include "emu/backends.h"
#include "golden/judge/bound.h"
#include "tests/golden/expected.h"
#include "tests/golden/tensors.h"

namespace mxo::beside_exact_test {
namespace {

struct Case {
  const char* op;
  const char* output;
  Index rows, k, n;
  int spread;  ///< operands times 2^-spread to 2^spread; of 30: times 2^-40 more
  bool cancels = false;
  bool scaled = false;  ///< codes of blocks of 128
};
constexpr Case kCases[] = {{"grouped_matmul", "y", 40, 512, 70, 0},
                           {"grouped_matmul", "y", 40, 2048, 33, 20},
                           {"grouped_matmul", "y", 40, 1024, 40, 2, true},
                           {"grouped_matmul", "y", 10, 512, 40, 30},  // subnormal products
                           {"grouped_matmul", "y", 40, 500, 70, 0, false, true},
                           {"grouped_matmul_wgrad", "dw", 700, 40, 70, 0}};

Backend& backend() {
  static const std::unique_ptr<Backend> cpu = make_cpu_backend();
  return *cpu;
}

Parameters settings_of(const Case& c) {
  Parameters set;
  if (!c.scaled) return set;
  set.set("block_x", "1x128");
  set.set("block_w", "128x128");
  return set;
}

/// Operands in place of those that are there, as codes and scales.
void quantize(NamedTensors& in, const std::string& name, const char* block) {
  Parameters set;
  set.set("block", block);
  NamedTensors out = call_operator(backend(), "quantize", {{"x", std::move(in.at(name))}}, set);
  in.erase(name);
  for (const char* part : {"codes", "scales"}) in[name + "." + part] = std::move(out.at(part));
}

Tensor drawn(std::mt19937& random, std::vector<Index> shape, int spread) {
  Tensor t(Dtype::f32, std::move(shape));
  std::normal_distribution<float> draw;
  for (Index i = 0; i < t.elements(); ++i) {
    const int e = spread == 0 ? 0
                              : static_cast<int>(random() % static_cast<unsigned>(2 * spread)) -
                                    spread - (spread == 30 ? 40 : 0);
    t.as<float>()[i] = std::ldexp(draw(random), e);
  }
  return t;
}

NamedTensors inputs_of(const Case& c, std::mt19937& random) {
  NamedTensors in;
  const bool gradient = std::string_view(c.output) == "dw";
  in.emplace("x", drawn(random, {c.rows, c.k}, c.spread));
  if (gradient) {
    in.emplace("dy", drawn(random, {c.rows, c.n}, c.spread));
  } else {
    in.emplace("w", drawn(random, {2, c.n, c.k}, c.spread));
  }
  if (c.cancels) {  // the second half of every sum is nearly the first's negative
    float* x = in.at("x").as<float>();
    float* w = in.at("w").as<float>();
    for (Index i = 0; i < c.rows * c.k; ++i) {
      if (i % c.k >= c.k / 2) x[i] = -x[i - c.k / 2] * (1 + 0x1p-20f);
    }
    for (Index i = 0; i < 2 * c.n * c.k; ++i) {
      if (i % c.k >= c.k / 2) w[i] = w[i - c.k / 2];
    }
  }
  in.emplace("group_ends", ends_at({c.rows / 3, c.rows}));
  if (c.scaled) {
    quantize(in, "x", "1x128");
    quantize(in, "w", "128x128");
  }
  return in;
}

/// Parts of the bound away from the exact product.
constexpr double kParts[] = {0.0, 0.01, 0.9, 0.999, 1.0, 1.001, 1.1, 100.0, -1.0, -1.001};

TEST(BesideExact, NoVerdictAndNoFigureChanges) {
  std::mt19937 random(8);
  for (const Case& c : kCases) {
    const NamedTensors in = inputs_of(c, random);
    auto bound =
        bound_when_asked(c.op, c.output, in, settings_of(c), "", Roundings::worst, &backend());
    const Index columns = std::string_view(c.output) == "dw" ? c.k : c.n;
    Tensor expected(Dtype::f32, {bound->size() / columns, columns});
    Tensor actual = expected;
    for (Index i = 0; i < expected.elements(); ++i) {
      const ElementBound of = bound->at(i);
      expected.as<float>()[i] = static_cast<float>(of.exact);
      const double inside = static_cast<double>(random() % 1000) * 1e-3;
      const double part = random() % 16 == 0 ? kParts[random() % std::size(kParts)] : inside;
      actual.as<float>()[i] = static_cast<float>(of.exact + part * of.stray);
    }
    const auto surely_passes = [&](const Tensor& y) {
      const OutputBlock all{0, bound->size() / columns, 0, columns};
      const auto sure =
          bound->sure(all, [&](Index i) { return static_cast<double>(y.as<float>()[i]); });
      return std::count(sure.begin(), sure.end(), true);
    };
    if (c.spread < 20) {  // no sums below f32's normal numbers
      EXPECT_EQ(surely_passes(expected), bound->size());
      EXPECT_GT(surely_passes(actual), 0);
    }
    actual.as<float>()[3] = std::nanf("");
    actual.as<float>()[4] = INFINITY;
    ExpectedOutput expected_output = owe(expected);
    expected_output.bound = &*bound;
    const CompareOptions options = gated("bound");
    const TensorVerdict quick = compare_tensor("y", expected_output, actual, options);
    bound->sure = {};
    const TensorVerdict slow = compare_tensor("y", expected_output, actual, options);
    EXPECT_GT(slow.all.violating, 0);
    EXPECT_LT(slow.all.violating, slow.all.elements / 8);
    EXPECT_EQ(quick.reason, slow.reason);
    ASSERT_EQ(quick.row_blocks.size(), slow.row_blocks.size());
    for (std::size_t b = 0; b < slow.row_blocks.size(); ++b) {
      const Measures& x = quick.row_blocks[b].measures;
      const Measures& y = slow.row_blocks[b].measures;
      EXPECT_EQ(x.violating, y.violating) << b;
      EXPECT_EQ(x.not_bounded, y.not_bounded) << b;
      EXPECT_EQ(x.differing, y.differing) << b;
      EXPECT_EQ(x.sqnr, y.sqnr) << b;
    }
  }
}

}  // namespace
}  // namespace mxo::beside_exact_test

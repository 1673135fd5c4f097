// Scales measured from the output of a small product, and the equations behind them.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "golden/explain/find/product/sides.h"
#include "tests/golden/multiplied.h"

namespace mxo {
namespace {

using Numbers = std::vector<double>;

/// Scales of x at those places times three.
Call x_tripled(const Call& call, const std::vector<Index>& at) {
  return edited<float>(call, "x.scales", [&](float* s) {
    for (const Index i : at) s[i] *= 3.0f;
  });
}

void expect_ratios(const Effective& e, const Numbers& ratios, double within = 1e-4) {
  EXPECT_TRUE(e.fits()) << e.misfit;
  ASSERT_EQ(e.ratio.size(), ratios.size());
  for (std::size_t b = 0; b < ratios.size(); ++b) {
    EXPECT_NEAR(e.ratio[b], ratios[b], within) << b;
    EXPECT_TRUE(e.known(static_cast<Index>(b)));
    EXPECT_LT(std::abs(e.ratio[b] - ratios[b]), 6.0 * e.sigma[b] + 3e-7);
  }
}

TEST(Measured, AreTheBlocksOfARow) {
  const Call call = product_call({3, 8}, 40, 3);
  const Differing got = got_of(call, x_tripled(call, {5 * 3 + 1}));
  const Product p = *product_of(call);
  const auto lines = measure(p, got.output, Side::a, 12);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].group, 1);
  EXPECT_EQ(lines[0].line, 5);
  expect_ratios(lines[0], {1, 3, 1});
  EXPECT_LT(lines[0].misfit, 1e-6);
  const Differing first = got_of(call, x_tripled(call, {0, 2}));
  expect_ratios(measure(p, first.output, Side::a, 12).at(0), {3, 1, 3});
}

TEST(Measured, AreOfAGradientByItsRows) {
  Call call{"grouped_matmul_wgrad", {}, {}};
  call.replace("dy.codes", mixed_codes({160, 4}, 1));
  call.replace("x.codes", mixed_codes({160, 30}, 3));
  const auto bytes = [](Index i) { return 125 + i % 5; };
  call.replace("dy.scales", filled<std::uint8_t>(Dtype::e8m0, {5, 4}, bytes));
  call.replace("x.scales", filled<std::uint8_t>(Dtype::e8m0, {5, 30}, bytes));
  const std::int32_t ends[] = {0, 64, 160};
  call.replace("group_ends",
               filled<std::int32_t>(Dtype::i32, {3}, [&](Index g) { return ends[g]; }));
  const Call taken =
      edited<std::uint8_t>(call, "dy.scales", [](std::uint8_t* s) { ++s[3 * 4 + 1]; });
  Differing got(multiplied(call), multiplied(taken), call, "dw");
  const Product p = *product_of(call);
  const auto lines = measure(p, got.output, Side::a, 12);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].group, 2);
  EXPECT_EQ(lines[0].line, 1);
  expect_ratios(lines[0], {1, 2, 1});
  Tensor odd = multiplied(call);
  odd.as<float>()[3] = 1.0f;
  const Differing empty(multiplied(call), odd, call, "dw");
  EXPECT_TRUE(measure(p, empty.output, Side::a, 12).empty()) << "a group without rows";
}

TEST(Measured, OfBlocksOfZerosAreNotKnown) {
  const auto measured = [](Index blocks, Index zero) {
    const Call call =
        edited<std::uint8_t>(product_call({2}, 30, blocks), "x.codes", [&](std::uint8_t* c) {
          for (Index i = 0; i < 64 * blocks; ++i) {
            if (i / 32 % blocks == zero) c[i] = 0;
          }
        });
    const Differing got = got_of(call, x_tripled(call, {0}));
    const auto lines = measure(*product_of(call), got.output, Side::a, 12);
    EXPECT_EQ(lines.size(), 1u);
    return lines.at(0);
  };
  for (const auto& [blocks, zero] : {std::pair<Index, Index>{3, 1}, {2, 1}, {3, 2}}) {
    const Effective e = measured(blocks, zero);
    EXPECT_TRUE(e.fits());
    EXPECT_NEAR(e.ratio[0], 3.0, 1e-4);
    EXPECT_TRUE(e.known(0));
    EXPECT_TRUE(std::isinf(e.sigma[static_cast<std::size_t>(zero)]));
    EXPECT_FALSE(e.known(zero));
  }
  const Effective e = measured(3, 1);
  EXPECT_NEAR(e.ratio[2], 1.0, 1e-4);
  EXPECT_TRUE(e.known(2));
}

}  // namespace
}  // namespace mxo

// Scales measured from the output of a small product, and the equations behind them.
#include "golden/explain/recover/effective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "tests/golden/measured.h"

namespace mxo {
namespace {

TEST(Equations, AreSolvedWithTheirInverse) {
  // The upper triangle is not read.
  Numbers matrix{4, 99, 99, 2, 10, 99, -2, 5, 6};
  Numbers x{-6, -3, 6};  // of 1, -2, 3
  Numbers inverse;
  ASSERT_TRUE(solve(matrix, x, inverse));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(x[i], (Numbers{1, -2, 3}[i]), 1e-12);
    EXPECT_NEAR(inverse[i], (Numbers{35.0 / 36, 20.0 / 36, 1}[i]), 1e-12);
  }
  Numbers one{4};
  Numbers right{2};
  ASSERT_TRUE(solve(one, right, inverse));
  EXPECT_EQ(right, Numbers{0.5});
  EXPECT_EQ(inverse, Numbers{0.25});
}

TEST(Equations, OfSingularMatricesHaveNoSolution) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (Numbers matrix : {Numbers{1, 1, 1, 1}, {0, 0, 0, 1}, {-1, 0, 0, 1}, {1, 0, 0, nan}}) {
    Numbers x{1, 1};
    Numbers inverse;
    EXPECT_FALSE(solve(matrix, x, inverse));
  }
}

TEST(Effective, IsKnownWhereAPowerOfTwoIs) {
  const auto known = [](double ratio, double sigma) {
    Effective e;
    e.ratio = {ratio};
    e.sigma = {sigma};
    return e.known(0);
  };
  EXPECT_TRUE(known(1.0, 0.079));
  EXPECT_FALSE(known(1.0, 0.08));
  EXPECT_TRUE(known(-2.0, 0.159));
  EXPECT_FALSE(known(-2.0, 0.161));
  EXPECT_TRUE(known(0.0, 0.019));
  EXPECT_FALSE(known(0.0, 0.02));
  EXPECT_TRUE(known(1e300, 9e199));
  EXPECT_FALSE(known(1e300, 1e200));
  EXPECT_FALSE(Effective{}.known(0));
  Effective one;
  one.ratio = {1.0};
  one.sigma = {0.0};
  EXPECT_FALSE(one.known(1));
}

TEST(Measured, AreTheBlocksOfARow) {
  const Call call = product_call({3, 8}, 40, 3);
  const Came came = came_of(call, x_tripled(call, {5 * 3 + 1}));
  const Product p = *product_of(call);
  const auto lines = measure(p, came.output, Side::a, 12);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].group, 1);
  EXPECT_EQ(lines[0].line, 5);
  expect_ratios(lines[0], {1, 3, 1});
  EXPECT_LT(lines[0].misfit, 1e-6);
  const Came first = came_of(call, x_tripled(call, {0, 2}));
  expect_ratios(measure(p, first.output, Side::a, 12).at(0), {3, 1, 3});
}

TEST(Measured, AreTheBlocksOfAColumn) {
  const Call call = product_call({3, 23}, 6, 3);
  const Call taken = edited<float>(call, "w.scales", [](float* s) { s[(6 + 4) * 3 + 2] *= 0.5f; });
  const Came came = came_of(call, taken);
  const auto lines = measure(*product_of(call), came.output, Side::b, 12);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].group, 1);
  EXPECT_EQ(lines[0].line, 4);
  expect_ratios(lines[0], {1, 1, 0.5});
}

TEST(Measured, AreRoundedAsTheOutputIs) {
  const Call call = product_call({8}, 60, 3);
  const Came came = came_of(call, x_tripled(call, {2 * 3}), Dtype::bf16);
  const auto lines = measure(*product_of(call), came.output, Side::a, 12);
  ASSERT_EQ(lines.size(), 1u);
  expect_ratios(lines[0], {3, 1, 1}, 0.02);
  EXPECT_GT(lines[0].sigma[1], 1e-4);
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
  Came came(multiplied(call), multiplied(taken), call, "dw");
  const Product p = *product_of(call);
  const auto lines = measure(p, came.output, Side::a, 12);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].group, 2);
  EXPECT_EQ(lines[0].line, 1);
  expect_ratios(lines[0], {1, 2, 1});
  Tensor odd = multiplied(call);
  odd.as<float>()[3] = 1.0f;
  const Came empty(multiplied(call), odd, call, "dw");
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
    const Came came = came_of(call, x_tripled(call, {0}));
    const auto lines = measure(*product_of(call), came.output, Side::a, 12);
    EXPECT_EQ(lines.size(), 1u);
    return lines.at(0);
  };
  for (const auto& [blocks, zero] : {std::pair<Index, Index>{3, 1}, {2, 1}, {3, 2}}) {
    const Effective e = measured(blocks, zero);
    EXPECT_TRUE(e.fits());
    EXPECT_NEAR(e.ratio[0], 3.0, 1e-4);
    EXPECT_TRUE(e.known(0));
    EXPECT_EQ(e.sigma[static_cast<std::size_t>(zero)], 1e300);
    EXPECT_FALSE(e.known(zero));
  }
  const Effective e = measured(3, 1);
  EXPECT_NEAR(e.ratio[2], 1.0, 1e-4);
  EXPECT_TRUE(e.known(2));
}

/// Row 0 of x [1, 32 blocks] by w of ones with scales of one each, of which `came` came.
Effective of_ones(Index blocks, const std::function<double(Index column)>& came) {
  Call call = product_call({1}, 20, blocks);
  for (const char* name : {"x.codes", "w.codes"}) {
    call.replace(name, filled<std::uint8_t>(Dtype::u8, call.input(name).shape(),
                                            [](Index) { return 0x38; }));
  }
  for (const char* name : {"x.scales", "w.scales"}) {
    call.replace(name,
                 filled<float>(Dtype::f32, call.input(name).shape(), [](Index) { return 1.0; }));
  }
  const Came output(Tensor(Dtype::f32, {1, 20}), filled<float>(Dtype::f32, {1, 20}, came), call);
  const auto lines = measure(*product_of(call), output.output, Side::a, 1);
  EXPECT_EQ(lines.size(), 1u);
  return lines.at(0);
}

TEST(Measured, OfEqualBlocksAreTheirMean) {
  const Effective e = of_ones(2, [](Index) { return 32.0 * 6; });
  EXPECT_NEAR(e.ratio[0], 3.0, 0.01);
  EXPECT_NEAR(e.ratio[1], 3.0, 0.01);
  EXPECT_TRUE(e.fits());
}

TEST(Measured, OfZeroAreAsUncertainAsOthers) {
  // All is left of y: sigma^2 is the sum of its squares, by 19, by that of the products' squares.
  const Effective e = of_ones(1, [](Index c) { return c % 2 == 0 ? 1.0 : -1.0; });
  EXPECT_EQ(e.ratio[0], 0.0);
  EXPECT_NEAR(e.sigma[0], std::sqrt(1.0 / 19.0) / 32.0, 1e-12);
  EXPECT_NEAR(e.misfit, 1.0, 1e-12);
}

TEST(Measured, AreAsCloseWhereScalesAreFarOff) {
  const Call call = product_call({1}, 30, 2);
  const Call taken = edited<float>(call, "x.scales", [](float* s) {
    for (Index b = 0; b < 2; ++b) s[b] *= 0x1p24f;
  });
  const Came came = came_of(call, taken);
  const Effective e = measure(*product_of(call), came.output, Side::a, 1).at(0);
  for (const double ratio : e.ratio) EXPECT_NEAR(ratio * 0x1p-24, 1.0, 1e-5);
}

TEST(Measured, AreWeightedByTheStepsOfTheOutput) {
  // No one factor: the least squares of relative errors, worked out by themselves.
  const Call call = product_call({1}, 20, 1);
  const Product p = *product_of(call);
  const Tensor y = multiplied(call);
  const Tensor actual = filled<float>(Dtype::f32, {1, 20}, [&](Index i) {
    return y.as<float>()[i] * (1.5f + static_cast<float>(i % 4));
  });
  const Came came(y, actual, call);
  const Effective e = measure(p, came.output, Side::a, 1).at(0);
  const Numbers a = p.line_a(0, 0);
  Numbers products;
  double square = 0.0;
  for (Index j = 0; j < 20; ++j) {
    const Numbers b = p.line_b(0, j);
    products.push_back(std::inner_product(a.begin(), a.end(), b.begin(), 0.0));
    square += std::pow(static_cast<double>(actual.as<float>()[j]), 2.0);
  }
  const double rms = std::sqrt(square / 20.0);
  double top = 0.0;
  double bottom = 0.0;
  const auto value = [&](std::size_t j) { return static_cast<double>(actual.as<float>()[j]); };
  const auto weight = [&](std::size_t j) { return std::pow(std::abs(value(j)) + 0.1 * rms, -2.0); };
  for (std::size_t j = 0; j < 20; ++j) {
    top += weight(j) * products[j] * value(j);
    bottom += weight(j) * products[j] * products[j];
  }
  const double ratio = top / bottom;
  double left = 0.0;
  double weighted = 0.0;
  for (std::size_t j = 0; j < 20; ++j) {
    const double r = value(j) - ratio * products[j];
    left += r * r;
    weighted += r * r * weight(j);
  }
  EXPECT_NEAR(e.ratio[0], ratio, 1e-9);
  EXPECT_NEAR(e.misfit, std::sqrt(left / square), 1e-9);
  EXPECT_NEAR(e.sigma[0], std::sqrt(weighted / 19.0 / bottom), 1e-9);
}

}  // namespace
}  // namespace mxo

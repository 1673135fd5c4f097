// Scales measured from the output of a small product, and the equations behind them.
#include "golden/explain/recover/effective.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/golden/multiplied.h"

namespace mxo {
namespace {

using Numbers = std::vector<double>;

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

TEST(Measured, AreLinesSpreadOverTheOutput) {
  const Call call = product_call({3, 8}, 20, 1);
  const Came came = came_of(call, x_tripled(call, {0, 1, 3, 4, 7}));
  const Product p = *product_of(call);
  const auto measured = [&](Index most) {
    std::vector<Index> lines;
    for (const Effective& e : measure(p, came.output, Side::a, most)) {
      EXPECT_EQ(e.group, e.line < 3 ? 0 : 1);
      lines.push_back(e.line);
    }
    return lines;
  };
  EXPECT_EQ(measured(9), (std::vector<Index>{0, 1, 3, 4, 7}));
  EXPECT_EQ(measured(3), (std::vector<Index>{0, 3, 7}));
  EXPECT_EQ(measured(2), (std::vector<Index>{0, 7}));
  EXPECT_EQ(measured(1), (std::vector<Index>{0}));
  for (const Effective& e : measure(p, came.output, Side::a, 9)) expect_ratios(e, {3});
}

TEST(Measured, NeedFourMoreElementsThanBlocks) {
  const auto lines = [](Index n) {
    const Call call = product_call({2}, n, 3);
    const Came came = came_of(call, x_tripled(call, {1}));
    return measure(*product_of(call), came.output, Side::a, 12).size();
  };
  EXPECT_EQ(lines(7), 1u);
  EXPECT_EQ(lines(6), 0u);
}

TEST(Measured, AreOfWhatLiesBetweenDifferences) {
  // Of row 1 columns 8 to 31 were taken with other scales, of which 9, 11, .. are as they should be
  // in every row.
  const Call call = product_call({4}, 40, 2);
  const Call taken = x_tripled(call, {2});
  Tensor actual = multiplied(call);
  const Tensor other = multiplied(taken);
  for (Index c = 8; c < 32; c += 2) actual.as<float>()[40 + c] = other.as<float>()[40 + c];
  const Product p = *product_of(call);
  const Came came(multiplied(call), actual, call);
  const auto lines = measure(p, came.output, Side::a, 12);
  ASSERT_EQ(lines.size(), 1u);
  expect_ratios(lines[0], {3, 1});
  // Where another row differs in column 9, that of row 1 tells of it.
  Tensor more = actual;
  more.as<float>()[9] += 1.0f;
  const Came two(multiplied(call), more, call);
  EXPECT_FALSE(measure(p, two.output, Side::a, 12).back().fits());
  // Unless it is settled.
  Tensor settled = actual;
  settled.as<float>()[40 + 10] += 100.0f;
  Came three(multiplied(call), settled, call);
  three.output.settle(40 + 10);
  expect_ratios(measure(p, three.output, Side::a, 12).at(0), {3, 1});
}

TEST(Measured, AreOfColumnsSpreadOverTheRow) {
  // Two for each block, and 48: of 200 columns every fourth, at 0, 4, 8, ..
  const Call call = product_call({2}, 200, 1);
  Tensor actual = multiplied(x_tripled(call, {1}));
  actual.as<float>()[200 + 1] += 100.0f;
  actual.as<float>()[200 + 199] += 100.0f;
  const Product p = *product_of(call);
  const Came came(multiplied(call), actual, call);
  expect_ratios(measure(p, came.output, Side::a, 12).at(0), {3});
  actual.as<float>()[200 + 4] += 100.0f;
  const Came chosen(multiplied(call), actual, call);
  EXPECT_FALSE(measure(p, chosen.output, Side::a, 12).at(0).fits());
}

TEST(Measured, OfBlocksOfZerosAreNotKnown) {
  Call call = product_call({2}, 30, 3);
  call = edited<std::uint8_t>(call, "x.codes", [](std::uint8_t* c) {
    for (Index i = 0; i < 192; ++i) {
      if (i % 96 / 32 == 1) c[i] = 0;
    }
  });
  const Came came = came_of(call, x_tripled(call, {0}));
  const auto lines = measure(*product_of(call), came.output, Side::a, 12);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].fits());
  EXPECT_NEAR(lines[0].ratio[0], 3.0, 1e-4);
  EXPECT_NEAR(lines[0].ratio[2], 1.0, 1e-4);
  EXPECT_EQ(lines[0].sigma[1], 1e300);
  EXPECT_FALSE(lines[0].known(1));
  EXPECT_TRUE(lines[0].known(2));
}

TEST(Measured, PassOverWhatIsNoNumber) {
  const Call call = product_call({2}, 30, 2);
  const Product p = *product_of(call);
  Tensor actual = multiplied(x_tripled(call, {0}));
  actual.as<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  actual.as<float>()[4] = -std::numeric_limits<float>::infinity();
  const Came came(multiplied(call), actual, call);
  expect_ratios(measure(p, came.output, Side::a, 12).at(0), {3, 1});
  const Call with_nan = edited<float>(call, "w.scales", [](float* s) {
    s[10] = std::numeric_limits<float>::quiet_NaN();
    s[13] = std::numeric_limits<float>::infinity();
  });
  Tensor finite = multiplied(x_tripled(call, {0}));
  const Came given(multiplied(call), finite, with_nan);
  expect_ratios(measure(*product_of(with_nan), given.output, Side::a, 12).at(0), {3, 1});
}

TEST(Measured, OfZerosAreNone) {
  const Call call = product_call({2}, 30, 2);
  const Came came(multiplied(call), Tensor(Dtype::f32, {2, 30}), call);
  EXPECT_TRUE(measure(*product_of(call), came.output, Side::a, 12).empty());
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

// Scales measured from the output of a small product, and the equations behind them.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "golden/explain/find/product/measured.h"
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
    EXPECT_TRUE(std::isinf(e.sigma[static_cast<std::size_t>(zero)]));
    EXPECT_FALSE(e.known(zero));
  }
  const Effective e = measured(3, 1);
  EXPECT_NEAR(e.ratio[2], 1.0, 1e-4);
  EXPECT_TRUE(e.known(2));
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
  // Lines without a difference are none of those that are spread over.
  const Came inner = came_of(call, x_tripled(call, {2, 4}));
  const auto two = measure(p, inner.output, Side::a, 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].line, 2);
  EXPECT_EQ(two[1].line, 4);
}

TEST(Measured, OfALaterGroupHaveColumnsOfTheirOwn) {
  const Call call = product_call({10, 20}, 20, 1);
  const Product p = *product_of(call);
  Tensor rows = multiplied(call);
  const Tensor tripled = multiplied(x_tripled(call, {12}));
  for (Index c = 0; c < 8; ++c) rows.as<float>()[12 * 20 + c] = tripled.as<float>()[12 * 20 + c];
  const Came of_row(multiplied(call), rows, call);
  const auto row = measure(p, of_row.output, Side::a, 12);
  ASSERT_EQ(row.size(), 1u) << "eight elements before column ten";
  EXPECT_EQ(row[0].line, 12);
  expect_ratios(row[0], {3});
  // Column 0 is taken with another scale in the second group alone.
  const Came of_column =
      came_of(call, edited<float>(call, "w.scales", [](float* s) { s[20] *= 3.0f; }));
  const auto column = measure(p, of_column.output, Side::b, 1);
  ASSERT_EQ(column.size(), 1u);
  EXPECT_EQ(column[0].group, 1);
  EXPECT_EQ(column[0].line, 0);
  expect_ratios(column[0], {3});
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
  // What another row differs in beside them tells nothing of row 1.
  Tensor beside = actual;
  beside.as<float>()[2 * 40 + 3] += 1.0f;
  const Came apart(multiplied(call), beside, call);
  expect_ratios(measure(p, apart.output, Side::a, 12).at(0), {3, 1});
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
  for (const Index blocks : {1, 2}) {
    const Call call = product_call({2}, 30, blocks);
    const Came came(multiplied(call), Tensor(Dtype::f32, {2, 30}), call);
    EXPECT_TRUE(measure(*product_of(call), came.output, Side::a, 12).empty()) << blocks;
  }
}

}  // namespace
}  // namespace mxo

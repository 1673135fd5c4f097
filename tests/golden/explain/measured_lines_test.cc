// Which lines, blocks and elements of an output scales are measured from.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/golden/measured.h"

namespace mxo {
namespace {

TEST(MeasuredLines, AreLinesSpreadOverTheOutput) {
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

TEST(MeasuredLines, OfALaterGroupHaveColumnsOfTheirOwn) {
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

TEST(MeasuredLines, HaveAtMost512Blocks) {
  const auto lines = [](Index blocks) {
    Call call{"grouped_matmul", {}, {}};  // a scale for each of K
    call.replace("x.codes", mixed_codes({1, blocks}, 1));
    call.replace("x.scales", mixed_scales({1, blocks}, 2));
    call.replace("w.codes", mixed_codes({1, blocks + 8, blocks}, 3));
    call.replace("w.scales", mixed_scales({1, blocks + 8, blocks}, 4));
    call.replace("group_ends", filled<std::int32_t>(Dtype::i32, {1}, [](Index) { return 1; }));
    const Came came(Tensor(Dtype::f32, {1, blocks + 8}), multiplied(call), call);
    EXPECT_EQ(product_of(call)->block, 1);
    return measure(*product_of(call), came.output, Side::a, 1).size();
  };
  EXPECT_EQ(lines(100), 1u);
  EXPECT_EQ(lines(513), 0u);
}

TEST(MeasuredLines, NeedFourMoreElementsThanBlocks) {
  const auto lines = [](Index n) {
    const Call call = product_call({2}, n, 3);
    const Came came = came_of(call, x_tripled(call, {1}));
    return measure(*product_of(call), came.output, Side::a, 12).size();
  };
  EXPECT_EQ(lines(7), 1u);
  EXPECT_EQ(lines(6), 0u);
}

TEST(MeasuredLines, AreOfWhatLiesBetweenDifferences) {
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

TEST(MeasuredLines, AreOfColumnsSpreadOverTheRow) {
  // Two for each block, and 48: of 200 columns every fourth, at 0, 4, 8, ..
  const Call call = product_call({2}, 200, 1);
  const Product p = *product_of(call);
  const auto fits = [&](const std::vector<Index>& broken) {
    Tensor actual = multiplied(x_tripled(call, {1}));
    for (const Index c : broken) actual.as<float>()[200 + c] += 100.0f;
    const Came came(multiplied(call), actual, call);
    return measure(p, came.output, Side::a, 12).at(0).fits();
  };
  EXPECT_TRUE(fits({1, 2, 3, 5, 49, 53, 195, 199}));
  for (const Index c : {0, 4, 196}) EXPECT_FALSE(fits({c})) << c;
}

TEST(MeasuredLines, PassOverWhatIsNoNumber) {
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

TEST(MeasuredLines, OfZerosAreNone) {
  for (const Index blocks : {1, 2}) {
    const Call call = product_call({2}, 30, blocks);
    const Came came(multiplied(call), Tensor(Dtype::f32, {2, 30}), call);
    EXPECT_TRUE(measure(*product_of(call), came.output, Side::a, 12).empty()) << blocks;
  }
}

}  // namespace
}  // namespace mxo

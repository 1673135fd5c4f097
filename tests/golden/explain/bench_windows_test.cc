// Where hypotheses are run: rows and columns that fail, some of the others, whole runs of scales.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/golden/small_bench.h"

namespace mxo {
namespace {

using Indices = std::vector<Index>;

Indices from_to(Index first, Index last) {
  Indices list;
  for (Index i = first; i <= last; ++i) list.push_back(i);
  return list;
}

Indices joined(Indices a, const Indices& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A product of rows by n of which these rows and columns came as others.
SmallBench product_of_lines(Index rows, Index n, const Indices& bad_rows, const Indices& bad) {
  Tensor y(Dtype::f32, {rows, n});
  return {lines_by_lines({static_cast<std::int32_t>(rows)}, rows, n), y,
          with_other(y, bad_rows, bad)};
}

SmallBench coded(Index rows, Index n, Index run, const Indices& bad_rows, const Indices& bad) {
  Tensor y(Dtype::f32, {rows, n});
  return {coded_product(rows, n, run), y, with_other(y, bad_rows, bad)};
}

TEST(BenchWindows, AreOfProductsWithOneOutput) {
  SmallBench one = product_of_lines(4, 6, {}, {});
  EXPECT_TRUE(one.bench->windowed());
  EXPECT_FALSE(one.bench->by_rows());
  one.outputs.push_back(one.outputs.front());
  EXPECT_FALSE(Bench(*one.backend, one.call, one.outputs).windowed());
  one.outputs.pop_back();
  one.outputs.front().name = "z";
  EXPECT_FALSE(Bench(*one.backend, one.call, one.outputs).windowed());
}

TEST(BenchWindows, FailingLinesAreThoseThatDiffer) {
  SmallBench b = product_of_lines(5, 6, {1, 4}, {2, 3});
  b.output().settle(1 * 6 + 2);
  b.output().settle(4 * 6 + 2);
  EXPECT_EQ(b.bench->failing().rows, (Indices{1, 4}));
  EXPECT_EQ(b.bench->failing().columns, (Indices{3}));
  b.output().settle(4 * 6 + 3);
  EXPECT_EQ(b.bench->failing().rows, (Indices{1}));
  EXPECT_EQ(b.bench->failing_columns({0, 4}), Indices{});
  EXPECT_EQ(b.bench->failing_columns({0, 1}), (Indices{3}));
  SmallBench ends = product_of_lines(5, 6, {0}, {0, 5});
  EXPECT_EQ(ends.bench->failing().rows, (Indices{0}));
  EXPECT_EQ(ends.bench->failing().columns, (Indices{0, 5}));
}

/// A weight gradient, whose rows of every group are the columns of dy.
TEST(BenchWindows, RowsOfGradientsAreOfAllGroups) {
  Call call{"grouped_matmul_wgrad", {}, {}};
  call.replace("dy", Tensor(Dtype::f32, {8, 3}));
  call.replace("x", Tensor(Dtype::f32, {8, 4}));
  call.replace("group_ends", ends_at({4, 8}));
  const Tensor y(Dtype::f32, {2, 3, 4});
  SmallBench b{call, y, with_other(with_other(y, {1}, {0}), {5}, {3}), "dw"};
  ASSERT_TRUE(b.bench->windowed());
  EXPECT_EQ(b.bench->failing().rows, (Indices{1, 2}));
  EXPECT_EQ(b.bench->failing().columns, (Indices{0, 3}));
  EXPECT_EQ(b.bench->failing_columns({1}), (Indices{0}));
  EXPECT_EQ(b.bench->failing_columns({2}), (Indices{3}));
  b.bench->choose(8, 8);
  EXPECT_EQ(b.bench->window().rows, (Indices{0, 1, 2}));
  EXPECT_EQ(b.bench->window().columns, (Indices{0, 3}));
}

TEST(BenchWindows, RowsThatNobodyOwnsAreLeftOut) {
  Tensor y(Dtype::f32, {10, 4});
  SmallBench b{lines_by_lines({6}, 10, 4), y, with_other(y, {2, 5, 8}, {1})};
  b.bench->choose(8, 8);
  EXPECT_EQ(b.bench->window().rows, (Indices{0, 2, 5}));
  EXPECT_EQ(b.bench->failing().rows, (Indices{2, 5}));
}

TEST(BenchWindows, ColumnsAreThoseThatFailInTheRowsTaken) {
  // Row r fails in column r: of 40 the first and the last are taken, with rows 0 and 49.
  Tensor y(Dtype::f32, {50, 50});
  Tensor a = y;
  for (Index r = 5; r < 45; ++r) a = with_other(std::move(a), {r}, {r});
  SmallBench b{lines_by_lines({50}, 50, 50), y, a};
  b.bench->choose(2, 2);
  EXPECT_EQ(b.bench->window().rows, (Indices{0, 5, 44, 49}));
  EXPECT_EQ(b.bench->window().columns, (Indices{0, 5, 44, 49}));
}

TEST(BenchWindows, ColumnsOfOneScaleStayTogether) {
  SmallBench b = coded(3, 512, 128, {1}, {300});
  EXPECT_EQ(b.bench->widened({{1}, {5, 300}}).columns, joined(from_to(0, 127), from_to(256, 383)));
  EXPECT_EQ(b.bench->widened({{1}, {5, 300}}).rows, (Indices{1}));
  b.bench->choose(4, 8);
  EXPECT_EQ(b.bench->window().columns, joined(from_to(0, 127), from_to(256, 383)))
      << "the first, and one that fails";
  SmallBench first = coded(3, 512, 128, {1}, {5, 300});
  first.bench->choose(4, 8);
  EXPECT_EQ(first.bench->window().columns, from_to(0, 127)) << "one that fails is in it";
  SmallBench room = coded(3, 512, 128, {1}, {300});
  room.bench->choose(4, 80);
  EXPECT_EQ(room.bench->window().columns, from_to(0, 383))
      << "runs until there are twice as many, and one that fails";
}

}  // namespace
}  // namespace mxo

// Where hypotheses are run: rows and columns that fail, whole runs of scales, rows that stand
// alone.
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

SmallBench coded(Index rows, Index n, Index run, const Indices& bad_rows, const Indices& bad) {
  Tensor y(Dtype::f32, {rows, n});
  return {coded_product(rows, n, run), y, with_other(y, bad_rows, bad)};
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

/// Whether rows of an output of this shape are run on their own.
bool alone(const Call& call, std::vector<Index> shape) {
  const Tensor y(Dtype::u8, std::move(shape));
  std::vector<Output> outputs;
  outputs.push_back(make_output(call, "out", y, y));
  const auto backend = make_reference_backend();
  return Bench(*backend, call, outputs).by_rows();
}

Call rows_of(const char* op, std::vector<Index> shape, const Parameters& set = {}) {
  Call call{op, {}, set};
  call.replace("x", Tensor(Dtype::f32, std::move(shape)));
  return call;
}

TEST(BenchRows, OfLargeOperandsStandAlone) {
  for (const char* op : {"cast", "swiglu", "quantize"}) {
    EXPECT_TRUE(alone(rows_of(op, {256, 256}), {256, 8})) << op;
    EXPECT_FALSE(alone(rows_of(op, {256, 255}), {256, 8})) << op << " of fewer than 65536";
    EXPECT_FALSE(alone(rows_of(op, {256, 256}), {128, 8})) << op << " with other rows";
    EXPECT_FALSE(alone(rows_of(op, {65536}), {256, 8})) << op << " of one axis";
    for (const char* more : {"group_ends", "probs"}) {
      Call call = rows_of(op, {256, 256});
      call.replace(more, ends_at({256}));
      EXPECT_FALSE(alone(call, {256, 8})) << op << " with " << more;
    }
  }
  EXPECT_FALSE(alone(rows_of("column_sum", {256, 256}), {256, 8}));
  EXPECT_FALSE(alone(Call{"cast", {}, {}}, {256, 8}));
}

TEST(BenchRows, InBlocksDoNotStandAlone) {
  Parameters set;
  set.set("block", "32x32");
  EXPECT_FALSE(alone(rows_of("quantize", {256, 256}, set), {256, 8}));
  EXPECT_TRUE(alone(rows_of("cast", {256, 256}, set), {256, 8}));
  set.set("block", "1x128");
  EXPECT_TRUE(alone(rows_of("quantize", {256, 256}, set), {256, 8}));
  set.set("scale_layout", "blocked");
  EXPECT_FALSE(alone(rows_of("quantize", {256, 256}, set), {256, 8}));
}

TEST(BenchRows, AreReadAlone) {
  Call call{"cast", {}, {}};
  call.replace("x", steps({256, 256}, 1));
  const Tensor& x = call.input("x");
  Tensor came = x;
  std::copy_n(x.as<float>() + 8 * 256, 256, came.as<float>() + 7 * 256);
  SmallBench b{call, x, came};
  Hypothesis h;
  h.readings = {make_reading(
      "x", [](const Matrices&) { return true; },
      [](const Matrices& m, Index, Index row, Index column) {
        return (row == 7 ? 8 : row) * m.columns + column;
      })};
  int altered = 0;
  h.alter = [&](Call& c) {
    ++altered;
    return read_whole(c, h.readings.front());
  };
  h.run = [](Backend&, const Call& c) {
    NamedTensors out;
    out.emplace("y", c.input("x"));
    return out;
  };
  b.bench->choose(4, 4);
  auto trial = b.bench->run({&h});
  ASSERT_TRUE(trial);
  EXPECT_TRUE(trial->all());
  EXPECT_EQ(altered, 0);
  b.bench->choose_whole();
  trial = b.bench->run({&h});
  ASSERT_TRUE(trial);
  EXPECT_TRUE(trial->all());
  EXPECT_EQ(altered, 1);
}

}  // namespace
}  // namespace mxo

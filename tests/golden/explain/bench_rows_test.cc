// Operators whose rows stand alone: some rows are run before the whole is.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/golden/small_bench.h"

namespace mxo {
namespace {

using Indices = std::vector<Index>;

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

/// Rows of a large cast, of which only some are run until the whole is asked for.
TEST(BenchRows, AreRunAloneAtFirst) {
  Call call{"cast", {}, {}};
  call.replace("x", steps({256, 256}, 1));
  const Tensor& x = call.input("x");
  SmallBench b{call, x, with_other(x, {7, 9}, {0, 255}, 1)};
  ASSERT_TRUE(b.bench->by_rows());
  Indices shape;
  Hypothesis h;
  h.run = [&](Backend&, const Call& altered) {
    shape = altered.input("x").shape();
    NamedTensors out;
    Tensor y = altered.input("x");
    for (Index i = 0; i < y.elements(); i += 256) {
      const auto number = static_cast<Index>(y.as<float>()[i]) / 256;
      if (number == 7 || number == 9) y.as<float>()[i] += 1, y.as<float>()[i + 255] += 1;
    }
    out.emplace("y", y);
    return out;
  };
  b.bench->choose(4, 4);
  ASSERT_EQ(b.bench->window().rows, (Indices{0, 7, 9, 255}));
  auto trial = b.bench->run({&h});
  ASSERT_TRUE(trial);
  EXPECT_TRUE(trial->all());
  EXPECT_EQ(shape, (Indices{4, 256}));
  EXPECT_EQ(trial->patches[0].rows, (Indices{0, 7, 9, 255}));
  EXPECT_EQ(trial->patches[0].columns, range_of(256));
  b.bench->choose_whole();
  trial = b.bench->run({&h});
  ASSERT_TRUE(trial);
  EXPECT_TRUE(trial->all());
  EXPECT_EQ(shape, (Indices{256, 256}));
  EXPECT_EQ(trial->patches[0].rows, range_of(256));
  b.bench->choose(4, 4);
  ASSERT_TRUE(b.bench->run({&h}));
  EXPECT_EQ(shape, (Indices{4, 256}));
  b.bench->choose_whole();
  b.bench->take({{9}, {}});
  ASSERT_TRUE(b.bench->run({&h}));
  EXPECT_EQ(shape, (Indices{1, 256}));
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

// Altered calls, run whole, in a window of a product, or on some rows: where, and what they give.
#include <gtest/gtest.h>

#include <algorithm>

#include "formats/error.h"
#include "tests/golden/small_bench.h"

namespace mxo {
namespace {

using Indices = std::vector<Index>;

Hypothesis named(const char* name) {
  Hypothesis h{name, ""};
  return h;
}

/// x of the whole product is that of the row behind.
Hypothesis one_row_late() {
  Hypothesis h = named("late");
  h.alter = [](Call& call) {
    Tensor x = call.input("x");
    for (Index r = 0; r < x.elements(); ++r) x.as<float>()[r] += 1;
    call.replace("x", x);
    return true;
  };
  h.run = lines_added;
  return h;
}

/// What came of rows by columns was made of the row behind, the rest as expected.
SmallBench late_product(const Indices& rows, const Indices& columns) {
  const Call call = lines_by_lines({3, 5}, 6, 4);
  const auto backend = make_reference_backend();
  Tensor y = lines_added(*backend, call).at("y");
  return {call, y, with_other(y, rows, columns, 1)};
}

/// Another sum is that of every element, and so is another rounding.
TEST(BenchRuns, SumsAreOfTheWholeWindow) {
  for (const Stage stage : {Stage::rule, Stage::input, Stage::sum, Stage::output}) {
    SmallBench b = late_product({1}, {0, 1, 2, 3});
    Hypothesis h = one_row_late();
    h.stage = stage;
    b.runner->take({{0, 1}, {0, 1, 2, 3}});
    const auto trial = b.runner->run({&h});
    ASSERT_TRUE(trial);
    EXPECT_EQ(trial->fixed, stage == Stage::sum || stage == Stage::output ? 0 : 4);
  }
}

TEST(BenchRuns, ReadingsAreOfTheSlice) {
  // Row r of x is read at row r + 1.
  const auto behind = [](const Matrices& m, Index matrix, Index row, Index column) {
    return (matrix * m.rows + (row + 1) % m.rows) * m.columns + column;
  };
  bool fits = true;
  Hypothesis h = named("behind");
  h.readings = {make_reading(
      "x", [&fits](const Matrices&) { return fits; }, behind)};
  int altered = 0;
  h.alter = [&](Call& call) {
    ++altered;
    return read_whole(call, h.readings.front());
  };
  h.run = lines_added;
  SmallBench b = late_product({1, 3}, {0, 1, 2, 3});
  b.runner->take({{1, 3}, {0, 2}});
  const auto trial = b.runner->run({&h});
  ASSERT_TRUE(trial);
  EXPECT_TRUE(trial->all());
  EXPECT_EQ(altered, 0);
  fits = false;
  EXPECT_FALSE(b.runner->run({&h}));
  fits = true;
  // No product: the whole is altered.
  b.outputs.front().name = "z";
  AlteredCallRunner whole(*b.backend, b.call, b.outputs);
  h.run = [](Backend& backend, const Call& call) {
    NamedTensors out = lines_added(backend, call);
    out.emplace("z", out.at("y"));
    return out;
  };
  EXPECT_TRUE(whole.run({&h}));
  EXPECT_EQ(altered, 1);
}

TEST(BenchRuns, WhatDoesNotApplyIsNoTrial) {
  SmallBench b = late_product({1}, {0});
  b.runner->take({{1}, {0}});
  Hypothesis h = one_row_late();
  EXPECT_TRUE(b.runner->run({&h}));
  EXPECT_TRUE(b.runner->altered({&h}));
  const auto add = h.alter;
  h.alter = [](Call&) { return false; };
  EXPECT_FALSE(b.runner->altered({&h}));
  EXPECT_FALSE(b.runner->run({&h}));
  h.alter = [](Call&) -> bool { throw Error(Fault::shape, "too wide"); };
  EXPECT_FALSE(b.runner->altered({&h}));
  h.alter = [](Call& call) {
    call.op = "cast";
    return true;
  };
  EXPECT_FALSE(b.runner->run({&h})) << "a product no longer";
  h.alter = add;
  h.run = [](Backend&, const Call&) -> NamedTensors { throw Error(Fault::argument, "no"); };
  EXPECT_FALSE(b.runner->run({&h}));
  h.run = [](Backend&, const Call&) { return NamedTensors{}; };
  EXPECT_FALSE(b.runner->run({&h})) << "no y";
  h.run = lines_added;
  h.rewrite = [](const Call&, NamedTensors&) { return false; };
  EXPECT_FALSE(b.runner->run({&h}));
}

/// What a call that is no product explains where it gives `made`: all, some, or no trial.
std::string given(const Tensor& made, const Tensor& got, const Tensor& expected) {
  SmallBench b{Call{"any", {}, {}}, expected, got};
  Hypothesis h = named("given");
  h.run = [&](Backend&, const Call&) {
    NamedTensors out;
    out.emplace("y", made);
    return out;
  };
  const auto trial = b.runner->run({&h});
  return !trial ? "no trial" : trial->all() ? "all" : "some";
}

TEST(BenchRuns, OtherShapesAreNotResized) {
  const Tensor zeros(Dtype::f32, {3, 2});
  const Tensor got = floats({3, 2}, {1, 2, 3, 4, 0, 0});
  EXPECT_EQ(given(floats({3, 3}, {1, 2, 3, 4, 0, 0, 5, 6, 7}), got, zeros), "no trial");
  EXPECT_EQ(given(Tensor(Dtype::bf16, {2, 2}), got, zeros), "no trial");
  EXPECT_EQ(given(Tensor(Dtype::bf16, {3, 2}), got, zeros), "no trial");
  EXPECT_EQ(given(Tensor(Dtype::i32, {2, 2}), got, zeros), "no trial");
  EXPECT_EQ(given(floats({4}, {1, 2, 3, 4}), got, zeros), "no trial");
  const Tensor six = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(given(six, floats({4}, {1, 2, 3, 4}), Tensor(Dtype::f32, {4})), "no trial");
  EXPECT_EQ(given(six, floats({2, 2, 2}, {1, 2, 3, 4, 5, 6, 0, 0}), Tensor(Dtype::f32, {2, 2, 2})),
            "no trial");
}

TEST(BenchRuns, ModelsAreOfTheTypeOwed) {
  SmallBench b = late_product({1}, {0});
  b.runner->take({{1, 2}, {0, 1}});
  Hypothesis h = named("made");
  Tensor made(Dtype::f32, {2, 2});
  h.run = [&made](Backend&, const Call&) {
    NamedTensors out;
    out.emplace("y", made);
    return out;
  };
  EXPECT_TRUE(b.runner->run({&h}));
  made = Tensor(Dtype::f32, {1, 3});
  EXPECT_FALSE(b.runner->run({&h})) << "three of four elements";
  b.runner->take({{1, 2}, range_of(4)});
  made = Tensor(Dtype::f32, {1, 4});
  EXPECT_FALSE(b.runner->run({&h})) << "one of two rows";
  b.runner->take({{1, 2}, {0, 1}});
  made = Tensor(Dtype::bf16, {2, 2});
  EXPECT_FALSE(b.runner->run({&h}));
}

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
  b.runner->choose(8, 8);
  EXPECT_EQ(b.runner->window().rows, (Indices{0, 2, 5}));
  EXPECT_EQ(b.runner->failing().rows, (Indices{2, 5}));
}

TEST(BenchWindows, ColumnsAreThoseThatFailInTheRowsTaken) {
  // Row r fails in column r: of 40 the first and the last are taken, with rows 0 and 49.
  Tensor y(Dtype::f32, {50, 50});
  Tensor a = y;
  for (Index r = 5; r < 45; ++r) a = with_other(std::move(a), {r}, {r});
  SmallBench b{lines_by_lines({50}, 50, 50), y, a};
  b.runner->choose(2, 2);
  EXPECT_EQ(b.runner->window().rows, (Indices{0, 5, 44, 49}));
  EXPECT_EQ(b.runner->window().columns, (Indices{0, 5, 44, 49}));
}

TEST(BenchWindows, ColumnsOfOneScaleStayTogether) {
  SmallBench b = coded(3, 512, 128, {1}, {300});
  EXPECT_EQ(b.runner->widened({{1}, {5, 300}}).columns, joined(from_to(0, 127), from_to(256, 383)));
  EXPECT_EQ(b.runner->widened({{1}, {5, 300}}).rows, (Indices{1}));
  b.runner->choose(4, 8);
  EXPECT_EQ(b.runner->window().columns, joined(from_to(0, 127), from_to(256, 383)))
      << "the first, and one that fails";
  SmallBench first = coded(3, 512, 128, {1}, {5, 300});
  first.runner->choose(4, 8);
  EXPECT_EQ(first.runner->window().columns, from_to(0, 127)) << "one that fails is in it";
  SmallBench room = coded(3, 512, 128, {1}, {300});
  room.runner->choose(4, 80);
  EXPECT_EQ(room.runner->window().columns, from_to(0, 383))
      << "runs until there are twice as many, and one that fails";
}

/// Whether rows of an output of this shape are run on their own.
bool alone(const Call& call, std::vector<Index> shape) {
  const Tensor y(Dtype::u8, std::move(shape));
  std::vector<Output> outputs;
  outputs.push_back(make_output(call, "out", y, y));
  const auto backend = make_reference_backend();
  return AlteredCallRunner(*backend, call, outputs).by_rows();
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
  Tensor got = x;
  std::copy_n(x.as<float>() + 8 * 256, 256, got.as<float>() + 7 * 256);
  SmallBench b{call, x, got};
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
  b.runner->choose(4, 4);
  auto trial = b.runner->run({&h});
  ASSERT_TRUE(trial);
  EXPECT_TRUE(trial->all());
  EXPECT_EQ(altered, 0);
  b.runner->choose_whole();
  trial = b.runner->run({&h});
  ASSERT_TRUE(trial);
  EXPECT_TRUE(trial->all());
  EXPECT_EQ(altered, 1);
}

}  // namespace
}  // namespace mxo

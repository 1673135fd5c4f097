// Altered calls, run whole, in a window of a product, or on some rows.
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
    b.bench->take({{0, 1}, {0, 1, 2, 3}});
    const auto trial = b.bench->run({&h});
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
  b.bench->take({{1, 3}, {0, 2}});
  const auto trial = b.bench->run({&h});
  ASSERT_TRUE(trial);
  EXPECT_TRUE(trial->all());
  EXPECT_EQ(altered, 0);
  fits = false;
  EXPECT_FALSE(b.bench->run({&h}));
  fits = true;
  // No product: the whole is altered.
  b.outputs.front().name = "z";
  Bench whole(*b.backend, b.call, b.outputs);
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
  b.bench->take({{1}, {0}});
  Hypothesis h = one_row_late();
  EXPECT_TRUE(b.bench->run({&h}));
  EXPECT_TRUE(b.bench->altered({&h}));
  const auto add = h.alter;
  h.alter = [](Call&) { return false; };
  EXPECT_FALSE(b.bench->altered({&h}));
  EXPECT_FALSE(b.bench->run({&h}));
  h.alter = [](Call&) -> bool { throw Error(Fault::shape, "too wide"); };
  EXPECT_FALSE(b.bench->altered({&h}));
  h.alter = [](Call& call) {
    call.op = "cast";
    return true;
  };
  EXPECT_FALSE(b.bench->run({&h})) << "a product no longer";
  h.alter = add;
  h.run = [](Backend&, const Call&) -> NamedTensors { throw Error(Fault::argument, "no"); };
  EXPECT_FALSE(b.bench->run({&h}));
  h.run = [](Backend&, const Call&) { return NamedTensors{}; };
  EXPECT_FALSE(b.bench->run({&h})) << "no y";
  h.run = lines_added;
  h.rewrite = [](const Call&, NamedTensors&) { return false; };
  EXPECT_FALSE(b.bench->run({&h}));
}

/// What a call that is no product explains where it gives `made`: all, some, or no trial.
std::string given(const Tensor& made, const Tensor& came, const Tensor& expected) {
  SmallBench b{Call{"any", {}, {}}, expected, came};
  Hypothesis h = named("given");
  h.run = [&](Backend&, const Call&) {
    NamedTensors out;
    out.emplace("y", made);
    return out;
  };
  const auto trial = b.bench->run({&h});
  return !trial ? "no trial" : trial->all() ? "all" : "some";
}

TEST(BenchRuns, OtherShapesAreNotResized) {
  const Tensor zeros(Dtype::f32, {3, 2});
  const Tensor came = floats({3, 2}, {1, 2, 3, 4, 0, 0});
  EXPECT_EQ(given(floats({3, 3}, {1, 2, 3, 4, 0, 0, 5, 6, 7}), came, zeros), "no trial");
  EXPECT_EQ(given(Tensor(Dtype::bf16, {2, 2}), came, zeros), "no trial");
  EXPECT_EQ(given(Tensor(Dtype::bf16, {3, 2}), came, zeros), "no trial");
  EXPECT_EQ(given(Tensor(Dtype::i32, {2, 2}), came, zeros), "no trial");
  EXPECT_EQ(given(floats({4}, {1, 2, 3, 4}), came, zeros), "no trial");
  const Tensor six = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(given(six, floats({4}, {1, 2, 3, 4}), Tensor(Dtype::f32, {4})), "no trial");
  EXPECT_EQ(given(six, floats({2, 2, 2}, {1, 2, 3, 4, 5, 6, 0, 0}), Tensor(Dtype::f32, {2, 2, 2})),
            "no trial");
}

TEST(BenchRuns, ModelsAreOfTheTypeOwed) {
  SmallBench b = late_product({1}, {0});
  b.bench->take({{1, 2}, {0, 1}});
  Hypothesis h = named("made");
  Tensor made(Dtype::f32, {2, 2});
  h.run = [&made](Backend&, const Call&) {
    NamedTensors out;
    out.emplace("y", made);
    return out;
  };
  EXPECT_TRUE(b.bench->run({&h}));
  made = Tensor(Dtype::f32, {1, 3});
  EXPECT_FALSE(b.bench->run({&h})) << "three of four elements";
  b.bench->take({{1, 2}, range_of(4)});
  made = Tensor(Dtype::f32, {1, 4});
  EXPECT_FALSE(b.bench->run({&h})) << "one of two rows";
  b.bench->take({{1, 2}, {0, 1}});
  made = Tensor(Dtype::bf16, {2, 2});
  EXPECT_FALSE(b.bench->run({&h}));
}

}  // namespace
}  // namespace mxo

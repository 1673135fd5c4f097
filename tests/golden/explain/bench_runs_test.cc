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

TEST(BenchRuns, AWindowOfAProductIsCredited) {
  SmallBench b = late_product({1, 3}, {0, 1, 2, 3});
  const Hypothesis h = one_row_late();
  b.bench->take({{1, 3}, {0, 2}});
  const auto trial = b.bench->run({&h});
  ASSERT_TRUE(trial);
  EXPECT_TRUE(trial->all());
  EXPECT_EQ(trial->seen, 4);
  EXPECT_EQ(trial->fixed, 4);
  EXPECT_EQ(trial->broken, 0);
  EXPECT_GT(trial->gain_db, 100);
  ASSERT_EQ(trial->patches.size(), 1u);
  EXPECT_EQ(trial->patches[0].rows, (Indices{1, 3}));
  EXPECT_EQ(trial->patches[0].columns, (Indices{0, 2}));
  EXPECT_EQ(trial->patches[0].model.elements(), 0) << "not kept";
  EXPECT_EQ(trial->credits[0].mask, (std::vector<std::uint8_t>{1, 1, 1, 1}));
}

TEST(BenchRuns, WhatIsBrokenIsNotAll) {
  SmallBench b = late_product({1}, {0, 1, 2, 3});
  const Hypothesis h = one_row_late();
  b.bench->take({{0, 1}, {0, 1, 2, 3}});
  const auto trial = b.bench->run({&h});
  ASSERT_TRUE(trial);
  EXPECT_FALSE(trial->all());
  EXPECT_EQ(trial->broken, 4);
  EXPECT_EQ(trial->fixed, 4) << "row 1 is a unit of its own";
  RunResult t;
  EXPECT_FALSE(t.all()) << "nothing seen";
  t.seen = 2;
  t.fixed = 1;
  EXPECT_FALSE(t.all());
  t.fixed = 2;
  EXPECT_TRUE(t.all());
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

TEST(BenchRuns, LocalAlterationsAreOfTheSlice) {
  SmallBench b = late_product({1, 3}, {0, 1, 2, 3});
  Hypothesis h = one_row_late();
  h.local = true;
  const auto add = h.alter;
  Indices shape;
  h.alter = [&](Call& call) {
    shape = call.input("x").shape();
    return add(call);
  };
  b.bench->take({{1, 3}, {0, 2}});
  const auto trial = b.bench->run({&h});
  ASSERT_TRUE(trial);
  EXPECT_TRUE(trial->all());
  EXPECT_EQ(shape, (Indices{2, 1}));
  h.local = false;
  ASSERT_TRUE(b.bench->run({&h}));
  EXPECT_EQ(shape, (Indices{6, 1}));
  h.local = true;
  h.alter = [](Call&) { return false; };
  EXPECT_FALSE(b.bench->run({&h}));
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

/// The operator runs where no hypothesis has a run of its own, and outputs are rewritten.
TEST(BenchRuns, OperatorsRunAndOutputsAreRewritten) {
  Call call = lines_by_lines({3, 5}, 6, 4);
  call.set.set("out", "f32");
  const auto backend = make_reference_backend();
  for (const char* name : {"x", "w"}) {
    Tensor narrow(Dtype::bf16, call.input(name).shape());
    std::fill_n(narrow.as<BF16>(), narrow.elements(), encode<kBF16>(1.0f));
    call.replace(name, narrow);
  }
  const Tensor y = run_call(*backend, call).at("y");
  SmallBench b{call, y, with_other(y, {2}, {0, 1, 2, 3}, 1)};
  b.bench->take({{2, 4}, {0, 1, 2, 3}});
  Hypothesis more = named("more");
  more.rewrite = [](const Call& sliced, NamedTensors& out) {
    EXPECT_EQ(sliced.input("x").extent(0), 2);
    for (Index i = 0; i < 4; ++i) out.at("y").as<float>()[i] += 1;
    return true;
  };
  const auto trial = b.bench->run({&more});
  ASSERT_TRUE(trial);
  EXPECT_TRUE(trial->all());
  Hypothesis none = named("none");
  const auto as_it_is = b.bench->run({&none});
  ASSERT_TRUE(as_it_is);
  EXPECT_EQ(as_it_is->fixed, 0);
  EXPECT_EQ(as_it_is->broken, 4);
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

TEST(BenchRuns, RowsOfAnotherCountAreResized) {
  const Tensor zeros(Dtype::f32, {3, 2});
  const Tensor came = floats({3, 2}, {1, 2, 3, 4, 0, 0});
  EXPECT_EQ(given(came, came, zeros), "all");
  EXPECT_EQ(given(floats({2, 2}, {1, 2, 3, 4}), came, zeros), "all") << "zeros for one row";
  EXPECT_EQ(given(floats({4, 2}, {1, 2, 3, 4, 0, 0, 7, 8}), came, zeros), "all") << "cut";
  EXPECT_EQ(given(floats({6}, {1, 2, 3, 4, 0, 0}), came, zeros), "all") << "flat";
  EXPECT_EQ(given(floats({3, 2}, {1, 2, 3, 4, 5, 6}), floats({2, 2}, {1, 2, 3, 4}),
                  Tensor(Dtype::f32, {2, 2})),
            "all")
      << "as many rows as columns";
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

TEST(BenchRuns, OutputsOfOneCallAreAddedUp) {
  const Call call{"any", {}, {}};
  const Tensor zeros(Dtype::f32, {2, 2});
  const Tensor a = floats({2, 2}, {4, 4, 0, 0});
  const Tensor c = floats({2, 2}, {2, 0, 0, 2});
  std::vector<Output> outputs;
  outputs.push_back(make_output(call, "a", zeros, a));
  outputs.push_back(make_output(call, "b", zeros, zeros));
  outputs.push_back(make_output(call, "c", zeros, c));
  const auto backend = make_reference_backend();
  Bench bench(*backend, call, outputs);
  Hypothesis h = named("h");
  h.run = [&](Backend&, const Call&) {
    NamedTensors out;
    out.emplace("a", floats({2, 2}, {4, 2, 0, 0}));
    out.emplace("b", zeros);
    out.emplace("c", c);
    return out;
  };
  const auto trial = bench.run({&h});
  ASSERT_TRUE(trial);
  EXPECT_EQ(trial->seen, 4);
  EXPECT_EQ(trial->fixed, 2) << "all of c";
  EXPECT_EQ(trial->broken, 1);
  EXPECT_GT(trial->gain_db, 200) << "the best of those in which something is left";
  EXPECT_EQ(trial->patches.size(), 3u);
  EXPECT_EQ(trial->credits[2].mask, (std::vector<std::uint8_t>{1, 0, 0, 1}));
}

}  // namespace
}  // namespace mxo

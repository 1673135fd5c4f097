// Altered calls, run whole, in a window of a product, or on some rows: where, and what they give.
#include <gtest/gtest.h>

#include "golden/museum/operands.h"
#include "tests/golden/small_bench.h"

namespace mxo {
namespace {

using Indices = std::vector<Index>;

Hypothesis named(const char* name) {
  Hypothesis h{name, ""};
  return h;
}

/// What came of rows by columns was made of the row behind, the rest as expected.
SmallBench late_product(const Indices& rows, const Indices& columns) {
  const Call call = lines_by_lines({3, 5}, 6, 4);
  const auto backend = make_reference_backend();
  Tensor y = lines_added(*backend, call).at("y");
  return {call, y, with_other(y, rows, columns, 1)};
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

TEST(BenchRuns, ReadingsOfRowsThatAreGoneAreNoTrial) {
  Call call{"grouped_matmul_wgrad", {}, with({{"out", "f32"}})};
  call.replace("dy", steps({2, 3}, 1));
  call.replace("x", steps({2, 4}, 1));
  call.replace("group_ends", ends_at({2}));
  SmallBench b{call, Tensor(Dtype::f32, {1, 3, 4}), steps({1, 3, 4}, 1), "dw"};
  b.runner->take({range_of(3), range_of(4)});
  Hypothesis gone = named("gone");
  gone.alter = [](Call& of) {
    of.replace("dy", Tensor(Dtype::f32, {0, 3}));
    of.replace("x", Tensor(Dtype::f32, {0, 4}));
    of.replace("group_ends", ends_at({0}));
    return true;
  };
  const Hypothesis next =
      read_elsewhere("x=next", "", {read_lines("x", -1, [](Index i) { return i + 1; })});
  EXPECT_TRUE(b.runner->run({&next}));
  EXPECT_FALSE(b.runner->run({&gone, &next}));
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

}  // namespace
}  // namespace mxo

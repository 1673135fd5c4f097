// What outputs say by themselves, or because of the call that they are of.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "emu/backends.h"
#include "golden/explain/explain.h"
#include "tests/golden/differing.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

/// A call whose result has another size than what is expected here: no run of it explains anything.
Call of_another_size() {
  Call call{"cast", {}, {}};
  call.replace("x", Tensor(Dtype::f32, {2, 2}));
  return call;
}

Explanation explained(const NamedTensors& expected_output, const NamedTensors& got) {
  const auto backend = make_reference_backend();
  return explain(*backend, of_another_size(), expected_output, got);
}

NamedTensors named(const std::string& name, Tensor t) {
  NamedTensors one;
  one.emplace(name, std::move(t));
  return one;
}

Explanation explained(const Tensor& expected_output, const Tensor& got,
                      const std::string& name = "y") {
  return explained(named(name, expected_output), named(name, got));
}

/// The id of the one cause of all; else what is said.
std::string cause(const Tensor& expected_output, const Tensor& got, const std::string& name = "y") {
  const Explanation e = explained(expected_output, got, name);
  const bool one = e.verdict == ExplainVerdict::explained && e.causes.size() == 1;
  return one && e.causes[0].share == 1.0 ? e.causes[0].id : e.sentence();
}

/// No two numbers alike, in no order.
Tensor scattered(std::vector<Index> shape) {
  std::uint32_t state = 7;
  return filled<std::int32_t>(Dtype::i32, std::move(shape), [&](Index) {
    state = state * 1664525u + 1013904223u;
    return state >> 1;
  });
}

/// f32 numbers from 1 to 2.6.
Tensor floats_of(std::vector<Index> shape) {
  return filled<float>(Dtype::f32, std::move(shape),
                       [](Index i) { return 1.0f + static_cast<float>(i * 37 % 101) / 64; });
}

/// `given` of which element i is value(i, element).
template <typename Value>
Tensor with_values(Tensor given, const Value& value) {
  for (Index i = 0; i < given.elements(); ++i) {
    given.as<float>()[i] = value(i, given.as<float>()[i]);
  }
  return given;
}

TEST(ExplainedOutputs, InOtherOrdersNameThem) {
  const Tensor expected_output = scattered({16, 16});
  const auto of = [&expected_output](auto from) {
    return cause(expected_output, taken(expected_output, from));
  };
  EXPECT_EQ(of([](Index i) { return i < 3 ? i : i - 3; }), "elements.shifted");
  EXPECT_EQ(of([](Index i) { return i ^ 16; }), "order.rows");
  EXPECT_EQ(of([](Index i) { return i / 16 == 5 ? i + 64 : i; }), "rows.shifted");
  EXPECT_EQ(of([](Index i) { return i % 16 * 16 + i / 16; }), "order.transposed");
  EXPECT_EQ(of([](Index i) { return i % 4 == 3 ? i : i / 4 * 4 + (i % 4 + 1) % 3; }),
            "order.columns");
  EXPECT_EQ(of([](Index i) { return i / 16 < 4 && i % 16 < 4 ? i % 16 * 16 + i / 16 : i; }),
            "order.tiles_transposed");
  EXPECT_EQ(of([](Index i) { return i % 16 == 3   ? i + 5
                                    : i % 16 == 8 ? i - 5
                                                  : i; }),
            "columns.exchanged");
  EXPECT_EQ(of([](Index i) { return (i & 0xC3) | (i & 0x0C) << 2 | (i & 0x30) >> 2; }),
            "order.axes");
}

TEST(ExplainedOutputs, OfOtherValuesNameThem) {
  const Tensor expected_output = floats_of({16, 16});
  const auto of = [&expected_output](auto value) {
    return cause(expected_output, with_values(expected_output, value));
  };
  EXPECT_EQ(of([](Index, float v) { return 2 * v; }), "value.power_of_2");
  EXPECT_EQ(of([](Index, float v) { return 1.3f * v; }), "value.factor");
  EXPECT_EQ(of([](Index i, float v) { return i / 16 == 4 ? 4 * v : v; }), "value.power_of_2");
  EXPECT_EQ(of([](Index, float v) { return -v; }), "value.negated");
  EXPECT_EQ(of([](Index i, float v) { return i / 32 == 4 ? 0 : v; }), "never_written.zero");
}

TEST(ExplainedOutputs, ThatAreManyAreNotedEach) {
  const Tensor expected_output = floats_of({16, 16});
  NamedTensors all;
  for (const char* name : {"a", "b", "c", "d"}) all.emplace(name, expected_output);
  NamedTensors got = named("b", expected_output);
  const Explanation same = explained(all, got);
  EXPECT_EQ(same.verdict, ExplainVerdict::same);
  EXPECT_EQ(same.elements, 256);
  EXPECT_EQ(same.pattern,
            "a is missing and was not compared; c is missing and was not compared; d is missing "
            "and was not compared");
  got.emplace("c", with_values(expected_output, [](Index i, float v) { return i < 32 ? 0 : v; }));
  got.emplace("d", with_values(expected_output, [](Index i, float v) {
                return i < 7 ? v + static_cast<float>(i * 29 % 53 + 1) / 7 : v;
              }));
  const Explanation e = explained(all, got);
  EXPECT_EQ(e.verdict, ExplainVerdict::partly) << e.sentence();
  ASSERT_EQ(e.causes.size(), 1u) << e.sentence();
  EXPECT_EQ(e.causes[0].where.tensor, "c");
  EXPECT_DOUBLE_EQ(e.causes[0].share, 32.0 / 39);
  EXPECT_EQ(e.pattern.find("a is missing and was not compared; 7 elements differ"), 0u)
      << e.pattern;
}

}  // namespace
}  // namespace mxo

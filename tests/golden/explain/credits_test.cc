// What a model is credited with: NaN, and how far outputs are off.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "golden/explain/case/output.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor all(std::vector<Index> shape, float value) {
  return filled<float>(Dtype::f32, std::move(shape), [value](Index) { return value; });
}

/// What a model of an output is credited with, where all of the output was run.
VariantMatch credited(const Tensor& want, const Tensor& got, const Tensor& model, Unit least) {
  const Variant patch{range_of(want.extent(0)), range_of(want.extent(1)), model};
  return credit(make_output(Call{"op", {}, {}}, "y", want, got), patch, least);
}

TEST(Credits, NanIsOneValue) {
  const Tensor ones = all({1, 4}, 1);
  const Tensor got = floats({1, 4}, {kNaN, kNaN, 2, 1});
  const auto of = [&](std::initializer_list<float> model) {
    return credited(ones, got, floats({1, 4}, model), Unit::whole);
  };
  EXPECT_EQ(of({-kNaN, kNaN, 2, 1}).fixed, 3);
  EXPECT_EQ(of({-kNaN, 1, 2, 1}).broken, 1);
  EXPECT_EQ(of({-kNaN, kNaN, kNaN, 1}).broken, 1);
}

TEST(Credits, NanThatIsExpectedIsAlteredByNone) {
  const Tensor want = floats({2, 4}, {kNaN, kNaN, kNaN, kNaN, 1, 1, 1, 1});
  const Tensor got = floats({2, 4}, {2, kNaN, kNaN, kNaN, 3, 1, 1, 1});
  const auto of = [&](float first) {
    const Tensor model = floats({2, 4}, {2, -kNaN, -kNaN, -kNaN, first, 1, 1, 1});
    return credited(want, got, model, Unit::row);
  };
  const VariantMatch both = of(3);
  EXPECT_EQ(both.fixed, 2);
  EXPECT_EQ(std::count(both.mask.begin(), both.mask.end(), 1), 2);
  EXPECT_EQ(of(4).fixed, 0) << "one altered of four";
}

std::vector<Output> only(const Tensor& expected, const Tensor& actual) {
  std::vector<Output> list;
  list.push_back(make_output(Call{"op", {}, {}}, "y", expected, actual));
  return list;
}

/// Of 1, 1, 2, NaN, -1, 0, 0 and 1 the second came as 2; then NaN as 1, too.
TEST(Credits, DistancesOfCodesAreOfTheirValues) {
  const auto codes = [](std::uint8_t second, std::uint8_t fourth) {
    return tensor_from<std::uint8_t>(Dtype::e4m3, {2, 4},
                                     {0x38, second, 0x40, fourth, 0xB8, 0, 0, 0x38});
  };
  const Tensor expected = codes(0x38, 0x7F), near = codes(0x40, 0x7F), far = codes(0x40, 0x38);
  EXPECT_NEAR(sqnr_of(only(expected, near)), 10 * std::log10(8.0), 1e-12);
  EXPECT_EQ(left_of(only(expected, near)), 1);
  std::vector<Output> both = only(expected, near);
  both.push_back(only(expected, far).front());
  EXPECT_EQ(left_of(both), 3);
  EXPECT_EQ(sqnr_of(both), -kInf);
}

/// 3 of 1, 2 and 3 in bf16 came as 2; 2^-127 as 2^-126; a zero with the other sign is no farther.
TEST(Credits, DistancesOfOtherTypesAreOfNumbers) {
  const auto sqnr = [](const Tensor& expected, const Tensor& actual) {
    return sqnr_of(only(expected, actual));
  };
  EXPECT_NEAR(sqnr(tensor_from<std::uint16_t>(Dtype::bf16, {3}, {0x3F80, 0x4000, 0x4040}),
                   tensor_from<std::uint16_t>(Dtype::bf16, {3}, {0x3F80, 0x4000, 0x4000})),
              10 * std::log10(14.0), 1e-12);
  EXPECT_NEAR(sqnr(tensor_from<std::uint8_t>(Dtype::e8m0, {2}, {0, 0}),
                   tensor_from<std::uint8_t>(Dtype::e8m0, {2}, {0, 1})),
              10 * std::log10(2.0), 1e-12);
  EXPECT_EQ(sqnr(floats({2}, {0, 0}), floats({2}, {0, -0.0f})), kInf);
}

TEST(Credits, TheFirstStepToDifferIsKept) {
  struct Row {
    std::vector<std::string> differ;
    std::vector<std::string> kept;
    const char* later;
  };
  for (const Row& row : {
           Row{{"y"}, {"y"}, "the first step to differ is y"},
           Row{{"rank1.h.codes", "y"},
               {"h.scales", "rank0.h.codes", "rank1.h.codes"},
               "the first step to differ is h; 1 later output differs, too"},
           Row{{"h.scales", "rank0.expert_out", "y"},
               {"h.scales", "rank0.h.codes", "rank1.h.codes"},
               "the first step to differ is h; 2 later outputs differ, too"},
           Row{{}, {"h.scales", "rank0.expert_out", "rank0.h.codes", "rank1.h.codes", "y"}, ""},
       }) {
    NamedTensors expected, actual;
    for (const char* name :
         {"h.scales", "rank0.expert_out", "rank0.h.codes", "rank1.h.codes", "y"}) {
      const bool differs =
          std::find(row.differ.begin(), row.differ.end(), name) != row.differ.end();
      expected.emplace(name, all({2}, 1));
      actual.emplace(name, all({2}, differs ? 2 : 1));
    }
    const Call call{"moe_layer", {}, {}};
    Outputs outputs = outputs_of(call, expected, actual);
    keep_first_step(call, outputs);
    std::vector<std::string> names;
    for (const Output& o : outputs.list) names.push_back(o.name);
    EXPECT_EQ(names, row.kept) << row.later;
    EXPECT_EQ(outputs.later, row.later);
  }
}

}  // namespace
}  // namespace mxo

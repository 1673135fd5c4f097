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

Tensor filled(std::vector<Index> shape, float value) {
  Tensor t(Dtype::f32, std::move(shape));
  std::fill_n(t.as<float>(), t.elements(), value);
  return t;
}

/// An output of ones of which some elements came as others.
struct Held {
  Held(Index rows, Index columns)
      : expected(filled({rows, columns}, 1)), actual(filled({rows, columns}, 1)) {}
  Output output() const { return make_output(Call{"op", {}, {}}, "y", expected, actual); }
  Variant all() const {
    return {range_of(expected.extent(0)), range_of(expected.extent(1)), actual};
  }
  float& actual_bits(Index r, Index c) { return actual.as<float>()[r * expected.extent(1) + c]; }
  Tensor expected, actual;
};

float& model_at(Variant& patch, Index r, Index c) {
  return patch.model.as<float>()[r * static_cast<Index>(patch.columns.size()) + c];
}

TEST(Credits, NanIsOneValue) {
  Held held(1, 4);
  held.actual_bits(0, 0) = kNaN;
  held.actual_bits(0, 1) = kNaN;
  held.actual_bits(0, 2) = 2;
  Variant patch = held.all();
  model_at(patch, 0, 0) = -kNaN;
  const VariantMatch c = credit(held.output(), patch, Unit::whole);
  EXPECT_EQ(c.fixed, 3);
  model_at(patch, 0, 1) = 1;
  EXPECT_EQ(credit(held.output(), patch, Unit::whole).broken, 1);
  model_at(patch, 0, 1) = kNaN;
  model_at(patch, 0, 2) = kNaN;
  EXPECT_EQ(credit(held.output(), patch, Unit::whole).broken, 1);
  // NaN that is expected is altered by none.
  Held expected_output(2, 4);
  for (Index i = 0; i < 4; ++i)
    expected_output.expected.as<float>()[i] = expected_output.actual.as<float>()[i] = kNaN;
  expected_output.actual_bits(1, 0) = 3;
  expected_output.actual_bits(0, 0) = 2;
  Variant rows = expected_output.all();
  for (Index i = 1; i < 4; ++i) model_at(rows, 0, i) = -kNaN;
  const VariantMatch both = credit(expected_output.output(), rows, Unit::row);
  EXPECT_EQ(both.fixed, 2);
  EXPECT_EQ(std::count(both.mask.begin(), both.mask.end(), 1), 2) << "NaN as owed is not fixed";
  model_at(rows, 1, 0) = 4;
  EXPECT_EQ(credit(expected_output.output(), rows, Unit::row).fixed, 0) << "one altered of four";
}

TEST(Credits, DistancesOfCodesAreOfTheirValues) {
  Tensor expected(Dtype::e4m3, {2, 4}), actual(Dtype::e4m3, {2, 4});
  const std::uint8_t codes[] = {0x38, 0x38, 0x40, 0x7F, 0xB8, 0, 0, 0x38};  // 1, 1, 2, NaN, -1, 1
  for (Tensor* t : {&expected, &actual}) {
    std::copy(std::begin(codes), std::end(codes), reinterpret_cast<std::uint8_t*>(t->data()));
  }
  reinterpret_cast<std::uint8_t*>(actual.data())[1] = 0x40;
  std::vector<Output> list;
  list.push_back(make_output(Call{"op", {}, {}}, "y", expected, actual));
  EXPECT_NEAR(sqnr_of(list), 10 * std::log10(8.0), 1e-12);
  EXPECT_EQ(left_of(list), 1);
  reinterpret_cast<std::uint8_t*>(actual.data())[3] = 0x38;
  list.push_back(make_output(Call{"op", {}, {}}, "y", expected, actual));
  EXPECT_EQ(left_of(list), 3);
  EXPECT_EQ(sqnr_of(list), -kInf);
}

/// 3 of 1, 2 and 3 in bf16 came as 2; 2^-127 as 2^-126; a zero with the other sign is no farther.
TEST(Credits, DistancesOfOtherTypesAreOfNumbers) {
  const auto sqnr = [](const Tensor& expected, const Tensor& actual) {
    std::vector<Output> list;
    list.push_back(make_output(Call{"op", {}, {}}, "y", expected, actual));
    return sqnr_of(list);
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
      expected.emplace(name, filled({2}, 1));
      actual.emplace(name, filled({2}, differs ? 2.0f : 1.0f));
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

// The catalogue's operators of single elements and columns: what of a call reaches the backend.
#include "ops/elementwise.h"

#include "ops/approximate.h"
#include "ops/convert.h"
#include "tests/ops/entry_calls.h"

namespace mxo {
namespace {

TEST(ElementwiseEntries, FloatsAreCast) {
  EntryCalls<Cast> call{"cast"};
  call.add("x", Dtype::i32, {2, 3});
  EXPECT_EQ(call.told(call.op().x), "x f32 [2, 3]");
  EXPECT_EQ(call.made(), "y bf16 [2, 3]");
  EXPECT_EQ(call.told(call.op({{"out", "f16"}}).y), "y f16 [2, 3]");
}

TEST(ElementwiseEntries, BiasesAreAdded) {
  EntryCalls<AddBias> call{"add_bias"};
  call.add("y", Dtype::i32, {5, 3});
  call.add("bias", Dtype::u16, {3});
  const AddBias& op = call.op();
  EXPECT_EQ(call.told(op.y), "y f32 [5, 3]");
  EXPECT_EQ(call.told(op.bias), "bias bf16 [3]");
  EXPECT_FALSE(op.group_ends.given());
  EXPECT_EQ(call.told(op.out), "out bf16 [5, 3]");
  call.add("bias", Dtype::u16, {2, 3});
  call.numbers("group_ends", {2, 5});
  EXPECT_EQ(call.told(call.op({{"out", "f32"}}).group_ends), "group_ends i32 [2]");
  EXPECT_EQ(call.told(call.backend.kept[0].out), "out f32 [5, 3]");
}

TEST(ElementwiseEntries, ColumnsAreSummed) {
  EntryCalls<ColumnSum> call{"column_sum"};
  call.add("x", Dtype::u16, {5, 3});
  EXPECT_EQ(call.told(call.op().x), "x bf16 [5, 3]");
  EXPECT_FALSE(call.backend.kept[0].group_ends.given());
  EXPECT_EQ(call.made(), "sum f32 [3]");
  EXPECT_EQ(call.told(call.op({{"out", "bf16"}}).sum), "sum bf16 [3]");
  EXPECT_EQ(call.said({{"over", "groups"}}),
            "column_sum: group_ends: missing, needed with sum of rank 2");
  call.numbers("group_ends", {2, 5});
  EXPECT_EQ(call.told(call.op().sum), "sum f32 [3]") << "of the rows in groups";
  EXPECT_EQ(call.told(call.backend.kept[0].group_ends), "group_ends i32 [2]");
  EXPECT_EQ(call.told(call.op({{"over", "groups"}}).sum), "sum f32 [2, 3]");
  EXPECT_EQ(call.said_of("x", Dtype::f32, {5}), "column_sum: x: found f32 [5], needs rank 2");
}

TEST(ElementwiseEntries, FunctionsAreThoseOfTheChip) {
  EntryCalls<Approximate> call{"approximate"};
  call.add("x", Dtype::i32, {2, 3});
  const Approximate& op = call.op();
  EXPECT_EQ(call.told(op.x), "x f32 [2, 3]");
  EXPECT_FALSE(op.b.given());
  EXPECT_EQ(op.function, ChipFunction::ex2);
  EXPECT_TRUE(op.ftz);
  EXPECT_EQ(call.told(op.y), "y f32 [2, 3]");
  EXPECT_FALSE(call.op({{"ftz", "false"}}).ftz);
  const std::pair<const char*, ChipFunction> functions[] = {
      {"ex2", ChipFunction::ex2},   {"rcp", ChipFunction::rcp}, {"rsqrt", ChipFunction::rsqrt},
      {"sqrt", ChipFunction::sqrt}, {"lg2", ChipFunction::lg2}, {"tanh", ChipFunction::tanh}};
  for (const auto& [name, function] : functions) {
    EXPECT_EQ(call.op({{"function", name}}).function, function) << name;
  }
  call.add("b", Dtype::i32, {2, 3});
  EXPECT_EQ(call.told(call.op({{"function", "div_full"}}).b), "b f32 [2, 3]");
  EXPECT_EQ(call.backend.kept[0].function, ChipFunction::div_full);
  EXPECT_EQ(call.said({{"machine", "sm90"}, {"function", "div_full"}}), "");
  EXPECT_EQ(call.said({{"machine", "sm100"}}), "approximate: machine: found sm100, needs sm90");
}

TEST(ElementwiseEntries, FloatsAreEncoded) {
  EntryCalls<Encode> call{"encode"};
  call.add("x", Dtype::u16, {2, 3});
  const Encode& op = call.op();
  EXPECT_EQ(call.told(op.x), "x bf16 [2, 3]");
  EXPECT_EQ(call.told(op.codes), "codes e4m3 [2, 3]");
  EXPECT_EQ(op.overflow, Overflow::saturate);
  EXPECT_EQ(op.nan, NanSign::positive);
  EXPECT_EQ(op.rounding, E8M0Rounding::nearest);
  const Encode& other = call.op({{"format", "e5m2"}, {"overflow", "nonfinite"}, {"nan", "signed"}});
  EXPECT_EQ(call.told(other.codes), "codes e5m2 [2, 3]");
  EXPECT_EQ(other.overflow, Overflow::nonfinite);
  EXPECT_EQ(other.nan, NanSign::of_operand);
  EXPECT_EQ(call.op({{"format", "e8m0"}, {"rounding", "up"}}).rounding, E8M0Rounding::up);
  EXPECT_EQ(call.op({{"format", "e8m0"}, {"rounding", "zero"}}).rounding, E8M0Rounding::zero);
}

TEST(ElementwiseEntries, CodesAreDecoded) {
  EntryCalls<Decode> call{"decode"};
  call.add("codes", Dtype::u8, {2, 3});
  EXPECT_EQ(call.told(call.op().codes), "codes e4m3 [2, 3]");
  EXPECT_EQ(call.made(), "x f32 [2, 3]");
  EXPECT_EQ(call.told(call.op({{"format", "e8m0"}}).codes), "codes e8m0 [2, 3]");
  EXPECT_EQ(call.told(call.backend.kept[0].x), "x f32 [2, 3]");
}

}  // namespace
}  // namespace mxo

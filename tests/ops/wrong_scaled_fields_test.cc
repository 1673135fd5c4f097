// Operators on codes and scales with one field wrong: refused by name, and before anything runs.
#include "formats/tensor.h"
#include "tests/ops/right_call.h"
#include "tests/support/random_tensors.h"

namespace mxo::wrong_scaled_fields_test {
namespace {

TEST(WrongFields, OfQuantizersAreRefused) {
  Tensor x(Dtype::f32, {6, 64}), codes(Dtype::e4m3, {6, 64}), scales(Dtype::e8m0, {6, 2});
  Tensor numbers(Dtype::f32, {6, 1}), given(Dtype::f32, {6, 1}), ends = test::integers_of({4, 6});
  Tensor blocks(Dtype::f32, {2, 64});
  expect_checked("quantize", quantize, {x.operand(), {}, {codes.result(), scales.result()}});
  expect_checked(
      "quantize", quantize,
      {x.operand(), {}, {codes.result(), numbers.result(), kRowBlock}, {}, given.operand()});
  expect_checked("quantize", quantize,
                 {x.operand(), ends.operand(), {codes.result(), blocks.result(), kColumnBlock}},
                 {"group_ends.0"});
  expect_checked("dequantize", dequantize, {{codes.operand(), scales.operand()}, {}, x.result()});
  expect_checked("dequantize", dequantize,
                 {{codes.operand(), blocks.operand(), kColumnBlock}, ends.operand(), x.result()},
                 {"group_ends.0"});
}

TEST(WrongFields, OfGatesThatQuantizeAreRefused) {
  Tensor x(Dtype::bf16, {6, 64}), probs(Dtype::f32, {6}), dy(Dtype::bf16, {6, 32});
  Tensor codes(Dtype::e4m3, {6, 32}), scales(Dtype::e8m0, {6, 1});
  Tensor dcodes(Dtype::e4m3, {6, 64}), dscales(Dtype::e8m0, {6, 2}), dprobs(Dtype::f32, {6});
  RightCall<SwigluQuantize> gate{
      "swiglu_quantize",
      swiglu_quantize,
      {x.operand(), probs.operand(), {}, Dtype::f32, {codes.result(), scales.result()}}};
  RightCall<SwigluQuantizeBackward> back{"swiglu_quantize_backward", swiglu_quantize_backward, {}};
  const ScaledResult to{dcodes.result(), dscales.result()};
  back.op = {x.operand(), probs.operand(), dy.operand(), {}, Dtype::f32, to, {}, dprobs.result()};
  gate.expect_that_checks_see_all();
  back.expect_that_checks_see_all();
  gate.op.rounding = back.op.rounding = Dtype::e4m3;
  for (const std::string& said : {gate.complaint(gate.op), back.complaint(back.op)})
    EXPECT_NE(said.find("rounding: found e4m3, needs f32, bf16 or f16"), said.npos) << said;
  back.op.rounding = Dtype::f32;
  back.op.probs = {};
  EXPECT_EQ(back.complaint(back.op),
            "swiglu_quantize_backward: dprobs: needs to be given exactly when probs is");
}

TEST(WrongFields, OfDelayedScalesAreRefused) {
  Tensor x(Dtype::bf16, {6, 4}), history(Dtype::f32, {3}), scale(Dtype::f32, {1});
  Tensor next(Dtype::f32, {3}), next_scale(Dtype::f32, {1}), none(Dtype::f32, {0});
  DelayedScale op;
  op.history = history.operand();
  op.scale = scale.operand();
  op.next_history = next.result();
  op.next_scale = next_scale.result();
  expect_checked("delayed_scale", delayed_scale, op);
  op.x = x.operand();
  using D = DelayedScale;
  const RightCall<D> right{"delayed_scale", delayed_scale, op, {"x"}};
  right.expect_that_checks_see_all();
  right.expect_refusal([](D& d) { d.x.dtype = Dtype::i32; },
                       "x: found i32, needs f32, bf16 or f16");
  right.expect_refusal([](D& d) { d.format = Dtype::bf16; },
                       "format: found bf16, needs e4m3, e4m3fnuz, e5m2 or e5m2fnuz");
  right.expect_refusal([&](D& d) { d.history = none.operand(), d.next_history = none.result(); },
                       "history: found no element, needs one");
  D bad = op;
  bad.history = scale.operand();
  bad.scale = history.operand();
  bad.scale.extent[0] = 1;
  bad.next_history = next.result();
  bad.next_history.extent[0] = 1;
  EXPECT_EQ(right.complaint(bad), "") << "one element is a history";
}

TEST(WrongFields, OfTransposesThatKeepScalesAreRefused) {
  Tensor codes(Dtype::e4m3, {6, 4}), scales(Dtype::f32, {6, 1}), ends = test::integers_of({2, 5});
  Tensor turned(Dtype::e4m3, {4, 6}), out(Dtype::f32, {2, 4});
  using T = ScalingAwareTranspose;
  T op{codes.operand(), scales.operand(), ends.operand(), turned.result(), out.result()};
  const RightCall<T> right{
      "scaling_aware_transpose", scaling_aware_transpose, op, {"group_ends.0"}};
  right.expect_that_checks_see_all();
  const auto with_scale = [&](Index row, float scale) {
    scales.as<float>()[row] = scale;
    const std::string said = right.complaint(op);
    scales.as<float>()[row] = 0;
    return said;
  };
  EXPECT_EQ(with_scale(0, 0x1p-126f), "");
  EXPECT_EQ(with_scale(4, 0x1p127f), "");
  EXPECT_EQ(with_scale(5, 3), "") << "a row of no group";
  const std::string needs = ", needs a power of two of at least 2^-126, or +0";
  EXPECT_EQ(with_scale(4, 3), "scaling_aware_transpose: scales: entry [4, 0] is 3.000000" + needs);
  for (const float bad : {0x1p-127f, -1.0f, -0.0f, 1.5f, std::numeric_limits<float>::infinity()})
    EXPECT_NE(with_scale(0, bad).find(needs), std::string::npos) << bad;
  op.codes.dtype = Dtype::e4m3fnuz;
  EXPECT_EQ(right.complaint(op), "scaling_aware_transpose: codes_out: found e4m3, needs e4m3fnuz");
  op.codes_out.dtype = Dtype::e4m3fnuz;
  EXPECT_EQ(right.complaint(op), "");
  op.underflow = Underflow::flush;
  EXPECT_EQ(right.complaint(op),
            "scaling_aware_transpose: underflow: found a rule of e4m3, needs "
            "round for e4m3fnuz");
}

/// Two columns of scales; groups that end at `ends`.
std::string transposed_with(const std::vector<std::int32_t>& ends, Index row, Index column) {
  Tensor codes(Dtype::e4m3, {3, 130}), scales(Dtype::f32, {3, 2}), turned(Dtype::e4m3, {130, 3});
  Tensor groups = test::integers_of(ends), out(Dtype::f32, {groups.elements(), 130});
  scales.as<float>()[row * 2 + column] = 3;
  Bare bare;
  return check_refusal([&] {
    scaling_aware_transpose(
        bare, {codes.operand(), scales.operand(), groups.operand(), turned.result(), out.result()});
  });
}

TEST(WrongFields, OfKeptScalesAreThoseOfGroups) {
  EXPECT_EQ(transposed_with({}, 0, 0), "");
  EXPECT_EQ(transposed_with({1}, 1, 0), "");
  const std::string op = "scaling_aware_transpose: scales: entry ";
  const std::string needs = " is 3.000000, needs a power of two of at least 2^-126, or +0";
  EXPECT_EQ(transposed_with({1}, 0, 0), op + "[0, 0]" + needs);
  EXPECT_EQ(transposed_with({1, 3}, 2, 1), op + "[2, 1]" + needs);
}

using S = SwizzleScales;

void both_refuse(ScaleLayout layout, Tensor& scales, Tensor& blocked, const Tensor* ends,
                 std::set<std::string> free) {
  const Operand groups = ends != nullptr ? ends->operand() : Operand{};
  const RightCall<S> to{
      "swizzle_scales", swizzle_scales, {scales.operand(), groups, blocked.result(), layout}, free};
  to.expect_that_checks_see_all();
  expect_checked("unswizzle_scales", unswizzle_scales,
                 {blocked.operand(), groups, scales.result(), layout}, free);
  to.expect_refusal([](S& s) { s.blocked.stride[s.blocked.rank - 1] = 2; },
                    "blocked: found strides, needs contiguous bytes");
  to.expect_refusal([&](S& s) { s.group_ends = ends != nullptr ? Operand{} : scales.operand(); },
                    ends != nullptr ? "group_ends: missing, this layout needs i32 [G]"
                                    : "group_ends: found, needs layout m_groups or k_groups");
}

TEST(ScaleLayoutChecks, RefuseWrongFields) {
  Tensor ends(Dtype::i32, {2});
  // Of 40 rows and 6 columns of scales less a row, or a column, takes as many bytes.
  Tensor scales(Dtype::e8m0, {40, 6}), blocked(Dtype::e8m0, {1024});
  both_refuse(ScaleLayout::blocked, scales, blocked, nullptr, {"scales.0", "scales.1"});
  Tensor many(Dtype::e8m0, {3, 40, 6}), of_many(Dtype::u8, {3, 1024});
  both_refuse(ScaleLayout::per_group_3d, many, of_many, nullptr, {"scales.1", "scales.2"});
  Tensor in_groups(Dtype::u8, {296, 8});
  ends.as<std::int32_t>()[1] = 40;
  both_refuse(ScaleLayout::m_groups, scales, in_groups, &ends, {"scales.1"});
  Tensor along_k(Dtype::u8, {128, 14});
  ends.as<std::int32_t>()[1] = 6;
  both_refuse(ScaleLayout::k_groups, scales, along_k, &ends, {"scales.0"});
  ends.as<std::int32_t>()[1] = 7;
  const RightCall<S> past{
      "swizzle_scales",
      swizzle_scales,
      {scales.operand(), ends.operand(), along_k.result(), ScaleLayout::k_groups}};
  EXPECT_NE(past.complaint(past.op).find("group_ends"), std::string::npos) << "columns end at 6";
}

using P = PackScales;

void both_refuse(PackedLayout layout, Tensor& scales, Tensor& packed, std::set<std::string> free) {
  const RightCall<P> to{
      "swizzle_scales", pack_scales, {scales.operand(), packed.result(), layout}, free};
  to.expect_that_checks_see_all();
  expect_checked("unswizzle_scales", unpack_scales, {packed.operand(), scales.result(), layout},
                 free);
  to.expect_refusal([](P& p) { p.packed.stride[p.packed.rank - 1] = 2; },
                    "blocked: found strides, needs contiguous elements");
}

TEST(PackedScaleChecks, RefuseWrongFields) {
  Tensor floats(Dtype::f32, {6, 3}), tma(Dtype::f32, {3, 8});
  both_refuse(PackedLayout::mn_major_tma, floats, tma, {"scales.0", "scales.1"});
  both_refuse(PackedLayout::cublas_1x128, floats, tma, {"scales.0"});
  Tensor bytes(Dtype::e8m0, {6, 3}), words(Dtype::i32, {1, 8}), tiles(Dtype::u8, {32});
  both_refuse(PackedLayout::packed_ue8m0, bytes, words, {"scales.0", "scales.1"});
  both_refuse(PackedLayout::tiles_8x4, bytes, tiles, {"scales.0", "scales.1"});
}

}  // namespace
}  // namespace mxo::wrong_scaled_fields_test

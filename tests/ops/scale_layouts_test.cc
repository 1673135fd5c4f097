// Layouts of scales with one field wrong: refused, by name; and the shapes that they take.
#include "ops/scale_layouts.h"

#include "formats/tensor.h"
#include "ops/packed_scales.h"
#include "tests/ops/right_call.h"

namespace mxo {
namespace {

using S = SwizzleScales;

void both_refuse(ScaleLayout layout, Tensor& scales, Tensor& blocked, const Tensor* ends,
                 std::set<std::string> free) {
  const Operand groups = ends != nullptr ? ends->operand() : Operand{};
  const RightCall<S> to{
      "swizzle_scales", swizzle_scales, {scales.operand(), groups, blocked.result(), layout}, free};
  to.expect_that_checks_see_all();
  expect_checked("unswizzle_scales", unswizzle_scales,
                 {blocked.operand(), groups, scales.result(), layout}, free);
  S strided = to.op;
  strided.blocked.stride[strided.blocked.rank - 1] = 2;
  EXPECT_NE(to.complaint(strided).find("blocked: found strides"), std::string::npos);
  S wrong = to.op;
  wrong.group_ends = ends != nullptr ? Operand{} : scales.operand();
  const char* words = ends != nullptr ? "group_ends: missing" : "group_ends: found, needs layout";
  EXPECT_NE(to.complaint(wrong).find(words), std::string::npos) << to.complaint(wrong);
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
  P strided = to.op;
  strided.packed.stride[strided.packed.rank - 1] = 2;
  EXPECT_NE(to.complaint(strided).find("blocked: found strides"), std::string::npos);
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
}  // namespace mxo

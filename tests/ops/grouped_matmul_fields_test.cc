// Fields of grouped products that a caller of C++ may get wrong, where no catalogue stands before.
#include "ops/grouped_matmul.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "formats/error.h"
#include "formats/tensor.h"
#include "ops/backend.h"

namespace mxo {
namespace {

/// Honours every sum and computes nothing.
class Willing : public Backend {
 public:
  std::string_view name() const override { return "willing"; }
  bool honours(const Accumulation&) const override { return true; }

 protected:
  using Backend::run;
  void run(const GroupedMatmul&) override {}
  void run(const GroupedMatmulWgrad&) override {}
};

Tensor ends(std::initializer_list<std::int32_t> values) {
  Tensor t(Dtype::i32, {static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), t.as<std::int32_t>());
  return t;
}

std::string complaint_of(const auto& op, void (*call)(Backend&, decltype(op))) {
  Willing backend;
  try {
    call(backend, op);
  } catch (const Error& error) {
    return error.what();
  }
  return "no complaint";
}

/// One field of a right call, spoilt, and the operand that is to be named.
template <typename Op>
struct WrongField {
  const char* operand;
  void (*spoil)(Op&);
};

TEST(GroupedMatmulFields, RefuseEveryWrongFieldOfTheForward) {
  Tensor x(Dtype::e4m3, {64, 256}), w(Dtype::e4m3, {2, 130, 256});
  Tensor x_scales(Dtype::f32, {64, 2}), w_scales(Dtype::f32, {2, 2, 2}), y(Dtype::bf16, {64, 130});
  Tensor group_ends = ends({32, 64});
  GroupedMatmul good;
  good.x = {x.operand(), x_scales.operand(), {1, 128}, ScaleStorage::row_major};
  good.w = {w.operand(), w_scales.operand(), {128, 128}, ScaleStorage::row_major};
  good.group_ends = group_ends.operand();
  good.y = y.result();
  EXPECT_EQ(complaint_of(good, grouped_matmul), "no complaint");
  using Op = GroupedMatmul;
  for (const auto& [operand, spoil] : std::initializer_list<WrongField<Op>>{
           {"x.codes", [](Op& op) { op.x.codes.rank = 1; }},
           {"x.codes", [](Op& op) { op.x.codes.rank = 3; }},
           {"w.codes", [](Op& op) { op.w.codes.rank = 2; }},
           {"x", [](Op& op) { op.x.codes.dtype = Dtype::i32; }},
           {"w", [](Op& op) { op.w.codes.dtype = Dtype::u64; }},
           {"w.codes", [](Op& op) { op.w.codes.extent[2] = 255; }},
           {"x.scales", [](Op& op) { op.x.scales = {}; }},
           {"x.scales", [](Op& op) { op.x.scales.dtype = Dtype::bf16; }},
           {"x.scales", [](Op& op) { op.x.block.rows = -1; }},
           {"w.scales", [](Op& op) { op.w.block.columns = -1; }},
           {"w.scales", [](Op& op) { op.w.storage = ScaleStorage::blocked; }},
           {"x.scales", [](Op& op) { op.x.scales.extent[0] = 65; }},
           {"x.scales",
            [](Op& op) {
              op.x.block = {1, 64};
            }},
           {"w.scales", [](Op& op) { op.w.block = kWholeTensor; }},
           {"group_ends", [](Op& op) { op.group_ends.extent[0] = 1; }},
           {"group_ends", [](Op& op) { op.group_ends.dtype = Dtype::f32; }},
           {"y", [](Op& op) { op.y.dtype = Dtype::f16; }},
           {"y", [](Op& op) { op.y.extent[0] = 63; }},
           {"y", [](Op& op) { op.y.extent[1] = 131; }},
           {"y", [](Op& op) { op.y.rank = 1; }}}) {
    GroupedMatmul bad = good;
    spoil(bad);
    const std::string text = complaint_of(bad, grouped_matmul);
    EXPECT_EQ(text.find("grouped_matmul: " + std::string(operand) + ": "), 0u) << text;
  }
}

TEST(GroupedMatmulFields, RefuseEveryWrongFieldOfTheWeightGradient) {
  Tensor dy(Dtype::e4m3, {64, 130}), x(Dtype::e4m3, {64, 256}), dw(Dtype::bf16, {2, 130, 256});
  Tensor dy_scales(Dtype::e8m0, {2, 130}), x_scales(Dtype::e8m0, {2, 256});
  Tensor group_ends = ends({32, 64});
  GroupedMatmulWgrad good;
  good.dy = {dy.operand(), dy_scales.operand(), {32, 1}, ScaleStorage::row_major};
  good.x = {x.operand(), x_scales.operand(), {32, 1}, ScaleStorage::row_major};
  good.group_ends = group_ends.operand();
  good.dw = dw.result();
  EXPECT_EQ(complaint_of(good, grouped_matmul_wgrad), "no complaint");
  using Op = GroupedMatmulWgrad;
  for (const auto& [operand, spoil] : std::initializer_list<WrongField<Op>>{
           {"dy.codes", [](Op& op) { op.dy.codes.rank = 3; }},
           {"x.codes", [](Op& op) { op.x.codes.rank = 3; }},
           {"dy", [](Op& op) { op.dy.codes.dtype = Dtype::i32; }},
           {"x", [](Op& op) { op.x.codes.dtype = Dtype::i32; }},
           {"x.codes", [](Op& op) { op.x.codes.extent[0] = 96; }},
           {"dy.codes", [](Op& op) { op.dy.block.rows = 48; }},
           {"group_ends", [](Op& op) { op.dy.block.rows = 64; }},
           {"group_ends", [](Op& op) { op.x.block.rows = 64; }},
           {"dy.scales", [](Op& op) { op.dy.scales.extent[1] = 129; }},
           {"x.scales", [](Op& op) { op.x.scales.extent[0] = 1; }},
           {"x.scales", [](Op& op) { op.x.scales = {}; }},
           {"group_ends", [](Op& op) { op.group_ends.rank = 2; }},
           {"dw", [](Op& op) { op.dw.dtype = Dtype::f16; }},
           {"dw", [](Op& op) { op.dw.extent[0] = 1; }},
           {"dw", [](Op& op) { op.dw.rank = 2; }}}) {
    GroupedMatmulWgrad bad = good;
    spoil(bad);
    const std::string text = complaint_of(bad, grouped_matmul_wgrad);
    EXPECT_EQ(text.find("grouped_matmul_wgrad: " + std::string(operand) + ": "), 0u) << text;
  }
}

TEST(GroupedMatmulFields, ResultsLieApartFromEveryOperand) {
  Tensor x(Dtype::e4m3, {32, 32}), w(Dtype::e4m3, {1, 32, 32}), scales(Dtype::e8m0, {32, 1});
  Tensor y(Dtype::bf16, {32, 32}), group_ends = ends({32});
  GroupedMatmul good;
  good.x = {x.operand(), scales.operand(), {1, 32}, ScaleStorage::row_major};
  good.w = {w.operand(), {}, {1, 32}, ScaleStorage::row_major};
  Tensor w_scales(Dtype::e8m0, {1, 32, 1});
  good.w.scales = w_scales.operand();
  good.group_ends = group_ends.operand();
  good.y = y.result();
  EXPECT_EQ(complaint_of(good, grouped_matmul), "no complaint");
  for (Operand GroupedMatmul::*operand : {&GroupedMatmul::group_ends}) {
    GroupedMatmul bad = good;
    bad.y.data = const_cast<void*>((bad.*operand).data);
    EXPECT_NE(complaint_of(bad, grouped_matmul), "no complaint");
  }
  for (ScaledTensor GroupedMatmul::*side : {&GroupedMatmul::x, &GroupedMatmul::w}) {
    for (Operand ScaledTensor::*part : {&ScaledTensor::codes, &ScaledTensor::scales}) {
      GroupedMatmul bad = good;
      bad.y.data = const_cast<void*>((bad.*side.*part).data);
      EXPECT_NE(complaint_of(bad, grouped_matmul), "no complaint");
    }
  }
}

TEST(GroupedMatmulFields, RefuseResultsOverOperandsAndWrongTypes) {
  Willing backend;
  Tensor x(Dtype::bf16, {4, 8});
  Tensor w(Dtype::bf16, {1, 8, 8});
  Tensor end = ends({4});
  GroupedMatmul op;
  op.x = unscaled(x.operand());
  op.w = unscaled(w.operand());
  op.group_ends = end.operand();
  op.y = x.result();
  EXPECT_THROW(grouped_matmul(backend, op), Error);
  Tensor y(Dtype::f16, {4, 8});
  op.y = y.result();
  EXPECT_THROW(grouped_matmul(backend, op), Error);
  op.y.dtype = Dtype::bf16;
  op.w.scales = end.operand();
  EXPECT_THROW(grouped_matmul(backend, op), Error);
}

TEST(GroupedMatmulFields, CountRowsOfScalesByTypeAndHeight) {
  Tensor dy(Dtype::e4m3, {96, 130}), x(Dtype::bf16, {96, 6}), dw(Dtype::f32, {2, 130, 6});
  const auto said = [&](Dtype type, Index rows, BlockExtents block, std::int32_t first) {
    Tensor scales(type, {rows, 130});
    Tensor x_scales(type, {rows, 6}), x_codes(Dtype::e4m3, {96, 6});
    const Tensor group_ends = ends({first, 64});
    GroupedMatmulWgrad op;
    op.dy = {dy.operand(), scales.operand(), block, ScaleStorage::row_major};
    op.x = {x_codes.operand(), x_scales.operand(), block, ScaleStorage::row_major};
    op.group_ends = group_ends.operand();
    op.dw = dw.result();
    return complaint_of(op, grouped_matmul_wgrad);
  };
  const std::string blocks = "grouped_matmul_wgrad: dy.scales: found f32 [";
  EXPECT_EQ(said(Dtype::f32, 5, {16, 1}, 5), "no complaint") << "ends of f32 scales are any";
  EXPECT_EQ(said(Dtype::f32, 6, {16, 1}, 5), "no complaint") << "more rows";
  EXPECT_EQ(said(Dtype::f32, 4, {16, 1}, 5).find(blocks + "4, 130], needs [5, 130]"), 0u);
  EXPECT_EQ(said(Dtype::f32, 2, {kWhole, 1}, 5), "no complaint");
  EXPECT_EQ(said(Dtype::f32, 3, {kWhole, 1}, 5).find(blocks + "3, 130], needs [2, 130]"), 0u);
  EXPECT_EQ(said(Dtype::e8m0, 3, {32, 1}, 32), "no complaint");
  EXPECT_EQ(said(Dtype::e8m0, 2, {32, 1}, 32)
                .find("grouped_matmul_wgrad: dy.scales: found e8m0 [2, 130], needs [3, 130]"),
            0u)
      << "rows of no group have scales, too";
}

}  // namespace
}  // namespace mxo

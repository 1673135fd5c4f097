// Grouped products called from C++ with a wrong field: refused by name, and in which words.
#include "tests/ops/entry_calls.h"
#include "tests/ops/right_call.h"
#include "tests/support/random_tensors.h"

namespace mxo::grouped_matmul_fields_test {
namespace {

/// One field of a right call, spoilt, and the operand that is to be named.
template <typename Op>
struct WrongField {
  const char* operand;
  void (*spoil)(Op&);
};

template <typename Op>
void expect_named(const std::string& name, const RightCall<Op>& right,
                  std::initializer_list<WrongField<Op>> table) {
  right.expect_that_checks_see_all();
  for (const auto& [operand, spoil] : table) {
    Op bad = right.op;
    spoil(bad);
    const std::string text = right.complaint(bad);
    EXPECT_EQ(text.find(name + ": " + operand + ": "), 0u) << text;
  }
}

TEST(GroupedMatmulFields, RefuseEveryWrongFieldOfTheForward) {
  Tensor x(Dtype::e4m3, {64, 256}), w(Dtype::e4m3, {2, 130, 256});
  Tensor x_scales(Dtype::f32, {64, 2}), w_scales(Dtype::f32, {2, 2, 2}), y(Dtype::bf16, {64, 130});
  Tensor group_ends = test::ends_of({32, 64});
  using Op = GroupedMatmul;
  const RightCall<Op> right{"grouped_matmul",
                            grouped_matmul,
                            {{x.operand(), x_scales.operand(), kRowBlock},
                             {w.operand(), w_scales.operand(), kSquareBlock},
                             group_ends.operand(),
                             kExact,
                             y.result()},
                            {"w.scales.0"}};
  expect_named<Op>("grouped_matmul", right,
                   {{"x", [](Op& op) { op.x.codes.dtype = Dtype::i32; }},
                    {"w", [](Op& op) { op.w.codes.dtype = Dtype::u64; }},
                    {"x.scales", [](Op& op) { op.x.scales = {}; }},
                    {"x.scales", [](Op& op) { op.x.scales.dtype = Dtype::bf16; }},
                    {"x.scales", [](Op& op) { op.x.block.rows = -1; }},
                    {"w.scales", [](Op& op) { op.w.block.columns = -1; }},
                    {"w.scales", [](Op& op) { op.w.storage = ScaleStorage::blocked; }},
                    {"x.scales", [](Op& op) { op.x.block = kMxColumns; }},
                    {"w.scales", [](Op& op) { op.w.block = kWholeTensor; }},
                    {"y", [](Op& op) { op.y.dtype = Dtype::f16; }}});
}

TEST(GroupedMatmulFields, CountRowsOfScalesByTypeAndHeight) {
  Tensor dy(Dtype::e4m3, {96, 130}), x(Dtype::bf16, {96, 6}), dw(Dtype::f32, {2, 130, 6});
  const auto said = [&](Dtype type, Index rows, BlockExtents block, std::int32_t first) {
    Tensor scales(type, {rows, 130});
    Tensor x_scales(type, {rows, 6}), x_codes(Dtype::e4m3, {96, 6});
    const Tensor group_ends = test::ends_of({first, 64});
    GroupedMatmulWgrad op;
    op.dy = {dy.operand(), scales.operand(), block, ScaleStorage::row_major};
    op.x = {x_codes.operand(), x_scales.operand(), block, ScaleStorage::row_major};
    op.group_ends = group_ends.operand();
    op.dw = dw.result();
    return check_refusal(grouped_matmul_wgrad, op);
  };
  const std::string blocks = "grouped_matmul_wgrad: dy.scales: found f32 [";
  EXPECT_EQ(said(Dtype::f32, 5, {16, 1}, 5), "") << "ends of f32 scales are any";
  EXPECT_EQ(said(Dtype::f32, 6, {16, 1}, 5), "") << "more rows";
  EXPECT_EQ(said(Dtype::f32, 4, {16, 1}, 5).find(blocks + "4, 130], needs [5, 130]"), 0u);
  EXPECT_EQ(said(Dtype::f32, 2, {kWhole, 1}, 5), "");
  EXPECT_EQ(said(Dtype::f32, 3, {kWhole, 1}, 5).find(blocks + "3, 130], needs [2, 130]"), 0u);
  EXPECT_EQ(said(Dtype::e8m0, 3, {32, 1}, 32), "");
  EXPECT_EQ(said(Dtype::e8m0, 2, {32, 1}, 32)
                .find("grouped_matmul_wgrad: dy.scales: found e8m0 [2, 130], needs [3, 130]"),
            0u)
      << "rows of no group have scales, too";
}

struct ProductWords : testing::Test {
  Tensor x{Dtype::e4m3, {64, 200}}, w{Dtype::e4m3, {2, 32, 200}}, y{Dtype::bf16, {64, 32}};
  Tensor x_scales{Dtype::f32, {64, 2}}, w_scales{Dtype::f32, {2, 1, 2}},
      ends = test::integers_of({64, 64});
  Tensor dy{Dtype::e4m3, {64, 32}}, dw{Dtype::bf16, {2, 32, 200}};
  Tensor dy_scales{Dtype::f32, {2, 32}}, tx_scales{Dtype::f32, {2, 200}};
  KeepingBackend backend;

  GroupedMatmul product() {
    return {{x.operand(), x_scales.operand(), kRowBlock},
            {w.operand(), w_scales.operand(), kSquareBlock},
            ends.operand(),
            kExact,
            y.result()};
  }
  GroupedMatmulWgrad gradient() {
    return {{dy.operand(), dy_scales.operand(), kColumnBlock},
            {x.operand(), tx_scales.operand(), kColumnBlock},
            ends.operand(),
            kExact,
            dw.result()};
  }
  std::string said(const GroupedMatmul& op) {
    return refusal([&] { grouped_matmul(backend, op); });
  }
  std::string said(const GroupedMatmulWgrad& op) {
    return refusal([&] { grouped_matmul_wgrad(backend, op); });
  }
};

TEST_F(ProductWords, NameRanksAndBlocks) {
  GroupedMatmul op = product();
  op.w.codes.rank = 2;
  EXPECT_EQ(said(op), "grouped_matmul: w.codes: found e4m3 [2, 32], needs rank 3");
  op = product();
  op.w.block.columns = -1;
  EXPECT_NE(said(op).find("needs positive extents, or 0 for a whole axis"), std::string::npos);
  GroupedMatmulWgrad of = gradient();
  of.x.codes.rank = 1;
  EXPECT_EQ(said(of), "grouped_matmul_wgrad: x.codes: found e4m3 [64], needs rank 2");
}

TEST_F(ProductWords, FoldsMakeTheKindOfASum) {
  Tensor x_mx(Dtype::e8m0, {64, 8}), w_mx(Dtype::e8m0, {2, 32, 8}), x_blocks(Dtype::f32, {64, 8}),
      w_blocks(Dtype::f32, {2, 32, 8});
  Tensor codes(Dtype::e4m3, {64, 256}), weights(Dtype::e4m3, {2, 32, 256});
  GroupedMatmul op = product();
  op.x = {codes.operand(), x_mx.operand(), kMxColumns};
  op.w = {weights.operand(), w_mx.operand(), kMxColumns};
  const auto refused = [&](std::string_view sum, OperandKind kind, Fold fold) {
    op.sum = sum_named(sum, kind);
    op.sum.fold = fold;
    return said(op);
  };
  const std::string as_codes =
      "grouped_matmul: sum: b200_mxf8f6f4 does not take operands of kind fp8 (e4m3, e5m2)";
  for (const Fold fold : {Fold::by_scales, Fold::term}) {
    EXPECT_EQ(refused("b200_mxf8f6f4", OperandKind::mx, fold), "");
    EXPECT_EQ(refused("ada_mma", OperandKind::fp8, fold),
              "grouped_matmul: sum: ada_mma does not take operands of kind mx");
  }
  for (const Fold fold : {Fold::x_then_w, Fold::joint, Fold::joint_add}) {
    EXPECT_EQ(refused("b200_mxf8f6f4", OperandKind::mx, fold), as_codes);
    EXPECT_EQ(refused("ada_mma", OperandKind::fp8, fold), "") << "scales are none of its business";
  }
  op.w.scales = w_blocks.operand();
  EXPECT_EQ(refused("b200_mxf8f6f4", OperandKind::mx, Fold::by_scales), as_codes) << "w in f32";
  op.x.scales = x_blocks.operand();
  op.w.scales = w_mx.operand();
  EXPECT_EQ(refused("b200_mxf8f6f4", OperandKind::mx, Fold::by_scales), as_codes) << "x in f32";
}

}  // namespace
}  // namespace mxo::grouped_matmul_fields_test

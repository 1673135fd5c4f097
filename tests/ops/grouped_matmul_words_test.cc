// What grouped products say of a wrong call, word for word, and that a right one runs once.
#include "ops/grouped_matmul.h"

#include <gtest/gtest.h>

#include "formats/tensor.h"
#include "tests/ops/recorder.h"

namespace mxo {
namespace {

struct ProductWords : testing::Test {
  Tensor x{Dtype::e4m3, {64, 200}}, w{Dtype::e4m3, {2, 32, 200}}, y{Dtype::bf16, {64, 32}};
  Tensor x_scales{Dtype::f32, {64, 2}}, w_scales{Dtype::f32, {2, 1, 2}}, ends{Dtype::i32, {2}};
  Tensor dy{Dtype::e4m3, {64, 32}}, dw{Dtype::bf16, {2, 32, 200}};
  Tensor dy_scales{Dtype::f32, {2, 32}}, tx_scales{Dtype::f32, {2, 200}};
  Recorder recorder;

  ProductWords() { ends.as<std::int32_t>()[0] = ends.as<std::int32_t>()[1] = 64; }
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
  template <typename Fn>
  static std::string word(Fn fn) {
    try {
      fn();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::string said(const GroupedMatmul& op) {
    return word([&] { grouped_matmul(recorder, op); });
  }
  std::string said(const GroupedMatmulWgrad& op) {
    return word([&] { grouped_matmul_wgrad(recorder, op); });
  }
};

TEST_F(ProductWords, OfRightCallsAreNone) {
  EXPECT_EQ(said(product()), "") << "the last block of f32 scales may be shorter";
  EXPECT_EQ(recorder.steps.size(), 1u);
  EXPECT_EQ(said(gradient()), "");
  EXPECT_EQ(recorder.steps.size(), 2u);
}

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

TEST_F(ProductWords, NameTheEndsThatResultsLieOver) {
  Tensor room(Dtype::i32, {2 * 32 * 200});  // so that a result lies over the ends alone
  room.as<std::int32_t>()[0] = room.as<std::int32_t>()[1] = 64;
  const Operand in_room = view_of(static_cast<const void*>(room.data()), Dtype::i32, {2});
  GroupedMatmul op = product();
  op.group_ends = in_room;
  EXPECT_EQ(said(op), "");
  op.y.data = room.data();
  EXPECT_EQ(said(op), "grouped_matmul: y: shares memory with group_ends");
  GroupedMatmulWgrad of = gradient();
  of.group_ends = in_room;
  of.dw.data = room.data();
  EXPECT_EQ(said(of), "grouped_matmul_wgrad: dw: shares memory with group_ends");
}

TEST_F(ProductWords, NameFoldsThatScalesContradict) {
  GroupedMatmulWgrad of = gradient();
  of.sum = kFmaChain;
  of.sum.fold = Fold::after;
  EXPECT_EQ(said(of),
            "grouped_matmul_wgrad: sum.fold: found after, but scales change every 128 k; needs "
            "x_then_w, joint or joint_add");
  EXPECT_TRUE(recorder.steps.empty());
}

}  // namespace
}  // namespace mxo

// One instruction with one field wrong: refused by name, and before anything runs.
#include "ops/fused_dot.h"

#include "formats/tensor.h"
#include "tests/ops/right_call.h"

namespace mxo {
namespace {

using D = FusedDot;

/// Honours no sum.
class Stubborn : public Bare {
 public:
  std::string_view name() const override { return "stubborn"; }
  bool honours(const Accumulation&) const override { return false; }
};

std::string complaint(Backend& backend, const D& op) {
  try {
    fused_dot(backend, op);
  } catch (const Error& error) {
    return std::string(error.fault() == Fault::unsupported ? "unsupported: " : "") + error.what();
  }
  return "it ran nothing";
}

TEST(FusedDotChecks, RefuseWrongFieldsOfPlainOperands) {
  Tensor a(Dtype::bf16, {2, 3, 64}), b(Dtype::bf16, {2, 5, 64}), c(Dtype::f32, {2, 3, 5});
  Tensor d(Dtype::f32, {2, 3, 5});
  const D op{a.operand(), b.operand(), c.operand(),
             {},          {},          sum_named("h200_mma_sync", OperandKind::bf16),
             d.result()};
  expect_checked("fused_dot", fused_dot, op);
}

TEST(FusedDotChecks, RefuseWrongFieldsOfCodesWithScales) {
  Tensor a(Dtype::e4m3, {2, 3, 64}), b(Dtype::e4m3, {2, 5, 64}), c(Dtype::f32, {2, 3, 5});
  Tensor sa(Dtype::e8m0, {2, 3, 2}), sb(Dtype::e8m0, {2, 5, 2}), d(Dtype::f32, {2, 3, 5});
  D op{a.operand(),  b.operand(),  c.operand(),
       sa.operand(), sb.operand(), sum_named("b200_tcgen05", OperandKind::mx),
       d.result()};
  expect_checked("fused_dot", fused_dot, op);
  Bare bare;
  D one = op;
  one.b_scales = {};
  EXPECT_NE(complaint(bare, one).find("b.scales"), std::string::npos);
  one = op;
  one.a_scales = {};
  EXPECT_NE(complaint(bare, one).find("a.scales"), std::string::npos);
  for (Operand* const x : {&op.a, &op.b}) x->extent[2] = 48;
  EXPECT_NE(complaint(bare, op).find("fused_dot: a: K is 48, not a multiple of 32"),
            std::string::npos)
      << complaint(bare, op);
}

TEST(FusedDotChecks, RefuseWhatIsNoMachineOfTheirs) {
  Tensor a(Dtype::bf16, {1, 2, 32}), b(Dtype::bf16, {1, 2, 32}), c(Dtype::f32, {1, 2, 2});
  Tensor d(Dtype::f32, {1, 2, 2});
  D op{a.operand(), b.operand(), c.operand(), {}, {}, Accumulation{}, d.result()};
  Bare bare;
  EXPECT_NE(complaint(bare, op).find("unsupported: fused_dot: sum: found exact, needs a machine"),
            std::string::npos)
      << complaint(bare, op);
  op.sum = sum_named("b200_mxf8f6f4", OperandKind::mx);
  EXPECT_NE(complaint(bare, op).find("kind bf16"), std::string::npos) << complaint(bare, op);
  op.sum = sum_named("h200_wgmma_fast", OperandKind::bf16);
  EXPECT_EQ(complaint(bare, op).find("unsupported: fused_dot: sum"), std::string::npos)
      << "past the checks it comes to a backend without operators: " << complaint(bare, op);
  Stubborn stubborn;
  EXPECT_NE(complaint(stubborn, op).find("needs one that stubborn honours"), std::string::npos)
      << complaint(stubborn, op);
}

}  // namespace
}  // namespace mxo

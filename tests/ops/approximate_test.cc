// approximate with one field wrong, and b given exactly to the function that takes it.
#include "ops/approximate.h"

#include "formats/tensor.h"
#include "tests/ops/right_call.h"

namespace mxo {
namespace {

RightCall<Approximate> quotient(Tensor& x, Tensor& b, Tensor& y) {
  using A = Approximate;
  return {"approximate",
          approximate,
          {x.operand(), b.operand(), y.result(), ChipFunction::div_full},
          {{"x", &A::x}, {"b", &A::b}},
          {{"y", &A::y}}};
}

TEST(ApproximateChecks, SeeEveryFieldOfAQuotient) {
  Tensor x(Dtype::f32, {3, 4}), b(Dtype::f32, {3, 4}), y(Dtype::f32, {3, 4});
  quotient(x, b, y).expect_that_checks_see_all();
}

TEST(ApproximateChecks, GiveBToDivFullAlone) {
  Tensor x(Dtype::f32, {3, 4}), b(Dtype::f32, {3, 4}), y(Dtype::f32, {3, 4});
  const auto call = quotient(x, b, y);
  Approximate op = call.op;
  op.b = {};
  EXPECT_EQ(call.complaint(op), "approximate: b: missing, needed by div_full");
  for (const ChipFunction f : {ChipFunction::ex2, ChipFunction::rcp, ChipFunction::rsqrt,
                               ChipFunction::sqrt, ChipFunction::lg2, ChipFunction::tanh}) {
    op = call.op;
    op.function = f;
    EXPECT_EQ(call.complaint(op), "approximate: b: div_full alone takes it");
    op.b = {};
    EXPECT_EQ(call.complaint(op), "");
    op.y.data = x.data();
    EXPECT_NE(call.complaint(op).find("shares memory"), std::string::npos);
  }
}

TEST(ApproximateChecks, TakeOneAxisToTheMost) {
  for (int rank = 0; rank <= kMaxRank; ++rank) {
    const std::vector<Index> shape(static_cast<std::size_t>(rank), 2);
    Tensor x(Dtype::f32, shape), b(Dtype::f32, shape), y(Dtype::f32, shape);
    const auto call = quotient(x, b, y);
    Approximate op = call.op;
    op.function = ChipFunction::rcp;
    op.b = {};
    EXPECT_EQ(call.complaint(op).empty(), rank > 0) << rank;
    EXPECT_EQ(call.complaint(call.op).empty(), rank > 0) << rank;
  }
}

}  // namespace
}  // namespace mxo

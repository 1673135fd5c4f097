// Functions of a chip called rightly and wrongly: what is refused, before anything runs.
#include "ops/approximate.h"

#include "formats/tensor.h"
#include "tests/ops/right_call.h"

namespace mxo {
namespace {

using A = Approximate;

const RightCall<A> kCall{"approximate", approximate, {}};

TEST(ApproximateChecks, TakeEveryRankThatThereIs) {
  const std::vector<Index> shapes[] = {{6}, {6, 8}, {2, 3, 4}, {2, 3, 4, 5}};
  for (const std::vector<Index>& shape : shapes) {
    Tensor x(Dtype::f32, shape), b(Dtype::f32, shape), y(Dtype::f32, shape);
    expect_checked("approximate", approximate, {x.operand(), {}, y.result(), ChipFunction::rcp});
    expect_checked("approximate", approximate,
                   {x.operand(), b.operand(), y.result(), ChipFunction::div_full});
  }
  EXPECT_EQ(kCall.complaint({}), "approximate: x: found f32 [], needs rank 1 to 4");
}

TEST(ApproximateChecks, CompareTheAxesThatAreThere) {
  Tensor x(Dtype::f32, {6, 8}), y(Dtype::f32, {6, 8});
  A op{x.operand(), {}, y.result(), ChipFunction::ex2};
  op.x.extent[2] = 3;  // past the rank: no axis
  EXPECT_EQ(kCall.complaint(op), "");
  op.y.extent[1] = 7;
  EXPECT_EQ(kCall.complaint(op), "approximate: y: found f32 [6, 7], needs the shape of f32 [6, 8]");
}

TEST(ApproximateChecks, GiveDivFullAloneADivisor) {
  Tensor x(Dtype::f32, {6}), b(Dtype::f32, {6}), y(Dtype::f32, {6});
  EXPECT_EQ(kCall.complaint({x.operand(), {}, y.result(), ChipFunction::div_full}),
            "approximate: b: missing, needed by div_full");
  EXPECT_EQ(kCall.complaint({x.operand(), b.operand(), y.result(), ChipFunction::sqrt}),
            "approximate: b: div_full alone takes it");
}

}  // namespace
}  // namespace mxo

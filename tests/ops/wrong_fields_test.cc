// Operators called from C++ with one field wrong: refused by name, and before anything runs.
#include "formats/tensor.h"
#include "tests/ops/right_call.h"

namespace mxo::wrong_fields_test {
namespace {

TEST(WrongFields, OfElementwiseOperatorsAreRefused) {
  Tensor x(Dtype::f32, {6, 8}), other(Dtype::bf16, {6, 8}), codes(Dtype::e4m3, {6, 8});
  Tensor bias(Dtype::f32, {2, 8}), ends(Dtype::i32, {2}), b(Dtype::f32, {6, 8}),
      y(Dtype::f32, {6, 8});
  expect_checked("cast", cast, {x.operand(), other.result()});
  expect_checked<Encode>("encode", encode, {x.operand(), codes.result()});
  expect_checked<Decode>("decode", decode, {codes.operand(), x.result()});
  expect_checked("add_bias", add_bias,
                 {x.operand(), bias.operand(), ends.operand(), other.result()});
  expect_checked("column_sum", column_sum, {x.operand(), ends.operand(), bias.result()}, {"x.0"});
  expect_checked("approximate", approximate,
                 {x.operand(), b.operand(), y.result(), ChipFunction::div_full});
}

TEST(WrongFields, OfGatesAreRefused) {
  Tensor x(Dtype::bf16, {4, 12}), probs(Dtype::f32, {4}), y(Dtype::bf16, {4, 6});
  Tensor dx(Dtype::bf16, {4, 12}), dprobs(Dtype::f32, {4});
  expect_checked("swiglu", swiglu, {x.operand(), probs.operand(), y.result()});
  expect_checked("swiglu_backward", swiglu_backward,
                 {x.operand(), probs.operand(), y.operand(), dx.result(), dprobs.result()});
}

TEST(WrongFields, OfRoutersAreRefused) {
  Tensor logits(Dtype::f32, {5, 8}), bias(Dtype::f32, {8}), experts(Dtype::i32, {5, 2});
  Tensor weights(Dtype::f32, {5, 2}), counts(Dtype::i32, {8}), dlogits(Dtype::f32, {5, 8});
  for (Index i = 0; i < 10; ++i) experts.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % 2);
  expect_checked(
      "route", route,
      {logits.operand(), bias.operand(), experts.result(), weights.result(), counts.result()});
  expect_checked("route_backward", route_backward,
                 {logits.operand(), experts.operand(), weights.operand(), dlogits.result()});
  Tensor router(Dtype::bf16, {8, 6}), x(Dtype::bf16, {5, 6});
  Tensor dx(Dtype::f32, {5, 6}), drouter(Dtype::f32, {8, 6});
  expect_checked("router_gradients", router_gradients,
                 {dlogits.operand(), router.operand(), x.operand(), dx.result(), drouter.result()});
}

TEST(WrongFields, OfMovedRowsAreRefused) {
  Tensor rows(Dtype::bf16, {7, 4}), slots(Dtype::i32, {3, 2}), weights(Dtype::f32, {3, 2});
  Tensor out(Dtype::bf16, {3, 4}), drows(Dtype::bf16, {7, 4}), dweights(Dtype::f32, {3, 2});
  for (Index i = 0; i < 6; ++i) slots.as<std::int32_t>()[i] = static_cast<std::int32_t>(i);
  expect_checked("combine_rows", combine_rows,
                 {rows.operand(), slots.operand(), weights.operand(), out.result()}, {"rows.0"});
  expect_checked("combine_rows_backward", combine_rows_backward,
                 {rows.operand(), slots.operand(), weights.operand(), out.operand(), drows.result(),
                  dweights.result()});
  Tensor x(Dtype::bf16, {6, 4}), ends(Dtype::i32, {2}), y(Dtype::bf16, {96, 4});
  Tensor starts(Dtype::i32, {2}), past(Dtype::i32, {2});
  expect_checked("pad_groups", pad_groups,
                 {x.operand(), ends.operand(), y.result(), starts.result(), past.result()},
                 {"x.0"});  // 5 rows are padded to as many
  expect_checked("unpad_groups", unpad_groups,
                 {y.operand(), ends.operand(), starts.operand(), x.result()}, {"x.0", "y.0"});
}

TEST(WrongFields, SlotsNameRowsOnceOrNone) {
  Tensor rows(Dtype::bf16, {3, 4}), slots(Dtype::i32, {2, 1}), out(Dtype::bf16, {2, 4});
  Bare bare;
  const auto refused = [&](std::int32_t first, std::int32_t second, bool gradient) {
    slots.as<std::int32_t>()[0] = first;
    slots.as<std::int32_t>()[1] = second;
    const std::string said = check_refusal([&] {
      if (gradient) {
        combine_rows_backward(bare, {{}, slots.operand(), {}, out.operand(), rows.result(), {}});
      } else {
        combine_rows(bare, {rows.operand(), slots.operand(), {}, out.result()});
      }
    });
    return !said.empty();
  };
  for (const bool gradient : {false, true}) {
    EXPECT_FALSE(refused(-1, 2, gradient));
    EXPECT_FALSE(refused(-1, -1, gradient));
    for (const std::int32_t bad : {-2, 3}) {
      EXPECT_TRUE(refused(bad, 0, gradient)) << bad;
      EXPECT_TRUE(refused(0, bad, gradient)) << bad;
    }
    EXPECT_EQ(refused(1, 1, gradient), gradient) << "a gradient has one place";
  }
}

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

TEST(FusedDotChecks, RefuseWrongFieldsOfCodesWithScales) {
  Tensor a(Dtype::e4m3, {2, 3, 64}), b(Dtype::e4m3, {2, 5, 64}), c(Dtype::f32, {2, 3, 5});
  Tensor sa(Dtype::e8m0, {2, 3, 2}), sb(Dtype::e8m0, {2, 5, 2}), d(Dtype::f32, {2, 3, 5});
  D op{a.operand(),  b.operand(),  c.operand(),
       sa.operand(), sb.operand(), sum_named("b200_tcgen05", OperandKind::mx),
       d.result()};
  const RightCall<D> right{"fused_dot", fused_dot, op};
  right.expect_that_checks_see_all();
  right.expect_refusal([](D& one) { one.b_scales = {}; },
                       "b.scales: missing, needs scales of both or of neither");
  right.expect_refusal([](D& one) { one.a_scales = {}; },
                       "a.scales: missing, needs scales of both or of neither");
  right.expect_refusal([](D& one) { one.a.extent[2] = one.b.extent[2] = 48; },
                       "a: K is 48, not a multiple of 32");
}

TEST(FusedDotChecks, RefuseWhatIsNoMachineOfTheirs) {
  Tensor a(Dtype::bf16, {1, 2, 32}), b(Dtype::bf16, {1, 2, 32}), c(Dtype::f32, {1, 2, 2});
  Tensor d(Dtype::f32, {1, 2, 2});
  D op{a.operand(), b.operand(), c.operand(), {}, {}, Accumulation{}, d.result()};
  Bare bare;
  EXPECT_EQ(complaint(bare, op),
            "unsupported: fused_dot: sum: found exact, needs a machine, such as h200_wgmma_fast");
  op.sum = sum_named("b200_mxf8f6f4", OperandKind::mx);
  EXPECT_EQ(complaint(bare, op),
            "unsupported: fused_dot: sum: b200_mxf8f6f4 does not take operands of kind bf16");
  op.sum = sum_named("h200_wgmma_fast", OperandKind::bf16);
  EXPECT_EQ(complaint(bare, op).find("unsupported: fused_dot: sum"), std::string::npos)
      << "past the checks it comes to a backend without operators: " << complaint(bare, op);
  Stubborn stubborn;
  EXPECT_EQ(complaint(stubborn, op),
            "unsupported: fused_dot: sum: found h200_wgmma_fast, needs one that stubborn honours");
}

}  // namespace
}  // namespace mxo::wrong_fields_test

// Operators called from C++ with one field wrong: refused by name, and before anything runs.
#include <gtest/gtest.h>

#include "formats/error.h"
#include "formats/tensor.h"
#include "ops/approximate.h"
#include "ops/combine_rows.h"
#include "ops/convert.h"
#include "ops/elementwise.h"
#include "ops/pad_groups.h"
#include "ops/permute.h"
#include "ops/route.h"
#include "ops/router_gradients.h"
#include "ops/scaled_tensor.h"
#include "ops/swiglu.h"
#include "tests/ops/right_call.h"

namespace mxo {
namespace {

TEST(WrongFields, OfElementwiseOperatorsAreRefused) {
  Tensor x(Dtype::f32, {6, 8}), other(Dtype::bf16, {6, 8}), codes(Dtype::e4m3, {6, 8});
  Tensor bias(Dtype::f32, {2, 8}), ends(Dtype::i32, {2});
  RightCall<Cast>{"cast", cast, {x.operand(), other.result()}, {{"x", &Cast::x}}, {{"y", &Cast::y}}}
      .expect_that_checks_see_all();
  RightCall<Encode>{"encode",
                    encode,
                    {x.operand(), codes.result()},
                    {{"x", &Encode::x}},
                    {{"codes", &Encode::codes}}}
      .expect_that_checks_see_all();
  RightCall<Decode>{"decode",
                    decode,
                    {codes.operand(), x.result()},
                    {{"codes", &Decode::codes}},
                    {{"x", &Decode::x}}}
      .expect_that_checks_see_all();
  RightCall<AddBias>{
      "add_bias",
      add_bias,
      {x.operand(), bias.operand(), ends.operand(), other.result()},
      {{"y", &AddBias::y}, {"bias", &AddBias::bias}, {"group_ends", &AddBias::group_ends}},
      {{"out", &AddBias::out}}}
      .expect_that_checks_see_all();
  RightCall<ColumnSum>{"column_sum",
                       column_sum,
                       {x.operand(), ends.operand(), bias.result()},
                       {{"x", &ColumnSum::x}, {"group_ends", &ColumnSum::group_ends}},
                       {{"sum", &ColumnSum::sum}},
                       {"x.0"}}
      .expect_that_checks_see_all();
}

TEST(WrongFields, OfApproximateFunctionsAreRefused) {
  Tensor x(Dtype::f32, {6, 8}), b(Dtype::f32, {6, 8}), y(Dtype::f32, {6, 8});
  using A = Approximate;
  RightCall<A>{"approximate",
               approximate,
               {x.operand(), b.operand(), y.result(), ChipFunction::div_full},
               {{"x", &A::x}, {"b", &A::b}},
               {{"y", &A::y}}}
      .expect_that_checks_see_all();
}

TEST(WrongFields, OfGatesAreRefused) {
  Tensor x(Dtype::bf16, {4, 12}), probs(Dtype::f32, {4}), y(Dtype::bf16, {4, 6});
  Tensor dx(Dtype::bf16, {4, 12}), dprobs(Dtype::f32, {4});
  RightCall<Swiglu>{"swiglu",
                    swiglu,
                    {x.operand(), probs.operand(), y.result()},
                    {{"x", &Swiglu::x}, {"probs", &Swiglu::probs}},
                    {{"y", &Swiglu::y}}}
      .expect_that_checks_see_all();
  using Back = SwigluBackward;
  RightCall<Back>{"swiglu_backward",
                  swiglu_backward,
                  {x.operand(), probs.operand(), y.operand(), dx.result(), dprobs.result()},
                  {{"x", &Back::x}, {"probs", &Back::probs}, {"dy", &Back::dy}},
                  {{"dx", &Back::dx}, {"dprobs", &Back::dprobs}}}
      .expect_that_checks_see_all();
}

TEST(WrongFields, OfRoutersAreRefused) {
  Tensor logits(Dtype::f32, {5, 8}), bias(Dtype::f32, {8}), experts(Dtype::i32, {5, 2});
  Tensor weights(Dtype::f32, {5, 2}), counts(Dtype::i32, {8}), dlogits(Dtype::f32, {5, 8});
  for (Index i = 0; i < 10; ++i) experts.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % 2);
  RightCall<Route>{
      "route",
      route,
      {logits.operand(), bias.operand(), experts.result(), weights.result(), counts.result()},
      {{"logits", &Route::logits}, {"bias", &Route::bias}},
      {{"experts", &Route::experts},
       {"weights", &Route::weights},
       {"tokens_per_expert", &Route::tokens_per_expert}}}
      .expect_that_checks_see_all();
  using Back = RouteBackward;
  RightCall<Back>{
      "route_backward",
      route_backward,
      {logits.operand(), experts.operand(), weights.operand(), dlogits.result()},
      {{"logits", &Back::logits}, {"experts", &Back::experts}, {"dweights", &Back::dweights}},
      {{"dlogits", &Back::dlogits}}}
      .expect_that_checks_see_all();
  Tensor router(Dtype::bf16, {8, 6}), x(Dtype::bf16, {5, 6});
  Tensor dx(Dtype::f32, {5, 6}), drouter(Dtype::f32, {8, 6});
  using Both = RouterGradients;
  RightCall<Both>{"router_gradients",
                  router_gradients,
                  {dlogits.operand(), router.operand(), x.operand(), dx.result(), drouter.result()},
                  {{"dlogits", &Both::dlogits}, {"router", &Both::router}, {"x", &Both::x}},
                  {{"dx", &Both::dx}, {"drouter", &Both::drouter}}}
      .expect_that_checks_see_all();
}

TEST(WrongFields, OfCombinedRowsAreRefused) {
  Tensor rows(Dtype::bf16, {7, 4}), slots(Dtype::i32, {3, 2}), weights(Dtype::f32, {3, 2});
  Tensor out(Dtype::bf16, {3, 4}), drows(Dtype::bf16, {7, 4}), dweights(Dtype::f32, {3, 2});
  for (Index i = 0; i < 6; ++i) slots.as<std::int32_t>()[i] = static_cast<std::int32_t>(i);
  RightCall<CombineRows>{"combine_rows",
                         combine_rows,
                         {rows.operand(), slots.operand(), weights.operand(), out.result()},
                         {{"rows", &CombineRows::rows},
                          {"slots", &CombineRows::slots},
                          {"weights", &CombineRows::weights}},
                         {{"out", &CombineRows::out}},
                         {"rows.0"}}
      .expect_that_checks_see_all();
  using Back = CombineRowsBackward;
  RightCall<Back>{"combine_rows_backward",
                  combine_rows_backward,
                  {rows.operand(), slots.operand(), weights.operand(), out.operand(),
                   drows.result(), dweights.result()},
                  {{"rows", &Back::rows},
                   {"slots", &Back::slots},
                   {"weights", &Back::weights},
                   {"dout", &Back::dout}},
                  {{"drows", &Back::drows}, {"dweights", &Back::dweights}}}
      .expect_that_checks_see_all();
}

TEST(WrongFields, SlotsNameRowsOnceOrNone) {
  Tensor rows(Dtype::bf16, {3, 4}), slots(Dtype::i32, {2, 1}), out(Dtype::bf16, {2, 4});
  Bare bare;
  const auto refused = [&](std::int32_t first, std::int32_t second, bool gradient) {
    slots.as<std::int32_t>()[0] = first;
    slots.as<std::int32_t>()[1] = second;
    try {
      if (gradient) {
        combine_rows_backward(bare, {{}, slots.operand(), {}, out.operand(), rows.result(), {}});
      } else {
        combine_rows(bare, {rows.operand(), slots.operand(), {}, out.result()});
      }
    } catch (const Error& error) {
      return error.fault() != Fault::unsupported;
    }
    return true;  // what passes the checks comes to a backend that has nothing
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

TEST(WrongFields, OfPaddedGroupsAreRefused) {
  Tensor x(Dtype::bf16, {6, 4}), ends(Dtype::i32, {2}), y(Dtype::bf16, {96, 4});
  Tensor starts(Dtype::i32, {2}), past(Dtype::i32, {2});
  RightCall<PadGroups>{"pad_groups",
                       pad_groups,
                       {x.operand(), ends.operand(), y.result(), starts.result(), past.result()},
                       {{"x", &PadGroups::x}, {"group_ends", &PadGroups::group_ends}},
                       {{"y", &PadGroups::y},
                        {"padded_starts", &PadGroups::padded_starts},
                        {"padded_ends", &PadGroups::padded_ends}},
                       {"x.0"}}  // 5 rows are padded to as many
      .expect_that_checks_see_all();
  RightCall<UnpadGroups>{"unpad_groups",
                         unpad_groups,
                         {y.operand(), ends.operand(), starts.operand(), x.result()},
                         {{"y", &UnpadGroups::y},
                          {"group_ends", &UnpadGroups::group_ends},
                          {"padded_starts", &UnpadGroups::padded_starts}},
                         {{"x", &UnpadGroups::x}},
                         {"x.0", "y.0"}}
      .expect_that_checks_see_all();
}

TEST(WrongFields, OfPaddedGroupsAreNamed) {
  Tensor x(Dtype::bf16, {6, 4}), ends(Dtype::i32, {2}), y(Dtype::bf16, {8, 4});
  Tensor starts(Dtype::i32, {2}), past(Dtype::i32, {2});
  const RightCall<PadGroups> pad{"pad_groups", pad_groups, {}, {}, {}};
  PadGroups op{x.operand(), ends.operand(), y.result(), starts.result(), past.result(), 1};
  EXPECT_EQ(pad.complaint(op), "") << "an alignment of 1 is one";
  op.alignment = 0;
  EXPECT_EQ(pad.complaint(op), "pad_groups: alignment: found 0, needs a positive number");
  op.alignment = 1;
  Tensor room(Dtype::i32, {16});  // for y, so that it lies over the ends alone
  op.group_ends = view_of(static_cast<const void*>(room.data()), Dtype::i32, {2});
  op.y.data = room.data();
  EXPECT_EQ(pad.complaint(op), "pad_groups: y: shares memory with group_ends");

  const RightCall<UnpadGroups> unpad{"unpad_groups", unpad_groups, {}, {}, {}};
  ends.as<std::int32_t>()[0] = ends.as<std::int32_t>()[1] = 6;
  starts.as<std::int32_t>()[0] = 3;
  EXPECT_EQ(unpad.complaint({y.operand(), ends.operand(), starts.operand(), x.result()}),
            "unpad_groups: padded_starts: entry 0 is 3, needs room for 6 rows within the 8 of y");
}

}  // namespace
}  // namespace mxo

// Ends of the ranges that operators take: ranks, experts, groups, selections.
#include <limits>

#include <gtest/gtest.h>

#include "formats/error.h"
#include "formats/tensor.h"
#include "ops/combine_rows.h"
#include "ops/elementwise.h"
#include "ops/pad_groups.h"
#include "ops/route.h"
#include "ops/router_gradients.h"
#include "ops/swiglu.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

/// What is said of a call; nothing where it comes to the backend.
template <typename Op>
std::string said(void (*call)(Backend&, const Op&), const Op& op) {
  Bare bare;
  return check_refusal([&] { call(bare, op); });
}

TEST(Ranges, OfExpertsAreOfTwoAxes) {
  Tensor logits(Dtype::f32, {3, 8}), experts(Dtype::i32, {6}), weights(Dtype::f32, {3, 2});
  Tensor counts(Dtype::i32, {8});
  EXPECT_EQ(said<Route>(
                route, {logits.operand(), {}, experts.result(), weights.result(), counts.result()}),
            "route: experts: found i32 [6], needs rank 2");
  Tensor none(Dtype::f32, {3, 0}), chosen(Dtype::i32, {3, 1}), weight(Dtype::f32, {3, 1}),
      no(Dtype::i32, {0});
  EXPECT_EQ(said<Route>(route, {none.operand(), {}, chosen.result(), weight.result(), no.result()}),
            "route: experts: found 0, needs 1 to 2147483647");
}

TEST(Ranges, OfGradientsKnowNoMachine) {
  Tensor x(Dtype::f32, {2, 6}), half(Dtype::f32, {2, 3}), dx(Dtype::f32, {2, 6});
  EXPECT_EQ(said<SwigluBackward>(swiglu_backward, {x.operand(),
                                                   {},
                                                   half.operand(),
                                                   dx.result(),
                                                   {},
                                                   {.arithmetic = GateArithmetic::triton_sm90}}),
            "swiglu_backward: arithmetic: found Triton's, needs rounded: gradients have no other");
}

TEST(Ranges, OfSlotsAreLeftToADevice) {
  Tensor rows(Dtype::bf16, {3, 4}), slots(Dtype::i32, {2, 1}), out(Dtype::bf16, {2, 4});
  slots.as<std::int32_t>()[0] = 7;
  const CombineRows op{rows.operand(), slots.operand(), {}, out.result()};
  EXPECT_EQ(said(combine_rows, op),
            "combine_rows: slots: entry (0, 0) is 7, needs -1 or a row below 3");
  Bare device(false);
  EXPECT_EQ(check_refusal([&] { combine_rows(device, op); }), "");
}

TEST(Ranges, OfBiasesAreOfOneGroupOrOfEach) {
  Tensor y(Dtype::f32, {6, 8}), out(Dtype::f32, {6, 8}), plain(Dtype::f32, {8});
  Tensor each(Dtype::f32, {2, 8}), ends(Dtype::i32, {2}), none(Dtype::f32, {});
  ends.as<std::int32_t>()[1] = 6;
  const auto bias = [&](const Tensor& b, const Operand& groups) {
    return said<AddBias>(add_bias, {y.operand(), b.operand(), groups, out.result()});
  };
  const auto sum = [&](Tensor& s, const Operand& groups) {
    return said<ColumnSum>(column_sum, {y.operand(), groups, s.result()});
  };
  EXPECT_EQ(bias(plain, {}), "");
  EXPECT_EQ(bias(plain, ends.operand()), "");
  EXPECT_EQ(bias(each, ends.operand()), "");
  EXPECT_EQ(sum(plain, {}), "");
  EXPECT_EQ(sum(each, ends.operand()), "");
  EXPECT_EQ(bias(each, {}), "add_bias: group_ends: missing, needed with bias of rank 2");
  EXPECT_EQ(sum(each, {}), "column_sum: group_ends: missing, needed with sum of rank 2");
  EXPECT_EQ(bias(none, {}), "add_bias: bias: found f32 [], needs rank 1 to 2");
  EXPECT_EQ(sum(none, {}), "column_sum: sum: found f32 [], needs rank 1 to 2");
  ends.as<std::int32_t>()[1] = 7;  // columns would be enough
  for (const std::string& text : {bias(plain, ends.operand()), sum(plain, ends.operand())}) {
    EXPECT_NE(text.find("entry 1 is 7, beyond the 6 rows given"), text.npos) << text;
  }
}

TEST(Ranges, OfBiasesInPlaceAreTheSameElements) {
  Tensor y(Dtype::f32, {4, 4}), bias(Dtype::f32, {4}), wide(Dtype::f32, {2, 4, 4});
  const auto over = [&](const Operand& read, const Result& written) {
    return said<AddBias>(add_bias, {read, bias.operand(), {}, written});
  };
  EXPECT_EQ(over(y.operand(), y.result()), "");
  Result turned = y.result();
  std::swap(turned.stride[0], turned.stride[1]);
  EXPECT_EQ(over(y.operand(), turned), "add_bias: out: shares memory with y");
  Result apart = wide.result();  // every second row, over the first rows
  apart.rank = 2;
  apart.extent[0] = apart.extent[1] = 4;
  apart.stride[0] = 8;
  apart.stride[1] = 1;
  Operand rows = to_read(apart);
  rows.stride[0] = 4;
  EXPECT_EQ(over(rows, apart), "add_bias: out: shares memory with y");
  Result halves = y.result();
  halves.dtype = Dtype::bf16;
  EXPECT_EQ(over(y.operand(), halves), "add_bias: out: shares memory with y");
}

TEST(Ranges, OfScoresAreThree) {
  EXPECT_EQ(router_score_named("sigmoid"), RouterScore::sigmoid);
  EXPECT_EQ(router_score_named("softmax"), RouterScore::softmax);
  EXPECT_EQ(router_score_named("softmax_of_chosen"), RouterScore::softmax_of_chosen);
  EXPECT_EQ(router_score_named("sqrtsoftplus"), RouterScore::sqrtsoftplus);
}

/// Groups of 2, 0 and 3 rows of y [8, 4], which begin where `starts` say.
std::string unpadded_from(std::initializer_list<std::int32_t> starts) {
  Tensor y(Dtype::bf16, {8, 4}), ends(Dtype::i32, {3}), begins(Dtype::i32, {3});
  Tensor x(Dtype::bf16, {5, 4});
  const std::int32_t last[] = {2, 2, 5};
  std::copy(last, last + 3, ends.as<std::int32_t>());
  std::copy(starts.begin(), starts.end(), begins.as<std::int32_t>());
  return said<UnpadGroups>(unpad_groups,
                           {y.operand(), ends.operand(), begins.operand(), x.result()});
}

TEST(Ranges, OfPaddedGroupsLieInside) {
  EXPECT_EQ(unpadded_from({0, 2, 5}), "");
  EXPECT_EQ(unpadded_from({6, -7, 0}), "") << "a group of no rows lies nowhere";
  EXPECT_EQ(unpadded_from({0, 99, 2}), "");
  EXPECT_NE(unpadded_from({7, 2, 2}), "");
  EXPECT_NE(unpadded_from({-1, 2, 2}), "");
  EXPECT_NE(unpadded_from({0, 2, 6}), "");
  EXPECT_NE(unpadded_from({0, 2, -1}), "");
}

/// Six rows in two groups, padded to `rows` of them.
std::string padded_to(Index rows, std::int32_t last, Index alignment = 4) {
  Tensor x(Dtype::bf16, {6, 40}), ends(Dtype::i32, {2}), y(Dtype::bf16, {rows, 40});
  Tensor starts(Dtype::i32, {2}), past(Dtype::i32, {2});
  std::fill_n(ends.as<std::int32_t>(), 2, last);
  return said<PadGroups>(pad_groups, {x.operand(), ends.operand(), y.result(), starts.result(),
                                      past.result(), alignment});
}

TEST(Ranges, OfPaddedGroupsAreMatrices) {
  const Tensor cube(Dtype::f32, {4, 8, 1}), x(Dtype::f32, {4, 8}), ends(Dtype::i32, {1});
  Tensor y(Dtype::f32, {4, 8, 1}), starts(Dtype::i32, {1}), other(Dtype::i32, {1});
  PadGroups pad{cube.operand(), ends.operand(), y.result(), starts.result(), other.result()};
  EXPECT_EQ(said(pad_groups, pad), "pad_groups: x: found f32 [4, 8, 1], needs rank 2");
  pad.x = x.operand();
  EXPECT_EQ(said(pad_groups, pad), "pad_groups: y: found f32 [4, 8, 1], needs rank 2");
}

TEST(Ranges, OfPaddedRowsFollowFromRowsAndGroups) {
  EXPECT_EQ(padded_to(16, 6), "");  // 6 + 2 * 4, in steps of 4
  EXPECT_NE(padded_to(12, 6), "");
  EXPECT_NE(padded_to(16, 7), "") << "beyond the rows, not the columns";
  EXPECT_NE(padded_to(16, 6, 0).find("alignment: found 0, needs a positive number"),
            std::string::npos);
  const Index most = (std::numeric_limits<std::int32_t>::max() - 6) / 3;
  EXPECT_EQ(padded_rows(6, 2, most), round_up(6 + 2 * most, most));
  EXPECT_THROW(padded_rows(6, 2, most + 1), Error);
}

/// The experts of three tokens, two of four each; entry `place` is `expert`.
std::string gradient_of(std::int32_t expert, Index place) {
  Tensor logits(Dtype::f32, {3, 4}), experts(Dtype::i32, {3, 2}), weights(Dtype::f32, {3, 2});
  Tensor dlogits(Dtype::f32, {3, 4});
  for (Index i = 0; i < 6; ++i) experts.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % 2);
  experts.as<std::int32_t>()[place] = expert;
  return said<RouteBackward>(
      route_backward, {logits.operand(), experts.operand(), weights.operand(), dlogits.result()});
}

TEST(Ranges, OfChosenExpertsAreThoseOfTheLogits) {
  for (Index place = 0; place < 6; ++place) {
    const std::string entry = "route_backward: experts: entry (" + std::to_string(place / 2) +
                              ", " + std::to_string(place % 2) + ") is ";
    EXPECT_EQ(gradient_of(3, place), "");
    EXPECT_EQ(gradient_of(4, place), entry + "4, needs one of 4 experts");
    EXPECT_EQ(gradient_of(-1, place), entry + "-1, needs one of 4 experts");
  }
}

TEST(Ranges, OfRouterGradientsAreNamedByRankOrShape) {
  Tensor logits(Dtype::f32, {5, 8}), dlogits(Dtype::f32, {5, 8}), more(Dtype::i32, {6, 2});
  Tensor weights(Dtype::f32, {6, 2}), flat(Dtype::i32, {5}), x(Dtype::bf16, {5, 6});
  Tensor router(Dtype::bf16, {8, 6}), cube(Dtype::f32, {5, 6, 1});
  Tensor dx(Dtype::f32, {5, 6}), drouter(Dtype::f32, {8, 6});
  EXPECT_EQ(said<RouteBackward>(route_backward, {logits.operand(), more.operand(),
                                                 weights.operand(), dlogits.result()}),
            "route_backward: experts: found i32 [6, 2], needs [5, 2]");
  EXPECT_EQ(said<RouteBackward>(route_backward, {logits.operand(), flat.operand(),
                                                 weights.operand(), dlogits.result()}),
            "route_backward: experts: found i32 [5], needs rank 2");
  const auto gradients = [&](Operand a, Result b, Result c) {
    return said<RouterGradients>(router_gradients, {dlogits.operand(), router.operand(), a, b, c});
  };
  EXPECT_EQ(gradients(x.operand(), cube.result(), {}),
            "router_gradients: dx: found f32 [5, 6, 1], needs rank 2");
  EXPECT_EQ(gradients(x.operand(), {}, cube.result()),
            "router_gradients: drouter: found f32 [5, 6, 1], needs rank 2");
  // x is not read for dx alone.
  EXPECT_EQ(gradients(dx.operand(), dx.result(), {}), "");
  EXPECT_EQ(gradients(x.operand(), dx.result(), drouter.result()), "");
}

}  // namespace
}  // namespace mxo

// Ends of the ranges that operators take: ranks, experts, groups, selections; names of operands of
// ranks, and what ranks in other processes hand over.
#include <gtest/gtest.h>

#include "formats/tensor.h"
#include "ops/catalogue/ranks.h"
#include "ops/elementwise.h"
#include "ops/pad_groups.h"
#include "ops/router_gradients.h"
#include "ops/swiglu.h"
#include "tests/ops/told_communicator.h"
#include "tests/support/random_tensors.h"
#include "tests/support/refusal.h"

namespace mxo::ranges_test {
namespace {

TEST(Ranges, OfExpertsAreOfTwoAxes) {
  Tensor logits(Dtype::f32, {3, 8}), experts(Dtype::i32, {6}), weights(Dtype::f32, {3, 2});
  Tensor counts(Dtype::i32, {8});
  EXPECT_EQ(check_refusal<Route>(
                route, {logits.operand(), {}, experts.result(), weights.result(), counts.result()}),
            "route: experts: found i32 [6], needs rank 2");
  Tensor none(Dtype::f32, {3, 0}), chosen(Dtype::i32, {3, 1}), weight(Dtype::f32, {3, 1}),
      no(Dtype::i32, {0});
  EXPECT_EQ(check_refusal<Route>(
                route, {none.operand(), {}, chosen.result(), weight.result(), no.result()}),
            "route: experts: found 0, needs 1 to 2147483647");
}

TEST(Ranges, OfGradientsKnowNoMachine) {
  Tensor x(Dtype::f32, {2, 6}), half(Dtype::f32, {2, 3}), dx(Dtype::f32, {2, 6});
  SwigluBackward op{x.operand(), {}, half.operand(), dx.result(), {}};
  op.gate.arithmetic = GateArithmetic::triton_sm90;
  EXPECT_EQ(check_refusal(swiglu_backward, op),
            "swiglu_backward: arithmetic: found Triton's, needs rounded: gradients have no other");
}

TEST(Ranges, OfBiasesInPlaceAreTheSameElements) {
  Tensor y(Dtype::f32, {4, 4}), bias(Dtype::f32, {4}), wide(Dtype::f32, {2, 4, 4});
  const auto over = [&](const Operand& read, const Result& written) {
    return check_refusal<AddBias>(add_bias, {read, bias.operand(), {}, written});
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

/// Groups of 2, 0 and 3 rows of y [8, 4], which begin where `starts` say.
std::string unpadded_from(std::initializer_list<std::int32_t> starts) {
  Tensor y(Dtype::bf16, {8, 4}), x(Dtype::bf16, {5, 4});
  const Tensor ends = test::integers_of({2, 2, 5}), begins = test::integers_of(starts);
  return check_refusal<UnpadGroups>(unpad_groups,
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

TEST(Ranges, OfRouterGradientsAreNamedByRankOrShape) {
  Tensor logits(Dtype::f32, {5, 8}), dlogits(Dtype::f32, {5, 8}), more(Dtype::i32, {6, 2});
  Tensor weights(Dtype::f32, {6, 2}), flat(Dtype::i32, {5}), x(Dtype::bf16, {5, 6});
  Tensor router(Dtype::bf16, {8, 6}), cube(Dtype::f32, {5, 6, 1});
  Tensor dx(Dtype::f32, {5, 6}), drouter(Dtype::f32, {8, 6});
  EXPECT_EQ(check_refusal<RouteBackward>(route_backward, {logits.operand(), more.operand(),
                                                          weights.operand(), dlogits.result()}),
            "route_backward: experts: found i32 [6, 2], needs [5, 2]");
  EXPECT_EQ(check_refusal<RouteBackward>(route_backward, {logits.operand(), flat.operand(),
                                                          weights.operand(), dlogits.result()}),
            "route_backward: experts: found i32 [5], needs rank 2");
  const auto gradients = [&](Operand a, Result b, Result c) {
    return check_refusal<RouterGradients>(router_gradients,
                                          {dlogits.operand(), router.operand(), a, b, c});
  };
  EXPECT_EQ(gradients(x.operand(), cube.result(), {}),
            "router_gradients: dx: found f32 [5, 6, 1], needs rank 2");
  EXPECT_EQ(gradients(x.operand(), {}, cube.result()),
            "router_gradients: drouter: found f32 [5, 6, 1], needs rank 2");
  // x is not read for dx alone.
  EXPECT_EQ(gradients(dx.operand(), dx.result(), {}), "");
  EXPECT_EQ(gradients(x.operand(), dx.result(), drouter.result()), "");
}

TEST(Ranks, NameTheirOperands) {
  EXPECT_TRUE(names_operand("w1", "w1"));
  EXPECT_FALSE(names_operand("w1", "w2"));
  EXPECT_FALSE(names_operand("w1", "rank0.w1"));
  for (const char* name : {"rank0.x", "rank9.x", "rank10.x", "rank907.x"})
    EXPECT_TRUE(names_operand("rank<p>.x", name)) << name;
  for (const char* name :
       {"x", "rank.x", "rank0x", "rank0", "rank0.", "rank0.y", "rank00.x", "rank01.x", "rank:.x",
        "rank/.x", "rankA.x", "tank0.x", "rank-1.x", "rank0.xx", "rank<p>.x"}) {
    EXPECT_FALSE(names_operand("rank<p>.x", name)) << name;
  }
}

/// A job of processes, or ranks of this one.
struct Job : World {
  Job(bool here, bool first) : one(here), writer(first) {}
  std::string_view name() const override { return "job"; }
  void run(int, const std::function<void(Communicator&)>&) override {}
  bool one_process() const override { return one; }
  bool writes() const override { return writer; }
  bool one;
  bool writer;
};

/// Rank 1 of two, which both send what this one does.
struct Mirror : ToldCommunicator {
  using Communicator::all_gather;
  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    ++gathers;
    return {Bytes(mine.begin(), mine.end()), Bytes(mine.begin(), mine.end())};
  }
  int gathers = 0;
};

NamedTensors outputs() {
  NamedTensors t;
  Tensor y(Dtype::i32, {2, 3});
  for (Index i = 0; i < 6; ++i) y.as<std::int32_t>()[i] = static_cast<std::int32_t>(70 + i);
  t.emplace("y", std::move(y));
  t.emplace("empty", Tensor(Dtype::bf16, {0, 4}));
  Tensor scales(Dtype::u8, {1});
  scales.data()[0] = std::byte{9};
  t.emplace("y.scales", std::move(scales));
  return t;
}

void expect_outputs_of(const NamedTensors& all, const std::string& rank) {
  ASSERT_TRUE(all.contains(rank + ".y") && all.contains(rank + ".empty"));
  EXPECT_EQ(describe(all.at(rank + ".y").operand()), "i32 [2, 3]");
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(all.at(rank + ".y").as<std::int32_t>()[i], 70 + i);
  EXPECT_EQ(describe(all.at(rank + ".empty").operand()), "bf16 [0, 4]");
  EXPECT_EQ(describe(all.at(rank + ".y.scales").operand()), "u8 [1]");
  EXPECT_EQ(all.at(rank + ".y.scales").data()[0], std::byte{9});
}

TEST(RankOutputs, OfProcessesTravelToTheOneThatWrites) {
  Mirror rank;
  Job job(false, true);
  RankOutputs collected;
  collected.add(job, rank, outputs());
  const NamedTensors all = collected.take();
  EXPECT_EQ(all.size(), 6u);
  expect_outputs_of(all, "rank0");
  expect_outputs_of(all, "rank1");

  Job other(false, false);
  RankOutputs none;
  none.add(other, rank, outputs());
  EXPECT_TRUE(none.take().empty());
  EXPECT_EQ(rank.gathers, 2) << "collective";
}

}  // namespace
}  // namespace mxo::ranges_test

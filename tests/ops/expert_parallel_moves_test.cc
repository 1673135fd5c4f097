// Rows that travel between ranks: what is refused, which way they go, and the bytes that arrive.
#include "ops/expert_parallel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "ops/permute.h"
#include "tests/ops/recorder.h"
#include "tests/ops/told_communicator.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

/// Memory that seems not the host's, and permute.
class FarPermuter : public Bare {
 public:
  FarPermuter() : Bare(false) {}

  int permutations = 0;

 protected:
  void run(const Permute& op) override {
    ++permutations;
    const std::size_t row = static_cast<std::size_t>(op.x.extent[1]) * size_of(op.x.dtype);
    for (Index i = 0; i < op.indices.extent[0]; ++i) {
      const auto from = static_cast<const std::int32_t*>(op.indices.data)[i];
      if (from < 0 || row == 0) continue;
      std::memcpy(static_cast<std::byte*>(op.y.data) + static_cast<std::size_t>(i) * row,
                  static_cast<const std::byte*>(op.x.data) + static_cast<std::size_t>(from) * row,
                  row);
    }
  }
};

/// Three tokens of D 64, two of four experts each, all on one rank.
struct Moves : testing::Test {
  Tensor chosen{Dtype::i32, {3, 2}}, x{Dtype::bf16, {3, 64}}, weights{Dtype::f32, {3, 2}};
  Tensor codes{Dtype::e4m3, {3, 64}}, scales{Dtype::e8m0, {3, 2}}, rows{Dtype::bf16, {6, 64}};
  Tensor out{Dtype::bf16, {3, 64}}, dweights{Dtype::f32, {3, 2}};
  Recorder recorder;
  AloneCommunicator alone;
  ExpertPlan plan;
  Wire wire;

  Moves() {
    const std::int32_t experts[] = {3, 0, 2, 3, 0, 2};
    std::copy_n(experts, 6, chosen.as<std::int32_t>());
    for (Index i = 0; i < x.elements(); ++i) x.as<std::uint16_t>()[i] = std::uint16_t(i);
    plan = plan_experts(recorder, alone, chosen.operand(), 4, 1, DispatchLayout::rank_major);
  }
  ScaledTensor coded() const { return {codes.operand(), scales.operand(), kMxColumns}; }
  /// What is said; nothing where it ends, or comes to an operator that the recorder has not.
  template <typename Fn>
  static std::string said(Fn fn) {
    try {
      fn();
    } catch (const Error& error) {
      return error.fault() == Fault::unsupported ? "" : error.what();
    }
    return "";
  }
  std::string dispatched(const ScaledTensor& from, const Operand& by = {}) {
    return said([&] { dispatch(recorder, alone, plan, from, wire, by); });
  }
  std::string back(const Operand& dy, const Result& dx, const InputWeights& input = {}) {
    return said([&] { dispatch_backward(recorder, alone, plan, dy, dx, input); });
  }
  std::string combined(const Operand& y, const Result& to) {
    return said([&] { combine(recorder, alone, plan, y, weights.operand(), to); });
  }
  std::string spread(const Operand& dout) {
    return said([&] {
      combine_backward(recorder, alone, plan, rows.operand(), weights.operand(), dout,
                       dweights.result(), wire);
    });
  }
};

TEST_F(Moves, TakeRowsOfTheStep) {
  const Tensor flat(Dtype::bf16, {3}), codes_alone(Dtype::e4m3, {3, 64}),
      four(Dtype::bf16, {4, 64});
  EXPECT_EQ(dispatched(unscaled(x.operand())), "");
  EXPECT_EQ(dispatched(unscaled(flat.operand())), "dispatch: x: found bf16 [3], needs rank 2");
  EXPECT_EQ(dispatched(unscaled(codes_alone.operand())),
            "dispatch: x: found e4m3, needs bf16 or f32 or f16");
  EXPECT_EQ(dispatched(unscaled(four.operand())), "dispatch: x: found bf16 [4, 64], needs [3, 64]");
  EXPECT_EQ(dispatched(unscaled(x.operand()), weights.operand()), "");
  const Tensor half(Dtype::f16, {3, 2}), other(Dtype::f32, {2, 3});
  EXPECT_EQ(dispatched(unscaled(x.operand()), half.operand()),
            "dispatch: weights: found f16, needs f32");
  EXPECT_EQ(dispatched(unscaled(x.operand()), other.operand()),
            "dispatch: weights: found f32 [2, 3], needs [3, 2]");
}

TEST_F(Moves, TakeCodesThatTravelAsTheyAre) {
  EXPECT_EQ(dispatched(coded()), "");
  EXPECT_EQ(dispatched(coded(), weights.operand()), "dispatch: weights: found with codes, need x");
  wire.precision = WirePrecision::bf16;
  EXPECT_EQ(dispatched(coded()), "dispatch: x.codes: found codes, a bf16 wire needs x");
  wire.precision = WirePrecision::fp8_blockwise;
  EXPECT_EQ(dispatched(coded()), "dispatch: x.scales: found e8m0, needs f32");
  const Tensor odd(Dtype::e5m2fnuz, {3, 48}), numbers(Dtype::f32, {3, 1});
  EXPECT_EQ(dispatched({odd.operand(), numbers.operand(), kRowBlock}), "")
      << "the last block of 128 is shorter";
  wire.precision = WirePrecision::mxfp8;
  EXPECT_EQ(dispatched({odd.operand(), scales.operand(), kMxColumns}),
            "dispatch: x.codes: D is 48, not a multiple of 32");

  const Tensor flat(Dtype::e4m3, {3}), four(Dtype::e4m3, {4, 64}), long_scales(Dtype::e8m0, {4, 2});
  EXPECT_EQ(dispatched({flat.operand(), scales.operand(), kMxColumns}),
            "dispatch: x.codes: found e4m3 [3], needs rank 2");
  EXPECT_EQ(dispatched({x.operand(), scales.operand(), kMxColumns}),
            "dispatch: x.codes: found bf16, needs e4m3 or e4m3fnuz or e5m2 or e5m2fnuz");
  EXPECT_EQ(dispatched({four.operand(), long_scales.operand(), kMxColumns}),
            "dispatch: x.codes: found e4m3 [4, 64], needs [3, 64]");
  EXPECT_EQ(dispatched({codes.operand(), long_scales.operand(), kMxColumns}),
            "dispatch: x.scales: found e8m0 [4, 2], needs [3, 2]");
  const std::string contiguous = "dispatch: x.codes and x.scales: need contiguous rows";
  ScaledTensor stepped = coded();
  stepped.codes.stride[0] = 65;
  EXPECT_EQ(dispatched(stepped), contiguous);
  stepped = coded();
  stepped.scales.stride[0] = 3;
  EXPECT_EQ(dispatched(stepped), contiguous);
}

TEST_F(Moves, GoBackAsRowsOfThePlan) {
  const Tensor flat(Dtype::bf16, {6}), wide(Dtype::f64, {6, 64}), five(Dtype::bf16, {5, 64});
  Tensor flat_out(Dtype::bf16, {3}), four(Dtype::bf16, {4, 64});
  Operand stepped = rows.operand();
  stepped.stride[0] = 65;
  EXPECT_EQ(back(rows.operand(), out.result()), "");
  EXPECT_EQ(combined(rows.operand(), out.result()), "");
  const auto both = [&](const Operand& y, const std::string& what) {
    EXPECT_EQ(back(y, out.result()), "dispatch_backward: dy: " + what);
    EXPECT_EQ(combined(y, out.result()), "combine: y: " + what);
  };
  both(flat.operand(), "found bf16 [6], needs rank 2");
  both(wide.operand(), "found f64, needs bf16 or f16 or f32");
  both(five.operand(), "found bf16 [5, 64], needs [6, 64]");
  both(stepped, "needs contiguous rows");
  EXPECT_EQ(back(rows.operand(), flat_out.result()),
            "dispatch_backward: dx: found bf16 [3], needs rank 2");
  EXPECT_EQ(back(rows.operand(), four.result()),
            "dispatch_backward: dx: found bf16 [4, 64], needs [3, 64]");
  EXPECT_EQ(combined(rows.operand(), flat_out.result()),
            "combine: out: found bf16 [3], needs rank 2");
  EXPECT_EQ(combined(rows.operand(), four.result()),
            "combine: out: found bf16 [4, 64], needs [3, 64]");
  EXPECT_EQ(spread(x.operand()), "");
  EXPECT_EQ(spread(flat.operand()), "combine_backward: dout: found bf16 [6], needs rank 2");
  EXPECT_EQ(spread(four.operand()), "combine_backward: dout: found bf16 [4, 64], needs [3, 64]");
}

TEST_F(Moves, WeighGradientsOfWhatWasWeighed) {
  const Tensor four(Dtype::bf16, {4, 64});
  InputWeights input{x.operand(), weights.operand(), dweights.result()};
  EXPECT_EQ(back(rows.operand(), out.result(), input), "");
  input.weights = {};
  EXPECT_EQ(back(rows.operand(), out.result(), input),
            "dispatch_backward: x: found without weights");
  input.weights = weights.operand();
  input.x = four.operand();
  EXPECT_EQ(back(rows.operand(), out.result(), input),
            "dispatch_backward: x: found bf16 [4, 64], needs [3, 64]");
}

TEST_F(Moves, BringRowsStraightToTheirPlace) {
  wire.precision = WirePrecision::bf16;
  const OwnedScaledTensor sent = dispatch(recorder, alone, plan, unscaled(x.operand()), wire);
  EXPECT_EQ(recorder.steps, std::vector<std::string>{}) << "no operator is asked";
  const std::int32_t order[] = {0, 2, 1, 2, 0, 1};  // by expert, token and slot
  for (Index i = 0; i < 6; ++i) {
    EXPECT_EQ(std::memcmp(static_cast<const std::uint16_t*>(sent.codes().data) + i * 64,
                          x.as<std::uint16_t>() + order[i] * 64, 128),
              0)
        << i;
  }
  wire.placement = Placement::unfused;
  try {
    dispatch(recorder, alone, plan, unscaled(x.operand()), wire);
    ADD_FAILURE() << "the definition permutes";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("permute is not available"), std::string::npos);
  }
}

TEST_F(Moves, RoundWhatABf16WireCannotTakeAsItLies) {
  wire.precision = WirePrecision::bf16;
  const Tensor wide(Dtype::f32, {3, 64});
  Tensor room(Dtype::bf16, {3, 80});
  Operand stepped = room.operand();
  stepped.extent[1] = 64;
  recorder.names[wide.data()] = "wide";
  recorder.names[room.data()] = "room";
  dispatch(recorder, alone, plan, unscaled(wide.operand()), wire);
  dispatch(recorder, alone, plan, unscaled(stepped), wire);
  ASSERT_EQ(recorder.steps.size(), 2u);
  EXPECT_TRUE(recorder.steps[0].starts_with("cast wide f32 [3, 64] -> #"));
  EXPECT_TRUE(recorder.steps[0].ends_with(" bf16 [3, 64]"));
  EXPECT_TRUE(recorder.steps[1].starts_with("cast room bf16 [3, 64] by steps -> #"));
}

TEST(FarMoves, GoByThePermutationsOfTheBackend) {
  // Rank 1 of two sends two rows to the other and keeps one; the other sends one.
  FarPermuter far;
  ToldCommunicator ranks;
  ExpertPlan plan;
  plan.ranks = 2;
  plan.tokens = 3;
  plan.top_k = 1;
  plan.send_counts = {2, 1};
  plan.receive_counts = {1, 1};
  plan.received = plan.rows = 2;
  const auto map = [&](std::vector<std::int32_t> values) {
    Tensor t(Dtype::i32, {static_cast<Index>(values.size())});
    std::copy(values.begin(), values.end(), t.as<std::int32_t>());
    return MirroredTensor(far, std::move(t));
  };
  plan.order = map({0, 1, 2});
  plan.place = map({1, 0});
  Tensor y(Dtype::bf16, {2, 1});
  y.as<std::uint16_t>()[0] = 0x0707;
  y.as<std::uint16_t>()[1] = 0x0808;
  ranks.from_other = {std::byte{1}, std::byte{1}, std::byte{2}, std::byte{2}};
  const BackendTensor back = return_sent(far, ranks, plan, y.operand());
  EXPECT_EQ(far.permutations, 1);
  ASSERT_EQ(back.operand().extent[0], 3);
  const auto* const rows = static_cast<const std::uint16_t*>(back.operand().data);
  EXPECT_EQ(std::vector(rows, rows + 3), (std::vector<std::uint16_t>{0x0101, 0x0202, 0x0707}));
  EXPECT_EQ(ranks.to_other, (ToldCommunicator::Bytes{std::byte{8}, std::byte{8}}));
}

TEST_F(Moves, OfARankAloneAreNoExchange) {
  FarPermuter far;
  ExpertPlan all = plan_experts(far, alone, chosen.operand(), 4, 1, DispatchLayout::rank_major);
  all.indices = MirroredTensor(far, Tensor(Dtype::i32, {6}));
  dispatch_sent(far, alone, all, rows.operand(), Placement::unfused);
  return_sent(far, alone, all, rows.operand());
  EXPECT_EQ(far.permutations, 2);
  EXPECT_EQ(alone.exchanges, 0);
}

TEST(WireBytes, CountWhatLeavesTheRank) {
  ExpertPlan plan;
  plan.send_counts = {5, 7, 11};
  const auto bytes = [&](int rank, WirePrecision precision, Index width) {
    Wire wire;
    wire.precision = precision;
    return wire_bytes(plan, rank, width, wire);
  };
  EXPECT_EQ(bytes(0, WirePrecision::bf16, 96), 18 * 192);
  EXPECT_EQ(bytes(1, WirePrecision::bf16, 96), 16 * 192);
  EXPECT_EQ(bytes(2, WirePrecision::bf16, 96), 12 * 192);
  EXPECT_EQ(bytes(1, WirePrecision::mxfp8, 96), 16 * (96 + 3));
  EXPECT_EQ(bytes(1, WirePrecision::fp8_blockwise, 192), 16 * (192 + 8));
}

}  // namespace
}  // namespace mxo

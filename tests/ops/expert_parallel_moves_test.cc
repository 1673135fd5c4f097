// Plans of ranks, and rows that travel between them: what is refused, which way they go, and the
// bytes that arrive.
#include "ops/expert_parallel.h"
#include "ops/expert_plan.h"
#include "tests/ops/entry_calls.h"
#include "tests/ops/told_communicator.h"
#include "tests/support/refusal.h"

namespace mxo::expert_parallel_moves_test {
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
  KeepingBackend backend;
  AloneCommunicator alone;
  ExpertPlan plan;
  Wire wire;

  Moves() {
    const std::int32_t experts[] = {3, 0, 2, 3, 0, 2};
    std::copy_n(experts, 6, chosen.as<std::int32_t>());
    for (Index i = 0; i < x.elements(); ++i) x.as<std::uint16_t>()[i] = std::uint16_t(i);
    plan = plan_experts(backend, alone, chosen.operand(), 4, 1, DispatchLayout::rank_major);
  }
  ScaledTensor coded() const { return {codes.operand(), scales.operand(), kMxColumns}; }
  std::string dispatched(const ScaledTensor& from, const Operand& by = {}) {
    return refusal([&] { dispatch(backend, alone, plan, from, wire, by); });
  }
  std::string back(const Operand& dy, const Result& dx, const InputWeights& input = {}) {
    return refusal([&] { dispatch_backward(backend, alone, plan, dy, dx, input); });
  }
  std::string combined(const Operand& y, const Result& to) {
    return refusal([&] { combine(backend, alone, plan, y, weights.operand(), to); });
  }
  std::string spread(const Operand& dout) {
    return refusal([&] {
      combine_backward(backend, alone, plan, rows.operand(), weights.operand(), dout,
                       dweights.result(), wire);
    });
  }
};

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
            "dispatch: x.codes: found bf16, needs e4m3, e4m3fnuz, e5m2 or e5m2fnuz");
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
  both(wide.operand(), "found f64, needs bf16, f16 or f32");
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

/// Four experts, two a rank; three tokens of this rank, rank 1, choose two each.
struct Plans : testing::Test {
  Tensor chosen{Dtype::i32, {3, 2}};
  ToldCommunicator ranks;
  Bare machine{true};

  Plans() {
    choose({3, 0, 2, 3, 0, 2});
    other_says({4, 2, 1, 0, 5, 2});
  }
  void choose(std::vector<std::int32_t> experts) {
    std::copy(experts.begin(), experts.end(), chosen.as<std::int32_t>());
  }
  /// Experts, choices of a token, and rows for every expert; after them choices of none.
  void other_says(std::vector<Index> message, Index none = 0) {
    message.push_back(none);
    ranks.from_other.resize(message.size() * sizeof(Index));
    std::memcpy(ranks.from_other.data(), message.data(), ranks.from_other.size());
  }
  ExpertPlan plan(DispatchRows rows = DispatchRows::received, Index alignment = 1) {
    return plan_experts(machine, ranks, chosen.operand(), 4, alignment, DispatchLayout::rank_major,
                        rows);
  }
  std::string refusal(const Operand& choice, Index experts = 4, Index alignment = 1) {
    return mxo::refusal([&] {
      plan_experts(machine, ranks, choice, experts, alignment, DispatchLayout::rank_major);
    });
  }
};

std::vector<std::int32_t> words(const Tensor& t) {
  return {t.as<std::int32_t>(), t.as<std::int32_t>() + t.elements()};
}

using Words = std::vector<std::int32_t>;
using Counts = std::vector<Index>;

TEST_F(Plans, SortRowsByExpertTokenAndSlot) {
  const ExpertPlan p = plan();
  EXPECT_EQ(p.experts, 4);
  EXPECT_EQ(p.local, 2);
  EXPECT_EQ(p.ranks, 2);
  EXPECT_EQ(p.tokens, 3);
  EXPECT_EQ(p.top_k, 2);
  EXPECT_EQ(p.layout, DispatchLayout::rank_major);
  EXPECT_EQ(words(p.order.host()), (Words{0, 2, 1, 2, 0, 1}));
  EXPECT_EQ(words(p.slots.host()), (Words{4, 0, 2, 5, 1, 3}));
  EXPECT_EQ(p.slots.host().shape(), (Counts{3, 2}));
  EXPECT_EQ(p.send_counts, (Counts{2, 4}));
  EXPECT_EQ(p.receive_counts, (Counts{7, 4}));
  EXPECT_EQ(p.received, 11);
  EXPECT_EQ(words(p.tokens_per_expert), (Words{5, 2, 2, 2}));
  EXPECT_EQ(p.rows, 11);
  EXPECT_EQ(words(p.place.host()), (Words{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_FALSE(p.indices.given()) << "rows lie as they come";
  EXPECT_EQ(words(p.group_ends.host()), (Words{0, 0})) << "no layout by expert, no groups";
}

TEST_F(Plans, OfTheWorstCaseHaveRoomForAll) {
  const ExpertPlan p = plan(DispatchRows::worst_case);
  EXPECT_EQ(p.received, 11);
  EXPECT_EQ(p.rows, 14) << "eight of the other rank and six of this";
  EXPECT_EQ(words(p.indices.host()), (Words{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -1, -1, -1}));
  EXPECT_EQ(words(p.place.host()), (Words{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST_F(Plans, SendNothingForAChoiceOfNone) {
  choose({3, -1, 2, 3, -1, -1});
  other_says({4, 2, 1, 0, 5, 0}, 2);
  const ExpertPlan p = plan();
  EXPECT_EQ(words(p.order.host()), (Words{1, 0, 1}));
  EXPECT_EQ(words(p.slots.host()), (Words{1, -1, 0, 2, -1, -1}));
  EXPECT_EQ(p.send_counts, (Counts{0, 3}));
  EXPECT_EQ(p.receive_counts, (Counts{5, 3}));
  EXPECT_EQ(plan(DispatchRows::worst_case).rows, 14) << "shapes alone: 8 choices there, 6 here";
}

TEST_F(Plans, RefuseChoicesThatAreNone) {
  const auto bad = [&](std::size_t at, std::int32_t expert) {
    Words experts = {3, 0, 2, 3, 0, 2};
    experts[at] = expert;
    choose(experts);
    return refusal(chosen.operand());
  };
  EXPECT_EQ(bad(0, -1), "");
  EXPECT_EQ(bad(0, -2), "dispatch: experts: entry (0, 0) is -2, needs -1 or one of 4 experts");
  EXPECT_EQ(bad(0, 4), "dispatch: experts: entry (0, 0) is 4, needs -1 or one of 4 experts");
  EXPECT_EQ(bad(5, 4), "dispatch: experts: entry (2, 1) is 4, needs -1 or one of 4 experts");
  const Tensor flat(Dtype::i32, {3}), wide(Dtype::i64, {3, 2});
  EXPECT_EQ(refusal(flat.operand()), "dispatch: experts: found i32 [3], needs rank 2");
  EXPECT_EQ(refusal(wide.operand()), "dispatch: experts: found i64, needs i32");
}

TEST_F(Plans, RefuseExpertsThatRanksCannotShare) {
  const Tensor none(Dtype::i32, {0, 2});
  const std::string needs = " on 2 ranks, needs a positive multiple of the ranks";
  EXPECT_EQ(refusal(none.operand(), 0), "dispatch: experts: found 0 experts" + needs);
  EXPECT_EQ(refusal(none.operand(), -2), "dispatch: experts: found -2 experts" + needs);
  EXPECT_EQ(refusal(none.operand(), 3), "dispatch: experts: found 3 experts" + needs);
  EXPECT_EQ(refusal(none.operand(), 4), "");
  AloneCommunicator alone;
  EXPECT_EQ(plan_experts(machine, alone, none.operand(), 1, 1, DispatchLayout::rank_major).local,
            1);
}

}  // namespace
}  // namespace mxo::expert_parallel_moves_test

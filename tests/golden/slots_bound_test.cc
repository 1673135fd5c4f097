// Sums of slots written out: where each row lies, what its sum may stray, and what is refused.
#include "golden/judge/slots_bound.h"

#include <gtest/gtest.h>

#include "formats/philox.h"
#include "tests/golden/tensors.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

constexpr Index kRanks = 2;
constexpr Index kExperts = 6;
constexpr Index kTokens = 5;
constexpr Index kSlots = 3;
constexpr Index kColumns = 2;

std::string of(Index rank, const char* part) { return "rank" + std::to_string(rank) + "." + part; }

Parameters of_experts(Index experts = kExperts) {
  Parameters set;
  set.set("experts", std::to_string(experts));
  return set;
}

Parameters padded_to(Index alignment) {
  Parameters set = of_experts();
  set.set("layout", "expert_major_padded");
  set.set("alignment", std::to_string(alignment));
  return set;
}

/// Expert 4 gets nothing; all rows are different.
NamedTensors slots(const char* rows, bool weights, Index received = 40) {
  NamedTensors in;
  for (Index p = 0; p < kRanks; ++p) {
    Tensor experts(Dtype::i32, {kTokens, kSlots});
    Tensor w(Dtype::f32, {kTokens, kSlots});
    for (Index i = 0; i < experts.elements(); ++i) {
      const auto drawn = philox(static_cast<std::uint64_t>(i), 3, 7 + static_cast<unsigned>(p));
      const auto e = static_cast<std::int32_t>(drawn.word[0] % 5);
      experts.as<std::int32_t>()[i] = e == 4 ? 5 : e;
      w.as<float>()[i] = 0.1f * static_cast<float>(i + 1);
    }
    in.emplace(of(p, "experts"), std::move(experts));
    if (weights) in.emplace(of(p, "weights"), std::move(w));
    Tensor y(Dtype::bf16, {received, kColumns});
    for (Index i = 0; i < y.elements(); ++i) {
      y.as<BF16>()[i] =
          encode<kBF16>(static_cast<float>((i % 2 == 0 ? 1 : -1) * (1 + p * 128 + i)));
    }
    in.emplace(of(p, rows), std::move(y));
  }
  return in;
}

TEST(SlotsBound, PromisesNothingPastTheRangeOfF32) {
  const auto bound_with = [](float w, float y) {
    NamedTensors in = slots("y", true);
    std::fill_n(in.at("rank0.weights").as<float>(), kTokens * kSlots, w);
    for (const char* rows : {"rank0.y", "rank1.y"}) {
      Tensor& t = in.at(rows);
      std::fill_n(t.as<BF16>(), t.elements(), encode<kBF16>(y));
    }
    return slots_bound("combine", "rank0.out", in, of_experts());
  };
  EXPECT_EQ(bound_with(1, 0x1p126f).exact[0], 3 * 0x1p126);
  EXPECT_LT(bound_with(1, 0x1p126f).stray[0], 0x1p106);
  EXPECT_TRUE(std::isinf(bound_with(2, 0x1p126f).stray[0]));
  EXPECT_TRUE(std::isnan(bound_with(1, std::numeric_limits<float>::infinity()).exact[0]));
  EXPECT_TRUE(std::isnan(bound_with(std::nanf(""), 1).exact[0]));
}

/// One product of f32's largest number, which any error carries out of its range.
TEST(SlotsBound, PromisesNothingAtTheEdgeOfTheRangeOfF32) {
  NamedTensors in = slots("y", true);
  float* w = in.at("rank0.weights").as<float>();
  for (const Index p : {0, 1}) {
    Tensor& t = in.at(of(p, "y"));
    std::fill_n(t.as<BF16>(), t.elements(), encode<kBF16>(1));
  }
  w[0] = std::numeric_limits<float>::max();
  w[1] = w[2] = 0;
  w[3] = std::numeric_limits<float>::max() / 2;
  const ErrorBound bound = slots_bound("combine", "rank0.out", in, of_experts());
  EXPECT_TRUE(std::isinf(bound.stray[0]));
  EXPECT_TRUE(std::isfinite(bound.stray[kColumns]));
}

TEST(SlotsBound, IsOfOutAndDxAlone) {
  EXPECT_TRUE(sums_slots("combine", "rank3.out"));
  EXPECT_TRUE(sums_slots("dispatch_backward", "rank0.dx"));
  EXPECT_FALSE(sums_slots("combine", "rank0.dx"));
  EXPECT_FALSE(sums_slots("dispatch_backward", "rank0.out"));
  EXPECT_FALSE(sums_slots("dispatch", "rank0.out"));
}

/// What is said of operands one of which is another; nothing where they are taken.
std::string said(const std::string& name, Tensor tensor, const Parameters& set = of_experts()) {
  NamedTensors in = slots("y", true);
  in.insert_or_assign(name, std::move(tensor));
  return refusal([&] { slots_bound("combine", "rank0.out", in, set); }, Fault::shape);
}

Tensor chosen(std::int32_t expert, std::vector<Index> shape = {kTokens, kSlots}) {
  Tensor t(Dtype::i32, std::move(shape));
  std::fill_n(t.as<std::int32_t>(), t.elements(), expert);
  return t;
}

TEST(SlotsBound, NamesTheOperandThatContradictsTheRouting) {
  const std::string needs = ": gate bound needs ";
  const auto rank0 = [&](const char* part) {
    return "combine: rank0." + std::string(part) + needs;
  };
  for (const std::int32_t e : {-1, 0, 5}) EXPECT_EQ(said("rank0.experts", chosen(e)), "") << e;
  for (const std::int32_t e : {-2, 6}) {
    EXPECT_EQ(said("rank0.experts", chosen(e)), rank0("experts") + "experts from -1 to E - 1");
  }
  Tensor first = chosen(0);
  first.as<std::int32_t>()[0] = 6;
  EXPECT_EQ(said("rank0.experts", first), rank0("experts") + "experts from -1 to E - 1");
  EXPECT_EQ(said("rank0.experts", chosen(0, {15})), rank0("experts") + "i32 [T, k]");
  EXPECT_EQ(said("rank0.experts", Tensor(Dtype::u8, {5, 3})), rank0("experts") + "i32 [T, k]");
  const std::string weights = rank0("weights") + "f32 of the shape of the experts";
  EXPECT_EQ(said("rank0.weights", Tensor(Dtype::f32, {3, 5})), weights);
  EXPECT_EQ(said("rank0.weights", Tensor(Dtype::bf16, {5, 3})), weights);
  const std::string rows = rank0("y") + "bf16, f16 or f32 [rows, D] with the rows that it received";
  EXPECT_EQ(said("rank0.y", Tensor(Dtype::bf16, {80})), rows);
  EXPECT_EQ(said("rank0.y", Tensor(Dtype::f32, {40, 2})), "");
  EXPECT_EQ(said("rank0.y", Tensor(Dtype::f64, {40, 2})), rows);
  EXPECT_EQ(said("rank0.y", Tensor(Dtype::bf16, {1, 2})), rows);
  EXPECT_EQ(
      said("rank1.y", Tensor(Dtype::bf16, {40, 3})),
      "combine: rank1.y" + needs + "bf16, f16 or f32 [rows, D] with the rows that it received");
}

TEST(SlotsBound, TakesAsManyRowsAsWereReceived) {
  NamedTensors in = slots("y", true);
  Index received = 0;
  for (Index p = 0; p < kRanks; ++p) {
    const Tensor& experts = in.at(of(p, "experts"));
    for (Index i = 0; i < experts.elements(); ++i) received += experts.as<std::int32_t>()[i] < 3;
  }
  EXPECT_EQ(said("rank0.y", Tensor(Dtype::bf16, {received, 2})), "");
  EXPECT_NE(said("rank0.y", Tensor(Dtype::bf16, {received - 1, 2})), "");
  Index padded = 0;  // experts 0 to 2 in tiles of 4
  for (std::int32_t e = 0; e < 3; ++e) {
    Index rows = 0;
    for (Index p = 0; p < kRanks; ++p) {
      const auto* chosen = in.at(of(p, "experts")).as<std::int32_t>();
      rows += std::count(chosen, chosen + kTokens * kSlots, e);
    }
    padded += round_up(std::max<Index>(rows, 1), 4);
  }
  EXPECT_EQ(said("rank0.y", Tensor(Dtype::bf16, {padded, 2}), padded_to(4)), "");
  EXPECT_NE(said("rank0.y", Tensor(Dtype::bf16, {padded - 1, 2}), padded_to(4)), "");
}

}  // namespace
}  // namespace mxo

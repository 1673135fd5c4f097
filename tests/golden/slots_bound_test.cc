// Sums of slots written out, and how far sums may stray, against the formulas of docs/gates.md with
// their numbers written out.
#include <gtest/gtest.h>

#include "formats/philox.h"
#include "golden/judge/rounding_cell.h"
#include "golden/judge/slots_bound.h"
#include "golden/judge/sum_error.h"
#include "tests/golden/tensors.h"
#include "tests/support/refusal.h"

namespace mxo::slots_bound_test {
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
    for (Index i = 0; i < y.elements(); ++i)
      y.as<BF16>()[i] =
          encode<kBF16>(static_cast<float>((i % 2 == 0 ? 1 : -1) * (1 + p * 128 + i)));
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
  for (const std::int32_t e : {-2, 6})
    EXPECT_EQ(said("rank0.experts", chosen(e)), rank0("experts") + "experts from -1 to E - 1");
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

using Real = long double;

/// Rounded upward a few times on the way, and no more.
void expect_just_above(double found, Real formula, const std::string& what) {
  EXPECT_GE(found, static_cast<double>(formula * (1 - 1e-15L))) << what;
  EXPECT_LE(found, static_cast<double>(formula * (1 + 1e-12L))) << what;
}

constexpr Real kUnit = 0x1p-24L;

Real gamma(Real k, Real u) { return k * u / (1 - k * u); }

TEST(SumError, OfAnyOrderIsGammaAndRoomForUnderflow) {
  for (const Index k : {1, 7, 128, 7168}) {
    const auto n = static_cast<Real>(k);
    const SumError error = SumError::any_order(k);
    for (const double magnitude : {0.0, 0x1p-140, 1.0, 3e30}) {
      const Real formula = gamma(n, kUnit) * static_cast<Real>(magnitude) + n * 0x1p-149L;
      expect_just_above(error(magnitude, 1), formula, std::to_string(k));
      EXPECT_EQ(error(magnitude, 1), SumError::of(kFmaChain, k)(magnitude, 1));
    }
  }
  EXPECT_EQ(SumError::of(kExact, 4096)(1e30, 1), 0);
  EXPECT_TRUE(std::isinf(gamma_of(Index{1} << 24, 0x1p-24)));
  EXPECT_TRUE(std::isinf(gamma_of((Index{1} << 24) + 1, 0x1p-24)));
  EXPECT_TRUE(std::isfinite(gamma_of((Index{1} << 24) - 1, 0x1p-24)));
  EXPECT_EQ(gamma_of(0, 0x1p-24), std::nextafter(0.0, 1.0));
}

/// A unit of docs/gates.md: so many fused sums of `chunk` products, so many joins in f32.
struct Counted {
  Accumulation sum;
  Index k;
  int chunks;
  int joins;
  int lost;   ///< truncations of a fused sum: its products, its accumulator, CDNA3's four more
  int least;  ///< exponent of the smallest normal result
  int floor;  ///< the largest exponent is not taken below it
};

Accumulation machine(SumFamily family, int instruction, int chunk, int bits) {
  Accumulation sum;
  sum.family = family;
  sum.instruction = instruction;
  sum.chunk = chunk;
  sum.bits = bits;
  sum.exponent_floor = -133;
  return sum;
}

TEST(SumError, OfAMachineIsTheRecurrenceOfItsChunks) {
  const Accumulation plain = machine(SumFamily::fused_dot, 32, 16, 13);
  Accumulation promoted = plain;
  promoted.promote = 4;
  Accumulation split = plain;
  split.split = 3;
  Accumulation restarts = plain;
  restarts.block = 128;
  Accumulation each = plain;
  each.promote = 1;
  Accumulation single = plain;
  single.block = 1;
  Accumulation halves = machine(SumFamily::fused_dot, 16, 16, 24);
  halves.mantissa = 10;
  Accumulation high = machine(SumFamily::fused_dot, 64, 32, 25);
  high.exponent_floor = -4;
  const Accumulation amd = machine(SumFamily::cdna3_dot, 32, 8, 24);
  const Counted rows[] = {
      // ceil(160 / 32) instructions and one for the chain that is rounded up, of two chunks each.
      {plain, 160, 2 * (5 + 1), 1, 17, -126, -126},
      {plain, 161, 2 * (6 + 1), 1, 17, -126, -126},
      {promoted, 160, 2 * (5 + 1), 1 + 2 + 1, 17, -126, -126},
      {each, 160, 2 * (5 + 1), 1 + 6 + 1, 17, -126, -126},
      {split, 160, 2 * (5 + 3), 3, 17, -126, -126},
      // Two blocks and the chain, each of which may be rounded up.
      {restarts, 160, 2 * (5 + 3), 1 + 3, 17, -126, -126},
      {single, 4, 2 * (1 + 5), 1 + 5, 17, -126, -126},
      {halves, 64, 4 + 1, 1, 17, -14, -126},
      {high, 64, 2 * (1 + 1), 1, 33, -126, -4},
      {amd, 64, 4 * (2 + 1), 1, 8 + 5, -126, -126},
  };
  for (const Counted& row : rows) {
    for (const auto& [magnitude, binade] :
         {std::pair{1.0, 0.25}, {1000.0, 4096.0}, {0x1p-120, 0x1p-122}, {3e-3, 1e-3}}) {
      Real e = 0;
      const Real floor = std::ldexp(1.0L, row.sum.mantissa == 10 ? std::max(-14, -133) : row.floor);
      for (int chunk = 0; chunk < row.chunks; ++chunk) {
        const Real top = std::max({static_cast<Real>(binade), magnitude + e, floor});
        const Real s = row.lost * top * std::ldexp(1.0L, -row.sum.bits);
        const int m = row.sum.mantissa;
        e += s + std::ldexp(magnitude + e + s, -m) + std::ldexp(1.0L, row.least - m);
      }
      for (int join = 0; join < row.joins; ++join) e += kUnit * (magnitude + e) + 0x1p-150L;
      expect_just_above(SumError::of(row.sum, row.k)(magnitude, binade), e,
                        std::to_string(&row - rows));
    }
  }
  EXPECT_EQ(SumError::of(plain, 160)(0, 0), 0);
  EXPECT_TRUE(std::isinf(SumError::of(halves, 64)(65504.0, 1)));
  EXPECT_TRUE(std::isfinite(SumError::of(halves, 64)(60000.0, 1)));
  EXPECT_TRUE(std::isinf(SumError::of(plain, 64)(3.5e38, 1)));
}

TEST(SumError, OfTheLargestNumberIsFinite) {
  Accumulation halves = machine(SumFamily::fused_dot, 16, 16, 24);
  halves.mantissa = 10;
  const double magnitude = 0x1.fd4183988b63bp+15;  // with its error the largest f16
  const double error = SumError::of(halves, 64)(magnitude, 1);
  EXPECT_EQ(up(magnitude + error), 65504.0);
  EXPECT_TRUE(std::isinf(SumError::of(halves, 64)(up(magnitude), 1)));
}

}  // namespace
}  // namespace mxo::slots_bound_test

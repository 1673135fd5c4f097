// Dot products of the reference, and the exact sum under them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "emu/exact/exact_sum.h"
#include "emu/reference/dot.h"
#include "formats/tensor.h"
#include "ops/scaled_tensor.h"
#include "tests/support/big_dot.h"

namespace mxo {
namespace {

constexpr float kUlp = 0x1p-23f;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Two lines of f32 with an f32 scale for every `block` elements, and their product.
struct Lines {
  std::vector<float> a, b, a_scales, b_scales;
  Index block = 2;
  Accumulation sum = kFmaChain;

  ContractionView view(Result out) {
    ContractionView v;
    v.sum = sum;
    v.a = factor(a, a_scales);
    v.b = factor(b, b_scales);
    v.depth = static_cast<Index>(a.size());
    v.out = out;
    return v;
  }
  float f32() {
    Tensor out(Dtype::f32, {1, 1});
    *out.as<float>() = 77.0f;
    write_dot(view(out.result()), 0, 0);
    return *out.as<float>();
  }
  float bf16() {
    Tensor out(Dtype::bf16, {1, 1});
    write_dot(view(out.result()), 0, 0);
    return decode(*out.as<BF16>());
  }

 private:
  Factor factor(const std::vector<float>& codes, const std::vector<float>& scales) const {
    Factor f;
    f.codes = view_of(static_cast<const void*>(codes.data()), Dtype::f32,
                      {1, static_cast<Index>(codes.size())});
    f.step = 1;
    f.rows = 1;
    if (scales.empty()) return f;
    f.scales = view_of(static_cast<const void*>(scales.data()), Dtype::f32,
                       {1, static_cast<Index>(scales.size())});
    f.scales_step = 1;
    f.block = block;
    return f;
  }
};

TEST(Dot, OfExactIsRoundedOnce) {
  Lines lines{{1, 0x1p-24f, 0x1p-24f}, {1, 1, 1}, {}, {}};
  lines.sum = kExact;
  EXPECT_EQ(lines.f32(), 1 + kUlp);
  EXPECT_EQ(lines.bf16(), 1.0f);
  lines.a[1] = 0x1p-8f;
  EXPECT_EQ(lines.bf16(), 1 + 0x1p-7f) << "just above the half";
  lines = {{3, 5, 7}, {2, 4, 8}, {0.5f, 16}, {2, 0.25f}, 2, kExact};
  EXPECT_EQ(lines.f32(), 3 * 2 + 5 * 4 + 7 * 8 * 4.0f) << "each with its own scales";
  lines.a[2] = kNan;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(lines.f32()), 0x7FC00000u);
  lines = {{2}, {3}, {0x1p100f}, {0x1p-100f}, 1, kExact};
  EXPECT_EQ(lines.f32(), 6.0f) << "no product of scales is rounded";
}

TEST(Dot, OfNothingIsZero) {
  for (const Accumulation& sum : {kExact, kFmaChain}) {
    Lines lines{{}, {}, {}, {}, 2, sum};
    EXPECT_EQ(std::bit_cast<std::uint32_t>(lines.f32()), 0u);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(lines.bf16()), 0u);
    lines.a_scales = lines.b_scales = {kNan};
    lines.sum.fold = Fold::after;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(lines.f32()), 0u) << "whatever scales there are";
  }
}

TEST(Dot, OfAChainIsRoundedAtEveryStep) {
  Lines lines{{1, 0x1p-24f, 0x1p-24f}, {1, 1, 1}, {}, {}};
  lines.sum.fold = Fold::term;
  EXPECT_EQ(lines.f32(), 1.0f);
  lines.a = {0x1p-24f, 0x1p-24f, 1};
  EXPECT_EQ(lines.f32(), 1 + kUlp) << "in order";
  lines.a = {1 + kUlp, -1, 0};
  lines.b = {1 - kUlp, 1, 0};
  EXPECT_EQ(lines.f32(), std::fma(-1.0f, 1.0f, std::fma(1 + kUlp, 1 - kUlp, 0.0f)));
  lines.b = {1, 1 - kUlp, 0};
  EXPECT_EQ(lines.f32(), std::fma(-1.0f, 1 - kUlp, 1 + kUlp)) << "products are not rounded";
  lines.a[2] = -kNan;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(lines.f32()), 0x7FC00000u);
}

TEST(Dot, ScalesOfTermsAreRoundedIntoThem) {
  const float odd = 1 + kUlp;
  Lines lines{{odd, 3}, {odd, 5}, {odd, 1}, {odd, 1}, 1};
  lines.sum.fold = Fold::term;
  const float term = odd * odd;
  EXPECT_EQ(lines.f32(), std::fma(3.0f, 5.0f, term * term));
  EXPECT_NE(term, odd);
}

TEST(Dot, ScalesOfBlocksJoinTheirSums) {
  const float odd = 1 + kUlp;
  Lines lines{{3, 5, 7, 1, 9}, {1, 3, 1, 2, 5}, {odd, 3, odd}, {odd, odd, 7}, 2};
  lines.sum.block = 2;
  const float p[] = {3 + 15, 7 + 2, 45};
  const auto joined = [&](Fold fold) {
    lines.sum.fold = fold;
    return lines.f32();
  };
  float x_then_w = 0, joint = 0, joint_add = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const float sx = lines.a_scales[i];
    const float sw = lines.b_scales[i];
    x_then_w = std::fma(p[i] * sx, sw, x_then_w);
    joint = std::fma(p[i], sx * sw, joint);
    joint_add = joint_add + p[i] * (sx * sw);
  }
  EXPECT_EQ(joined(Fold::x_then_w), x_then_w);
  EXPECT_EQ(joined(Fold::joint), joint);
  EXPECT_EQ(joined(Fold::joint_add), joint_add);
  lines.a.pop_back();
  lines.b.pop_back();
  lines.a_scales[2] = kNan;
  EXPECT_EQ(joined(Fold::x_then_w), std::fma(p[1] * 3, odd, p[0] * odd * odd))
      << "there is no third block";
}

TEST(Dot, ScalesAfterTheSumMultiplyInTurn) {
  const float odd = 1 + kUlp;
  Lines lines{{3, 5}, {odd, 7}, {odd}, {3}, 2};
  lines.sum.fold = Fold::after;
  const float chain = std::fma(5.0f, 7.0f, 3 * odd);
  EXPECT_EQ(lines.f32(), chain * odd * 3);
  lines.a_scales[0] = kNan;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(lines.f32()), 0x7FC00000u);
}

TEST(Dot, IsWrittenInItsPlaceAlone) {
  const std::vector<float> a = {1, 2, 3, 4}, b = {10, 20, 30, 40, 50, 60};
  for (const Dtype type : {Dtype::f32, Dtype::bf16}) {
    Tensor out(type, {2, 3});
    ContractionView v;
    v.sum = kExact;
    v.a.codes = view_of(static_cast<const void*>(a.data()), Dtype::f32, {2, 2});
    v.b.codes = view_of(static_cast<const void*>(b.data()), Dtype::f32, {3, 2});
    v.a.step = v.b.step = 1;
    v.a.row_step = v.b.row_step = 2;
    v.depth = 2;
    v.out = out.result();
    v.out_row_step = 3;
    v.out_column_step = 1;
    write_dot(v, 1, 2);
    for (Index i = 0; i < 6; ++i) {
      const float value = type == Dtype::f32 ? out.as<float>()[i] : decode(out.as<BF16>()[i]);
      EXPECT_EQ(value, i == 5 ? 3.0f * 50 + 4 * 60 : 0.0f) << i;
    }
  }
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint32_t f32(const ExactSum& sum) { return std::bit_cast<std::uint32_t>(sum.round_to_f32()); }

ExactSum sum_of(std::initializer_list<std::pair<float, float>> products) {
  ExactSum sum;
  for (const auto& [a, b] : products) sum.add_product(exact_number(a), exact_number(b));
  return sum;
}

TEST(ExactSum, OfNothingAndOfCancelledTermsIsPlusZero) {
  EXPECT_EQ(f32(ExactSum{}), 0u);
  EXPECT_EQ(f32(sum_of({{-0.0f, 1.0f}})), 0u);
  EXPECT_EQ(f32(sum_of({{3.0f, -5.0f}, {5.0f, 3.0f}})), 0u);
  EXPECT_EQ(sum_of({{3.0f, -5.0f}, {5.0f, 3.0f}}).round_to_bf16().bits, 0u);
}

TEST(ExactSum, FollowsIeeeForInfinityAndNan) {
  EXPECT_EQ(f32(sum_of({{kInfinity, -2.0f}, {1.0f, 1.0f}})), 0xFF800000u);
  EXPECT_EQ(f32(sum_of({{kInfinity, 0.0f}})), 0x7FC00000u);
  EXPECT_EQ(f32(sum_of({{-0.0f, -kInfinity}})), 0x7FC00000u);
  EXPECT_EQ(f32(sum_of({{kInfinity, 1.0f}, {kInfinity, -1.0f}})), 0x7FC00000u);
  EXPECT_EQ(f32(sum_of({{kInfinity, 1.0f}, {kInfinity, 1.0f}})), 0x7F800000u);
  EXPECT_EQ(f32(sum_of({{kInfinity, 1.0f}, {kNan, 0.0f}})), 0x7FC00000u);
  EXPECT_EQ(sum_of({{-kNan, 1.0f}}).round_to_bf16().bits, 0x7FC0u);
  EXPECT_EQ(sum_of({{-kInfinity, 1.0f}}).round_to_bf16().bits, 0xFF80u);
}

TEST(ExactSum, KeepsSubnormalsAndTheSignOfWhatRoundsToZero) {
  EXPECT_EQ(f32(sum_of({{0x1p-149f, 1.0f}})), 1u);
  EXPECT_EQ(f32(sum_of({{0x1p-149f, 0.5f}})), 0u);  // a tie, to the even zero
  EXPECT_EQ(f32(sum_of({{0x3p-149f, 0.5f}})), 2u);  // a tie, to the even 2
  EXPECT_EQ(f32(sum_of({{0x3p-149f, 0.25f}})), 1u);
  EXPECT_EQ(f32(sum_of({{-0x1p-149f, 0.5f}})), 0x80000000u);
  EXPECT_EQ(f32(sum_of({{-0x1p-149f, 0x1p-149f}})), 0x80000000u);
  EXPECT_EQ(sum_of({{-0x1p-133f, 0.5f}}).round_to_bf16().bits, 0x8000u);
  EXPECT_EQ(sum_of({{-0x1p-133f, 0.75f}}).round_to_bf16().bits, 0x8001u);
  EXPECT_EQ(sum_of({{0x1p-133f, 1.5f}}).round_to_bf16().bits, 0x0002u);  // a tie, to even
}

TEST(ExactSum, OverflowsWhereRoundToNearestDoes) {
  const float big = 0x1.fffffep127f;
  EXPECT_EQ(f32(sum_of({{big, 1.0f}, {0x1p103f, 0.5f}})), 0x7F7FFFFFu);
  EXPECT_EQ(f32(sum_of({{big, 1.0f}, {0x1p103f, 1.0f}})), 0x7F800000u);  // the tie goes up
  EXPECT_EQ(f32(sum_of({{big, 1.0f}, {0x1p103f, 1.0f}, {-0x1p-149f, 0x1p-149f}})), 0x7F7FFFFFu);
  EXPECT_EQ(f32(sum_of({{big, big}, {-big, big}, {1.0f, 2.0f}})), 0x40000000u);
  EXPECT_EQ(sum_of({{-0x1.fep127f, 1.0f}, {-0x1p119f, 1.0f}}).round_to_bf16().bits, 0xFF80u);
}

TEST(ExactSum, HoldsTheFinestAndTheLargestTermTogether) {
  ExactSum sum;
  sum.add(1, -332);                     // e5m2fnuz quantum * least f32, squared
  sum.add(std::int64_t{1} << 62, 226);  // 2^288
  sum.add(-(std::int64_t{1} << 62), 226);
  EXPECT_EQ(f32(sum), 0u);
  for (int bit = -332; bit < -150; ++bit) sum.add(1, bit);
  EXPECT_EQ(f32(sum), 0u);  // a carry the whole way up to 2^-150: a tie
  sum.add(1, -332);
  EXPECT_EQ(f32(sum), 1u);
}

TEST(ExactSum, StaysExactWhenCarriesMove) {
  // Each term loads the lowest digit with 2^32 - 1; the total is n.
  constexpr std::int64_t terms = (std::int64_t{1} << 21) + 12345;
  ExactSum sum;
  for (std::int64_t i = 0; i < terms; ++i) sum.add(-std::int64_t{0xFFFFFFFF}, -352);
  sum.add(terms, -320);  // minus (2^32 - 1) * n, plus 2^32 * n, is n
  sum.add(-terms, -352);
  // Nothing is left: ties of the least float stay ties, which any rest would break.
  sum.add(1, -150);
  EXPECT_EQ(f32(sum), 0u);
  sum.add(2, -150);
  EXPECT_EQ(f32(sum), 2u);
}

TEST(ExactSum, RoundsRandomPairsAsMpfrDoes) {
  std::mt19937_64 random(7);
  test::BigSum big;
  for (int i = 0; i < 20000; ++i) {
    float x[4];
    for (float& value : x) {
      const auto field = static_cast<std::uint32_t>(64 + random() % 128);
      const auto rest = static_cast<std::uint32_t>(random()) & 0x807FFFFFu;
      value = std::bit_cast<float>(rest | field << 23);
    }
    const float near = std::nextafter(-x[0], static_cast<float>(random() % 2));
    big.clear();
    big.add(static_cast<double>(x[0]), 1.0, static_cast<double>(x[1]), 1.0);
    big.add(static_cast<double>(near), 1.0, static_cast<double>(x[1]), 1.0);
    big.add(static_cast<double>(x[2]), 1.0, static_cast<double>(x[3]), 0x1p-60);
    ExactSum sum = sum_of({{x[0], x[1]}, {near, x[1]}});
    sum.add_product(product(exact_number(x[2]), exact_number(x[3])), exact_number(0x1p-60f));
    ASSERT_EQ(f32(sum), big.rounded(Dtype::f32)) << i;
    ASSERT_EQ(sum.round_to_bf16().bits, big.rounded(Dtype::bf16)) << i;
  }
}

constexpr float summed_at_compile_time() {
  ExactSum sum;
  sum.add_product(exact_number(3.0f), exact_number(-0.5f));
  sum.add_product(exact_number(2.0f), exact_number(0x1p-30f));
  return sum.round_to_f32();
}
static_assert(summed_at_compile_time() == -1.5f);

}  // namespace
}  // namespace mxo

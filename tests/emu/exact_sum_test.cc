// The exact sum under every product: what it rounds to, and that nothing is lost on the way.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "emu/exact/exact_sum.h"
#include "tests/support/big_dot.h"

namespace mxo::exact_sum_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
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
}  // namespace mxo::exact_sum_test

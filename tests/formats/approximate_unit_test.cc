// The interpolating unit of sm_90 by its parts, at the ends of its ranges, and by what was
// captured.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "formats/approximate.h"

namespace mxo {
namespace {

float of(std::uint32_t word) { return bit_cast<float>(word); }
std::uint32_t bits(float x) { return bit_cast<std::uint32_t>(x); }

TEST(ApproximateUnit, SquareIsFoldedAndCutTermByTerm) {
  using interpolator::folded_square;
  for (const std::uint32_t x : {0u, 1u, 2u, 3u, 77u, 0x1FFFFu}) {
    EXPECT_EQ(folded_square(x, 0), std::int64_t{x} * x);
  }
  EXPECT_EQ(folded_square(3, 1), 4);   // 5 / 2 + 4 / 2
  EXPECT_EQ(folded_square(3, 3), 0);   // 5 / 8 + 4 / 8
  EXPECT_EQ(folded_square(7, 2), 12);  // 13 / 4 + 20 / 4 + 16 / 4
  EXPECT_EQ(folded_square(5, 3), 3);   // 9 / 8 + 16 / 8
}

TEST(ApproximateUnit, RowsAreQuadraticsCutToWholeNumbers) {
  using interpolator::interpolate;
  constexpr int kOne = 1 << interpolator::kScale;
  EXPECT_EQ(interpolate({5 * std::int64_t{kOne}, -kOne, kOne}, 3, 0), 11u);
  EXPECT_EQ(interpolate({3 * std::int64_t{kOne} - 1, 0, 0}, 9, 0), 2u);
}

TEST(ApproximateUnit, WordsAreAssembledWithinTheRange) {
  using interpolator::assemble;
  constexpr std::uint32_t kOne = interpolator::kOne;
  EXPECT_EQ(of(assemble(kOne, 0)), 1.0f);
  EXPECT_EQ(of(assemble(kOne + kOne / 2, 3)), 12.0f);
  EXPECT_EQ(of(assemble(2 * kOne, 0)), 2.0f);
  EXPECT_EQ(of(assemble(kOne, -126)), 0x1p-126f);
  EXPECT_EQ(of(assemble(2 * kOne, -127)), 0x1p-126f);
  EXPECT_EQ(bits(of(assemble(2 * kOne - 1, -127))), 0u);
  EXPECT_EQ(assemble(kOne, -1000), 0u);
  EXPECT_EQ(of(assemble(2 * kOne - 1, 127)), FLT_MAX);
  EXPECT_EQ(of(assemble(2 * kOne, 127)), INFINITY);
  EXPECT_EQ(of(assemble(kOne, 1000)), INFINITY);
}

/// FNV-1a of the bits of function(x) for every 997th float from `first` below `past`.
template <typename Function>
std::uint32_t digest(Function function, std::uint32_t first, std::uint32_t past) {
  std::uint32_t hash = 2166136261u;
  for (std::uint32_t word = first; word < past; word += 997) {
    hash = (hash ^ bits(function(of(word)))) * 16777619u;
  }
  return hash;
}

// Of the intervals that approximate_exhaustive_test holds against an H200 and an H100.
TEST(ApproximateUnit, SamplesAreTheH200s) {
  EXPECT_EQ(digest(rcp_approx_ftz, 0x3F800000, 0x40000000), 2763416683u);
  EXPECT_EQ(digest(rsqrt_approx_ftz, 0x3F800000, 0x40800000), 2499824994u);
  EXPECT_EQ(digest(sqrt_approx_ftz, 0x3F800000, 0x40800000), 1833978547u);
  EXPECT_EQ(digest(ex2_approx_ftz, 0x3F000000, 0x3F800000), 2051258839u);
}

TEST(ApproximateUnit, ReciprocalsEndWhereTheRangeDoes) {
  EXPECT_EQ(rcp_approx_ftz(-2.0f), -0.5f);
  EXPECT_EQ(rcp_approx_ftz(0x1p-126f), 0x1p126f);
  EXPECT_EQ(bits(rcp_approx_ftz(-0x1.fffffcp-127f)), 0xFF800000u);
  EXPECT_EQ(bits(rcp_approx_ftz(INFINITY)), 0u);
  EXPECT_EQ(bits(rcp_approx_ftz(-INFINITY)), 0x80000000u);
  EXPECT_EQ(bits(rcp_approx_ftz(of(0xFF800001))), 0x7FFFFFFFu);
  EXPECT_EQ(rcp_approx(0x1p-126f), 0x1p126f);
  EXPECT_EQ(rcp_approx(0x1p-148f), INFINITY);
  EXPECT_EQ(rcp_approx(-0x1.8p-127f), -0x1.555556p126f);
  EXPECT_EQ(rcp_approx(0x1p126f), 0x1p-126f);
  EXPECT_EQ(rcp_approx(FLT_MAX), 0x1p-128f);
  EXPECT_EQ(bits(rcp_approx(0.0f)), 0x7F800000u);
  EXPECT_EQ(bits(rcp_approx(INFINITY)), 0u);
}

TEST(ApproximateUnit, RootsAtTheEndsAreNanZeroInfinity) {
  for (const float zero : {0.0f, 0x1p-127f}) {
    EXPECT_EQ(bits(rsqrt_approx_ftz(zero)), 0x7F800000u);
    EXPECT_EQ(bits(rsqrt_approx_ftz(-zero)), 0xFF800000u);
    EXPECT_EQ(bits(sqrt_approx_ftz(zero)), 0u);
    EXPECT_EQ(bits(sqrt_approx_ftz(-zero)), 0x80000000u);
  }
  for (float (*root)(float) : {rsqrt_approx_ftz, sqrt_approx_ftz, rsqrt_approx, sqrt_approx}) {
    for (const float none : {-1.0f, -INFINITY, of(0x7F800001), of(0xFFC00000), -0x1p-126f}) {
      EXPECT_EQ(bits(root(none)), 0x7FFFFFFFu) << none;
    }
  }
  EXPECT_EQ(bits(rsqrt_approx_ftz(INFINITY)), 0u);
  EXPECT_EQ(sqrt_approx_ftz(INFINITY), INFINITY);
  EXPECT_EQ(rsqrt_approx_ftz(0x1p-126f), 0x1p63f);
  EXPECT_EQ(sqrt_approx_ftz(0x1p-126f), 0x1p-63f);
}

TEST(ApproximateUnit, RootsOfPowersOfFourAreExact) {
  for (const int e : {-126, -40, -2, 0, 2, 60, 126}) {
    EXPECT_EQ(rsqrt_approx_ftz(std::ldexp(1.0f, e)), std::ldexp(1.0f, -e / 2)) << e;
    EXPECT_EQ(rsqrt_approx(std::ldexp(1.0f, e)), std::ldexp(1.0f, -e / 2)) << e;
    EXPECT_EQ(sqrt_approx(std::ldexp(1.0f, e)), std::ldexp(1.0f, e / 2)) << e;
  }
  // Of subnormals, too, which are scaled by 2^24 first.
  EXPECT_EQ(rsqrt_approx(0x1p-130f), 0x1p65f);
  EXPECT_EQ(sqrt_approx(0x1p-130f), 0x1p-65f);
}

TEST(ApproximateUnit, PowersBelowZeroTakeOnesComplements) {
  // x = -(n + 2^-23 k), k > 0: the fraction is that of -2^-23 k, seen on a GPU for k = 1.
  EXPECT_EQ(bits(ex2_approx_ftz(-1.0f - 0x1p-23f)), 0x3EFFFFFEu);
  EXPECT_EQ(bits(ex2_approx_ftz(-0x1p-23f)), 0x3F7FFFFEu);
  for (int n = -126; n <= 127; ++n) {
    EXPECT_EQ(ex2_approx_ftz(static_cast<float>(n)), std::ldexp(1.0f, n));
  }
  EXPECT_EQ(ex2_approx_ftz(-127.0f), 0.0f);
  EXPECT_EQ(ex2_approx_ftz(128.0f), INFINITY);
  EXPECT_EQ(ex2_approx_ftz(1e30f), INFINITY);
  EXPECT_EQ(ex2_approx_ftz(-1e30f), 0.0f);
  EXPECT_EQ(ex2_approx_ftz(-0x1p-140f), 1.0f);
  EXPECT_EQ(bits(ex2_approx_ftz(of(0xFF800001))), 0x7FFFFFFFu);
}

TEST(ApproximateUnit, PowersBelowTheNormalRangeAreSquares) {
  EXPECT_EQ(ex2_approx(-126.0f), 0x1p-126f);
  EXPECT_EQ(ex2_approx(-128.0f), 0x1p-128f);
  EXPECT_EQ(ex2_approx(-148.0f), 0x1p-148f);
  EXPECT_EQ(ex2_approx(3.0f), 8.0f);
  EXPECT_EQ(bits(ex2_approx(NAN)), 0x7FFFFFFFu);
  const float x = 0.7f;  // by its square it would differ
  EXPECT_EQ(ex2_approx(x), ex2_approx_ftz(x));
  EXPECT_NE(ex2_approx(x), ex2_approx_ftz(x / 2) * ex2_approx_ftz(x / 2));
}

TEST(ApproximateUnit, QuotientsAreScaledAtBothEnds) {
  EXPECT_EQ(div_full(3 * 0x1p-140f, 0x1p-140f), 3.0f);
  EXPECT_EQ(div_full(1.0f, 0x1p-126f), 0x1p126f);
  EXPECT_EQ(div_full(1.0f, 0.0f), INFINITY);
  EXPECT_EQ(div_full(6.0f, 2.0f), 3.0f);
  EXPECT_EQ(div_full(0x1.8p127f, 0x1p127f), 1.5f);
  EXPECT_NEAR(div_full(FLT_MAX, FLT_MAX), 1.0f, 0x1p-22f);
  EXPECT_EQ(div_full(2.0f, INFINITY), 0.0f);
  EXPECT_TRUE(std::isnan(div_full(INFINITY, INFINITY)));
}

TEST(ApproximateUnit, FlushedQuotientsLoseWhatIsSubnormal) {
  using interpolator::flushed;
  EXPECT_EQ(flushed(0x1p-126f), 0x1p-126f);
  EXPECT_EQ(bits(flushed(-0x1.fffffcp-127f)), 0x80000000u);
  EXPECT_EQ(flushed(-3.0f), -3.0f);
  EXPECT_EQ(div_full_ftz(6.0f, 2.0f), 3.0f);
  EXPECT_EQ(div_full_ftz(0x1p-126f, 1.0f), 0x1p-126f);
  EXPECT_EQ(div_full_ftz(0x1p-126f, 2.0f), 0.0f);
  EXPECT_EQ(div_full_ftz(1.0f, 0x1p-126f), 0x1p126f);
  EXPECT_EQ(div_full_ftz(0x1.8p127f, 0x1p127f), 1.5f);
  EXPECT_NEAR(div_full_ftz(FLT_MAX, FLT_MAX), 1.0f, 0x1p-22f);
  EXPECT_EQ(div_full_ftz(1.0f, -0x1p-127f), -INFINITY);
  EXPECT_EQ(div_full_ftz(0x1p-127f, 1.0f), 0.0f);
  EXPECT_TRUE(std::isnan(div_full_ftz(0x1p-127f, 0x1p-127f)));
}

TEST(ApproximateUnit, FlushedQuotientsAreTinyByTheirBits) {
  // Seen on an H100.
  const auto quotient = [](std::uint32_t a, std::uint32_t b) {
    return bits(div_full_ftz(of(a), of(b)));
  };
  EXPECT_EQ(quotient(0x83E52CC9, 0x42E52CC9), 0x80000000u);
  EXPECT_EQ(quotient(0xA01AC345, 0x5F1AC345), 0x80000000u);
  EXPECT_EQ(quotient(0xA0FABBBA, 0xDFFABBBA), 0x00800000u);
  EXPECT_EQ(quotient(0x488767FC, 0x7F7BD13E), 0x0889A7C0u);
  EXPECT_EQ(quotient(0x5D1C2E33, 0x7F218843), 0x1D7784B2u);
}

}  // namespace
}  // namespace mxo

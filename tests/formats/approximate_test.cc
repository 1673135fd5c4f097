// Functions of the chip's interpolating unit by its parts, at the ends of their ranges, and by what
// was captured.
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "formats/approximate_lg2_tanh.h"

namespace mxo {
namespace {

float of(std::uint32_t word) { return bit_cast<float>(word); }
std::uint32_t bits(float x) { return bit_cast<std::uint32_t>(x); }

TEST(ApproximateUnit, SquareIsFoldedAndCutTermByTerm) {
  using interpolator::folded_square;
  for (const std::uint32_t x : {0u, 1u, 2u, 3u, 77u, 0x1FFFFu})
    EXPECT_EQ(folded_square(x, 0), std::int64_t{x} * x);
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
  for (std::uint32_t word = first; word < past; word += 997)
    hash = (hash ^ bits(function(of(word)))) * 16777619u;
  return hash;
}

// Of the intervals that approximate_exhaustive_test holds against an H200 and an H100.
TEST(ApproximateUnit, SamplesAreTheH200s) {
  EXPECT_EQ(digest(rcp_approx_ftz, 0x3F800000, 0x40000000), 2763416683u);
  EXPECT_EQ(digest(rsqrt_approx_ftz, 0x3F800000, 0x40800000), 2499824994u);
  EXPECT_EQ(digest(sqrt_approx_ftz, 0x3F800000, 0x40800000), 1833978547u);
  EXPECT_EQ(digest(ex2_approx_ftz, 0x3F000000, 0x3F800000), 2051258839u);
}

/// A number, or # and its bits.
float number(const std::string& text) {
  if (text[0] == '#')
    return of(static_cast<std::uint32_t>(std::stoul(text.substr(1), nullptr, 16)));
  return std::strtof(text.c_str(), nullptr);
}

struct Curve {
  const char* name;
  float (*of)(float);
  const char* points;  ///< x:f(x); NaN is 7FFFFFFF
};

const Curve kCurves[] = {
    {"rcp.ftz", rcp_approx_ftz,
     "-2:-0.5 0x1p-126:0x1p126 0x1p-127:inf -0x1.fffffcp-127:-inf 0x1p127:0 inf:0 -inf:-0 "
     "#FF800001:nan"},
    {"rcp", rcp_approx,
     "0x1p-126:0x1p126 0x1p-127:0x1p127 -0x1.8p-127:-0x1.555556p126 0x1p-148:inf "
     "0x1p126:0x1p-126 0x1p127:0x1p-127 0x1.fffffep127:0x1p-128 0:inf -0:-inf inf:0 -inf:-0 "
     "nan:nan"},
    {"rsqrt.ftz", rsqrt_approx_ftz,
     "0:inf -0:-inf 0x1p-127:inf -0x1p-127:-inf inf:0 0x1p-126:0x1p63"},
    {"rsqrt", rsqrt_approx, "-0:-inf inf:0 0x1p-130:0x1p65 0x1p-148:0x1p74"},
    {"sqrt.ftz", sqrt_approx_ftz,
     "0:0 -0:-0 0x1p-127:0 -0x1p-127:-0 0x1p-149:0 inf:inf 0x1p-126:0x1p-63"},
    {"sqrt", sqrt_approx, "-0:-0 0x1p-130:0x1p-65 0x1p-148:0x1p-74"},
    // Integers are exact, what is nearer to zero than 2^-23 is 1, and below zero the rest takes
    // ones' complements: of x = -(n + 2^-23 k) that of -2^-23 k, seen on a GPU for k = 1.
    {"ex2.ftz", ex2_approx_ftz,
     "-0x1.000002p0:#3EFFFFFE -0x1p-23:#3F7FFFFE -0x1p-140:1 -127:0 128:inf 1e30:inf -1e30:0 "
     "#FF800001:nan"},
    // Of -127 a square, not 2^-127.
    {"ex2", ex2_approx,
     "-1:0.5 -126:0x1p-126 -127:#003FFFFF -128:0x1p-128 -148:0x1p-148 -0x1p-24:1 "
     "-0x1p-23:#3F7FFFFE 3:8 128:inf -inf:0 nan:nan"},
    // Beside 1 right ones would be 3438AA3B and B3B8AA3C; powers of two are not exact.
    {"lg2", lg2_approx,
     "1:0 0x1.000002p0:#3495F600 0x1.fffffep-1:#B24B4000 0.25:#BFFFFFFF 0.3:#BFDE54E2 "
     "0.5:#BF7FFFFE 2:1 3:#3FCAE00D 6:#40257006 0x1p-149:-149 -0x1p-149:nan"},
    {"lg2.ftz", lg2_approx_ftz, "0x1p-149:-inf -0x1p-149:-inf"},
    {"tanh", tanh_approx,
     "0x1p-149:0x1p-149 0x1p-7:#3BFFFF00 0.02:#3CA3D1CD 0.05:#3D4CA139 0.1:#3DCC1EE8 "
     "0.3:#3E9526AF 0.6:#3F097BC3 1:#3F42F848 3:#3F7EBBEE 5:#3F7FFA10 0x1.FFFFFEp+2:#3F7FFFFC "
     "-8:-1 inf:1 -0:-0 nan:nan"},
};

TEST(Approximate, PointsAreThoseOfTheChip) {
  for (const Curve& curve : kCurves) {
    std::istringstream points(curve.points);
    for (std::string point; points >> point;) {
      const std::size_t colon = point.find(':');
      const float y = number(point.substr(colon + 1));
      EXPECT_EQ(bits(curve.of(number(point.substr(0, colon)))),
                std::isnan(y) ? 0x7FFFFFFFu : bits(y))
          << curve.name << " " << point;
    }
  }
  for (float (*root)(float) : {rsqrt_approx_ftz, sqrt_approx_ftz, rsqrt_approx, sqrt_approx}) {
    for (const float none : {-1.0f, -INFINITY, of(0x7F800001), of(0xFFC00000), -0x1p-126f, NAN})
      EXPECT_EQ(bits(root(none)), 0x7FFFFFFFu) << none;
  }
  for (float (*log)(float) : {lg2_approx, lg2_approx_ftz}) {
    for (const float none : {NAN, -1.0f, -INFINITY}) EXPECT_EQ(bits(log(none)), 0x7FFFFFFFu);
    for (const float zero : {0.0f, -0.0f}) EXPECT_EQ(log(zero), -INFINITY);
    EXPECT_EQ(log(INFINITY), INFINITY);
  }
  for (int n = -126; n <= 127; ++n)
    EXPECT_EQ(ex2_approx_ftz(static_cast<float>(n)), std::ldexp(1.0f, n));
}

TEST(Approximate, ResultsScaleByPowersOfTwo) {
  for (std::uint32_t fraction = 0; fraction < 1u << 23; fraction += 10007) {
    const float x = bit_cast<float>(0x3F800000u + fraction);
    for (const int e : {-120, -7, 1, 100, 125})
      EXPECT_EQ(rcp_approx_ftz(std::ldexp(x, e)), std::ldexp(rcp_approx_ftz(x), -e)) << x;
    for (const int e : {-60, -7, 1, 62}) {
      EXPECT_EQ(rsqrt_approx_ftz(std::ldexp(x, 2 * e)), std::ldexp(rsqrt_approx_ftz(x), -e)) << x;
      EXPECT_EQ(sqrt_approx_ftz(std::ldexp(x, 2 * e)), std::ldexp(sqrt_approx_ftz(x), e)) << x;
    }
  }
}

TEST(Approximate, PowersAreSquaresBelowTheNormalRangeOnly) {
  const float x = 0.7f;
  EXPECT_EQ(ex2_approx(x), ex2_approx_ftz(x));
  EXPECT_NE(ex2_approx(x), ex2_approx_ftz(x / 2) * ex2_approx_ftz(x / 2));
}

TEST(Approximate, QuotientsAreScaledOrFlushedAtBothEnds) {
  struct Quotient {
    float a, b, y;
  };
  const auto expect = [](float (*divide)(float, float), std::initializer_list<Quotient> rows) {
    for (const auto& [a, b, y] : rows) {
      const float found = divide(a, b);
      EXPECT_TRUE(std::isnan(y) ? std::isnan(found) : bits(found) == bits(y)) << a << " / " << b;
    }
    EXPECT_NEAR(divide(FLT_MAX, FLT_MAX), 1.0f, 0x1p-22f);
  };
  expect(div_full, {{1.0f, 448.0f, rcp_approx(448.0f)},
                    {0x1p-140f, 0x1p-140f, 1.0f},
                    {3 * 0x1p-140f, 0x1p-140f, 3.0f},
                    {0x1p127f, 0x1p127f, 1.0f},
                    {0x1.8p127f, 0x1p127f, 1.5f},
                    {1.0f, 0x1p-126f, 0x1p126f},
                    {6.0f, 2.0f, 3.0f},
                    {1.0f, 0.0f, INFINITY},
                    {2.0f, INFINITY, 0.0f},
                    {0.0f, 0.0f, NAN},
                    {INFINITY, INFINITY, NAN}});
  expect(div_full_ftz, {{6.0f, 2.0f, 3.0f},
                        {0x1p-126f, 1.0f, 0x1p-126f},
                        {0x1p-126f, 2.0f, 0.0f},
                        {1.0f, 0x1p-126f, 0x1p126f},
                        {0x1.8p127f, 0x1p127f, 1.5f},
                        {1.0f, -0x1p-127f, -INFINITY},
                        {0x1p-127f, 1.0f, 0.0f},
                        {0x1p-127f, 0x1p-127f, NAN},
                        // Tiny by their bits, seen on an H100.
                        {of(0x83E52CC9), of(0x42E52CC9), -0.0f},
                        {of(0xA01AC345), of(0x5F1AC345), -0.0f},
                        {of(0xA0FABBBA), of(0xDFFABBBA), 0x1p-126f},
                        {of(0x488767FC), of(0x7F7BD13E), of(0x0889A7C0)},
                        {of(0x5D1C2E33), of(0x7F218843), of(0x1D7784B2)}});
  EXPECT_EQ(interpolator::flushed(0x1p-126f), 0x1p-126f);
  EXPECT_EQ(bits(interpolator::flushed(-0x1.fffffcp-127f)), 0x80000000u);
  EXPECT_EQ(interpolator::flushed(-3.0f), -3.0f);
  int nearest = 0;
  for (int i = 1; i <= 448; ++i) {
    const auto a = static_cast<float>(i);
    nearest += div_full(a, 448.0f) == a / 448.0f ? 1 : 0;
  }
  EXPECT_LT(nearest, 448);  // it is not the division of IEEE 754
}

TEST(Approximate, TanhIsOdd) {
  for (std::uint32_t word = 0; word <= 0x7F800000u; word += 99991) {
    const float x = bit_cast<float>(word);
    ASSERT_EQ(bits(tanh_approx(-x)), bits(tanh_approx(x)) | 0x80000000u) << x;
  }
}

TEST(Approximate, LowerBitsOfTanhsOperandDoNotCount) {
  EXPECT_EQ(tanh_approx(0x1.00007Ep-8f), tanh_approx(0x1p-8f));
  EXPECT_NE(tanh_approx(0x1.00008p-8f), tanh_approx(0x1p-8f));
  EXPECT_EQ(tanh_approx(0x1.00000Ep+0f), tanh_approx(1.0f));
  EXPECT_NE(tanh_approx(0x1.00001p+0f), tanh_approx(1.0f));
}

}  // namespace
}  // namespace mxo

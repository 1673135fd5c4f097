// rcp, rsqrt, sqrt, ex2 .approx and div.full of f32 as Hopper computes them (sm_90), every bit.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "formats/approximate_tables.h"
#include "formats/host_device.h"

// The unit interpolates by quadratics (Oberman and Siu, A High-Performance Area-Efficient
// Multifunction Interpolator, ARITH 2005): the upper bits of the significand choose a row {c0, c1,
// c2}, the lower n bits are x, and 24 bits of result are floor((c0 + c1 x + c2 S(x)) / 2^17).  S is
// the square of x summed from folded partial products, whose columns below the cut are not built.
// Rows, cut and S were found from captures of every f32 in an interval, and give each of them.
// Held against the instructions on a H100: all 2^32 operands of each function, 0 differ; div.full
// on 2^30 random pairs, 0 differ.  A NaN is 7FFFFFFF.  No state: call them from anywhere.
namespace mxo {

namespace interpolator {

constexpr int kScale = 17;                // bits below the last one of the result
constexpr std::uint32_t kOne = 1u << 23;  // a significand of 1.0
constexpr std::uint32_t kInfinity = 0x7F800000u;
constexpr std::uint32_t kNan = 0x7FFFFFFFu;
constexpr std::uint32_t kSign = 0x80000000u;

/// sum over bits i of x of (2^2i + 2^(i+1) * the bits above i), columns below `cut` left out, /
/// 2^cut.
MXO_HD inline std::int64_t folded_square(std::uint32_t x, int cut) {
  std::uint64_t sum = 0;
  for (int i = 0; (x >> i) != 0; ++i) {
    if ((x >> i & 1) == 0) continue;
    const std::uint64_t above = x >> (i + 1);
    sum += ((above << (2 * i + 2)) + (std::uint64_t{1} << (2 * i))) >> cut;
  }
  return static_cast<std::int64_t>(sum);
}

MXO_HD inline std::uint32_t interpolate(const Quadratic& row, std::uint32_t x, int cut) {
  const std::int64_t sum = row.c0 + row.c1 * std::int64_t{x} + row.c2 * folded_square(x, cut);
  return static_cast<std::uint32_t>(sum >> kScale);
}

/// significand * 2^(exponent - 23) for a significand in [2^23, 2^24]; below the normal range zero.
MXO_HD inline std::uint32_t assemble(std::uint32_t significand, int exponent) {
  const std::int64_t word =
      (static_cast<std::int64_t>(exponent + 127) << 23) + (significand - kOne);
  if (word < static_cast<std::int64_t>(kOne)) return 0;
  return word >= kInfinity ? kInfinity : static_cast<std::uint32_t>(word);
}

}  // namespace interpolator

// With .ftz: subnormal operands and results are zeros of their sign.

/// rcp.approx.ftz.f32: 1 / x for x = m 2^e as rcp(m) 2^-e; of 8,388,608 m in [1, 2) 7.3 million are
/// the nearest float, the others one beside it.  1 / 0 is infinity.
MXO_HD inline float rcp_approx_ftz(float x) {
  using namespace interpolator;
  const auto word = bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = word & kSign;
  const std::uint32_t magnitude = word & ~kSign;
  if (magnitude > kInfinity) return bit_cast<float>(kNan);
  if (magnitude == kInfinity) return bit_cast<float>(sign);
  if (magnitude < kOne) return bit_cast<float>(sign | kInfinity);
  static constexpr RcpTable kTable = rcp_table();
  const std::uint32_t fraction = magnitude & (kOne - 1);
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const std::uint32_t y = interpolate(kTable.of[fraction >> 16], fraction & 0xFFFFu, 17);
  return bit_cast<float>(sign | assemble(y, -exponent - 1));
}

namespace interpolator {

/// x = m 4^k with m in [1, 4), x normal and positive: the row of m (64 for each binade) and k.
struct QuarterStep {
  std::uint32_t row;
  std::uint32_t rest;
  int k;
};
MXO_HD inline QuarterStep quarter_step(std::uint32_t word) {
  const int exponent = static_cast<int>(word >> 23) - 127;
  const std::uint32_t fraction = word & (kOne - 1);
  const std::uint32_t odd = static_cast<std::uint32_t>(exponent & 1);
  return {(odd << 6) + (fraction >> 17), fraction & 0x1FFFFu,
          (exponent - static_cast<int>(odd)) / 2};
}

}  // namespace interpolator

/// rsqrt.approx.ftz.f32: x^(-1/2), for x = m 4^k as rsqrt(m) 2^-k; NaN below zero, infinity of the
/// zero's sign at zero.
MXO_HD inline float rsqrt_approx_ftz(float x) {
  using namespace interpolator;
  const auto word = bit_cast<std::uint32_t>(x);
  if ((word & ~kSign) < kOne) return bit_cast<float>((word & kSign) | kInfinity);
  if (word > kInfinity) return bit_cast<float>(kNan);
  if (word == kInfinity) return 0.0f;
  static constexpr RsqrtTable kTable = rsqrt_table();
  const QuarterStep at = quarter_step(word);
  // A power of four is exact; its row's quadratic stops one unit below.
  const std::uint32_t y =
      at.row == 0 && at.rest == 0 ? 2 * kOne : interpolate(kTable.of[at.row], at.rest, 19);
  return bit_cast<float>(assemble(y, -at.k - 1));
}

/// sqrt.approx.ftz.f32: x^(1/2), for x = m 4^k as sqrt(m) 2^k; NaN below zero.
MXO_HD inline float sqrt_approx_ftz(float x) {
  using namespace interpolator;
  const auto word = bit_cast<std::uint32_t>(x);
  if ((word & ~kSign) < kOne) return bit_cast<float>(word & kSign);
  if (word > kInfinity) return bit_cast<float>(kNan);
  if (word == kInfinity) return x;
  static constexpr SqrtTable kTable = sqrt_table();
  const QuarterStep at = quarter_step(word);
  return bit_cast<float>(assemble(interpolate(kTable.of[at.row], at.rest, 19), at.k));
}

/// ex2.approx.ftz.f32: 2^x.  |x| is cut to a multiple of 2^-23; below zero its ones' complement is
/// taken, or the exact negative if it is an integer.
MXO_HD inline float ex2_approx_ftz(float x) {
  using namespace interpolator;
  const auto word = bit_cast<std::uint32_t>(x);
  const bool below = (word & kSign) != 0;
  const std::uint32_t magnitude = word & ~kSign;
  if (magnitude > kInfinity) return bit_cast<float>(kNan);
  if (magnitude >= 0x43000000u) return below ? 0.0f : bit_cast<float>(kInfinity);  // |x| >= 128
  const auto steps =
      static_cast<std::int64_t>(static_cast<double>(bit_cast<float>(magnitude)) * kOne);
  const bool whole = (steps & (kOne - 1)) == 0;
  const std::int64_t t = !below ? steps : whole ? -steps : ~steps;
  const auto fraction = static_cast<std::uint32_t>(t & (kOne - 1));
  static constexpr Ex2Table kTable = ex2_table();
  const std::uint32_t y = interpolate(kTable.of[fraction >> 17], fraction & 0x1FFFFu, 19);
  return bit_cast<float>(assemble(y, static_cast<int>(t >> 23)));
}

// Without .ftz the compiler scales an operand that the unit would flush, and scales the result
// back.

/// rcp.approx.f32: 1 / x, subnormal operands and results too.
MXO_HD inline float rcp_approx(float x) {
  const float magnitude = std::fabs(x);
  if (magnitude < 0x1p-126f) return rcp_approx_ftz(x * 0x1p24f) * 0x1p24f;
  if (magnitude > 0x1p126f && magnitude <= FLT_MAX) return rcp_approx_ftz(x * 0.25f) * 0.25f;
  return rcp_approx_ftz(x);
}

/// rsqrt.approx.f32: x^(-1/2), of subnormal x too.
MXO_HD inline float rsqrt_approx(float x) {
  const float magnitude = std::fabs(x);
  if (magnitude < 0x1p-126f) return rsqrt_approx_ftz(x * 0x1p24f) * 0x1p12f;
  return rsqrt_approx_ftz(x);
}

/// sqrt.approx.f32: x^(1/2), of subnormal x too.
MXO_HD inline float sqrt_approx(float x) {
  const float magnitude = std::fabs(x);
  if (magnitude < 0x1p-126f) return sqrt_approx_ftz(x * 0x1p24f) * 0x1p-12f;
  return sqrt_approx_ftz(x);
}

/// ex2.approx.f32: 2^x; below -126 the square of 2^(x/2), which may be subnormal.  Triton's
/// tl.exp(x) is ex2_approx(fl(x * 3FB8AA3B)).
MXO_HD inline float ex2_approx(float x) {
  if (!(x < -126.0f)) return ex2_approx_ftz(x);
  const float half = ex2_approx_ftz(x * 0.5f);
  return half * half;
}

/// div.full.f32: fl(a * rcp(b)), with a and b scaled alike where rcp(b) would leave the normal
/// range. Triton's a / b.
MXO_HD inline float div_full(float a, float b) {
  const float magnitude = std::fabs(b);
  if (magnitude < 0x1p-126f) return (a * 0x1p24f) * rcp_approx_ftz(b * 0x1p24f);
  if (magnitude > 0x1p126f && magnitude <= FLT_MAX) return (a * 0.25f) * rcp_approx_ftz(b * 0.25f);
  return a * rcp_approx_ftz(b);
}

namespace interpolator {

/// A subnormal as a zero of its sign.
MXO_HD inline float flushed(float x) {
  return std::fabs(x) < 0x1p-126f ? bit_cast<float>(bit_cast<std::uint32_t>(x) & kSign) : x;
}

}  // namespace interpolator

/// div.full.ftz.f32: as div_full of a and b without subnormals; a result that is below 2^-126 once
/// it has 24 bits, whatever its exponent, is a zero.
MXO_HD inline float div_full_ftz(float a, float b) {
  a = interpolator::flushed(a);
  b = interpolator::flushed(b);
  const bool large = std::fabs(b) > 0x1p126f && std::fabs(b) <= FLT_MAX;
  const float dividend = large ? a * 0.25f : a;
  const float r = rcp_approx_ftz(large ? b * 0.25f : b);
  const float quotient = dividend * r;
  if (!(std::fabs(quotient) <= 0x1p-126f)) return quotient;
  return std::fabs((dividend * 0x1p64f) * r) < 0x1p-62f ? interpolator::flushed(quotient * 0.5f)
                                                        : quotient;
}

}  // namespace mxo

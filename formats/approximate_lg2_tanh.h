// lg2 and tanh .approx of f32 as Hopper computes them (sm_90), every bit.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include "formats/approximate.h"
#include "formats/approximate_lg2_tanh_tables.h"
#include "formats/host_device.h"

// Quadratics as in approximate.h.  Here the sum c0 + c1 x + c2 S(x) is not cut to a result's 24
// bits at a fixed place but normalised first, so that results near zero keep bits from further
// below, right or wrong: lg2 is off by up to 2.2e-7 near 1.  Held against the instructions on an
// H100: all 2^32 operands of each function, 0 differ.
namespace mxo {

namespace interpolator {

constexpr int kRowBits = 17;    // of the significand, below those that choose a row
constexpr int kSquareCut = 19;  // columns of S below 2^19 are not built

MXO_HD inline std::int64_t whole_sum(const Quadratic& row, std::uint32_t x) {
  return row.c0 + row.c1 * std::int64_t{x} + row.c2 * folded_square(x, kSquareCut);
}

/// sum * 2^unit for 0 < sum < 2^53, cut to 24 bits.
MXO_HD inline std::uint32_t normalise(std::int64_t sum, int unit) {
  const auto wide = bit_cast<std::uint64_t>(static_cast<double>(sum));
  const auto fraction = static_cast<std::uint32_t>(wide >> 29) & (kOne - 1);
  return assemble(kOne + fraction, static_cast<int>(wide >> 52) - 1023 + unit);
}

}  // namespace interpolator

/// lg2.approx.ftz.f32: log2(x), for x = m 2^e as e + log2(m) in multiples of 2^-36; of a negative
/// sum the ones' complement is normalised.  -infinity at zeros and subnormals, NaN below zero.
MXO_HD inline float lg2_approx_ftz(float x) {
  using namespace interpolator;
  const auto word = bit_cast<std::uint32_t>(x);
  if ((word & ~kSign) < kOne) return bit_cast<float>(kSign | kInfinity);
  if (word > kInfinity) return bit_cast<float>(kNan);
  if (word == kInfinity) return x;
  if (x == 1.0f) return 0.0f;  // its row's sum is above zero
  static constexpr Lg2Table kTable = lg2_table();
  const std::uint32_t fraction = word & (kOne - 1);
  const std::int64_t exponent = static_cast<int>(word >> 23) - 127;
  const std::int64_t of_fraction =
      whole_sum(kTable.of[fraction >> kRowBits], fraction & ((1u << kRowBits) - 1));
  const std::int64_t sum = exponent * (std::int64_t{1} << 36) + (of_fraction >> 4);
  return bit_cast<float>(sum < 0 ? kSign | normalise(~sum, -36) : normalise(sum, -36));
}

/// lg2.approx.f32: log2(x), of subnormal x too.
MXO_HD inline float lg2_approx(float x) {
  const float magnitude = std::fabs(x);
  if (magnitude != 0 && magnitude < 0x1p-126f) return lg2_approx_ftz(x * 0x1p24f) - 24.0f;
  return lg2_approx_ftz(x);
}

/// tanh.approx.f32: x below 2^-8, 1 from 8 on; in the eleven binades between, one to sixteen rows
/// each, and the 17 bits below those that choose the row: what is lower does not count.
MXO_HD inline float tanh_approx(float x) {
  using namespace interpolator;
  const auto word = bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = word & kSign;
  const std::uint32_t magnitude = word & ~kSign;
  if (magnitude > kInfinity) return bit_cast<float>(kNan);
  if (magnitude < 0x3B800000u) return x;
  if (magnitude >= 0x41000000u) return bit_cast<float>(sign | 0x3F800000u);
  static constexpr TanhTable kTable = tanh_table();
  const TanhBinade binade = kTable.binades[(magnitude >> 23) - 119];
  const std::uint32_t upper = (magnitude & (kOne - 1)) >> (23 - kRowBits - binade.row_bits);
  const std::int64_t sum =
      whole_sum(kTable.of[binade.first + (upper >> kRowBits)], upper & ((1u << kRowBits) - 1));
  return bit_cast<float>(sign | normalise(sum, static_cast<int>(magnitude >> 23) - 127 - 40));
}

}  // namespace mxo

// exp and the logistic function of a float, correctly rounded: the same bits on host and device.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cmath>
#include <cstdint>

#include "formats/host_device.h"

namespace mxo {

/// A number as an unevaluated sum; |low| is at most half an ulp of high.
struct DoublePair {
  double high;
  double low;
};

/// 2^(j/32) as pairs, j = 0 .. 31.
struct Exp2Table {
  double high[32];
  double low[32];
};
MXO_HD constexpr Exp2Table exp2_table() {
  return {{0x1p+0,
           0x1.059b0d3158574p+0,
           0x1.0b5586cf9890fp+0,
           0x1.11301d0125b51p+0,
           0x1.172b83c7d517bp+0,
           0x1.1d4873168b9aap+0,
           0x1.2387a6e756238p+0,
           0x1.29e9df51fdee1p+0,
           0x1.306fe0a31b715p+0,
           0x1.371a7373aa9cbp+0,
           0x1.3dea64c123422p+0,
           0x1.44e086061892dp+0,
           0x1.4bfdad5362a27p+0,
           0x1.5342b569d4f82p+0,
           0x1.5ab07dd485429p+0,
           0x1.6247eb03a5585p+0,
           0x1.6a09e667f3bcdp+0,
           0x1.71f75e8ec5f74p+0,
           0x1.7a11473eb0187p+0,
           0x1.82589994cce13p+0,
           0x1.8ace5422aa0dbp+0,
           0x1.93737b0cdc5e5p+0,
           0x1.9c49182a3f09p+0,
           0x1.a5503b23e255dp+0,
           0x1.ae89f995ad3adp+0,
           0x1.b7f76f2fb5e47p+0,
           0x1.c199bdd85529cp+0,
           0x1.cb720dcef9069p+0,
           0x1.d5818dcfba487p+0,
           0x1.dfc97337b9b5fp+0,
           0x1.ea4afa2a490dap+0,
           0x1.f50765b6e454p+0},
          {0.0,
           0x1.d73e2a475b465p-55,
           0x1.8a62e4adc610bp-54,
           -0x1.6c51039449b3ap-54,
           -0x1.19041b9d78a76p-55,
           0x1.e016e00a2643cp-54,
           0x1.9b07eb6c70573p-54,
           0x1.612e8afad1255p-55,
           0x1.6f46ad23182e4p-55,
           -0x1.63aeabf42eae2p-54,
           0x1.ada0911f09ebcp-55,
           0x1.89b7a04ef80dp-59,
           0x1.d4397afec42e2p-56,
           -0x1.07abe1db13cadp-55,
           0x1.6324c054647adp-54,
           -0x1.383c17e40b497p-54,
           -0x1.bdd3413b26456p-54,
           -0x1.16e4786887a99p-55,
           -0x1.41577ee04992fp-55,
           -0x1.d4c1dd41532d8p-54,
           0x1.6e9f156864b27p-54,
           -0x1.75fc781b57ebcp-57,
           0x1.c7c46b071f2bep-56,
           -0x1.d2f6edb8d41e1p-54,
           0x1.7a1cd345dcc81p-54,
           -0x1.5584f7e54ac3bp-56,
           0x1.11065895048ddp-55,
           0x1.503cbd1e949dbp-56,
           0x1.2ed02d75b3707p-55,
           -0x1.1a5cd4f184b5cp-54,
           -0x1.e9c23179c2893p-54,
           0x1.9d3e12dd8a18bp-54}};
}
MXO_HD constexpr DoublePair exp2_of_32nds(int j) {
  const Exp2Table table = exp2_table();
  return {table.high[j], table.low[j]};
}

/// What the functions below give when our own flags compile them (formats/exp.cc).
namespace library {
MXO_HD DoublePair exp_pair(double x);
MXO_HD float sigmoid_rn(float x);
}  // namespace library

inline namespace MXO_ARITHMETIC {

/// exp(x) as a pair with a relative error below 2^-58, for |x| <= 110.
///
/// x = n * ln2/32 + r with |r| <= ln2/64; exp(x) = 2^(n/32) * (1 + p), p = exp(r) - 1.  The upper
/// part of ln2/32 has 39 bits and |n| < 2^13, so that x - n * upper is exact; the series is cut
/// where |r|^8 / 8! < 2^-67.  p is below 2^-6, its rounding errors below 2^-58 of the result.
///
/// The same bits whether or not a compiler contracts: a product that is added to something is
/// either exact (n times a part of ln2/32, anything times a power of two) or a std::fma.
MXO_HD inline DoublePair exp_pair(double x) {
  if constexpr (MXO_THROUGH_LIBRARY) return library::exp_pair(x);
  constexpr double kPerStep = 0x1.71547652b82fep+5;  // 32 / ln2
  constexpr double kStepUpper = 0x1.62e42fefap-6;    // ln2 / 32 to 39 bits
  constexpr double kStepLower = 0x1.cf79abc9e4p-45;  // the next 40
  const double n = std::rint(x * kPerStep);
  const double r = (x - n * kStepUpper) - n * kStepLower;
  double p = 1.0 / 5040.0;
  p = std::fma(p, r, 1.0 / 720.0);
  p = std::fma(p, r, 1.0 / 120.0);
  p = std::fma(p, r, 1.0 / 24.0);
  p = std::fma(p, r, 1.0 / 6.0);
  p = std::fma(p, r, 0.5);
  p = std::fma(p * r, r, r);
  const int step = static_cast<int>(n);
  static constexpr Exp2Table kTable = exp2_table();  // static: else a device copies it each time
  const DoublePair t = {kTable.high[step & 31], kTable.low[step & 31]};
  const double scale = bit_cast<double>(static_cast<std::uint64_t>((step >> 5) + 1023) << 52);
  const double rest = std::fma(t.high, p, t.low);
  const double high = t.high + rest;
  const double low = rest - (high - t.high);
  return {high * scale, low * scale};
}

/// The pair rounded once to a float, ties to even.  Rounding high + low to odd first (the last
/// bit of a double stands for all that follows) makes the second rounding see no false tie.
MXO_HD inline float round_pair(DoublePair x) {
  auto word = bit_cast<std::uint64_t>(x.high);
  if (x.low != 0.0) {
    if ((x.low < 0.0) != (x.high < 0.0)) --word;
    word |= 1;
  }
  return static_cast<float>(bit_cast<double>(word));
}

/// exp(x), correctly rounded (every float is checked by exp_exhaustive_test).
MXO_HD inline float exp_rn(float x) {
  if (x != x) return bit_cast<float>(0x7FC00000u);
  if (x > 89.0f) return bit_cast<float>(0x7F800000u);
  if (x < -104.0f) return 0.0f;
  return round_pair(exp_pair(x));
}

/// 1 / (1 + exp(-x)), correctly rounded (every float is checked by swiglu_exhaustive_test).
MXO_HD inline float sigmoid_rn(float x) {
  if constexpr (MXO_THROUGH_LIBRARY) return library::sigmoid_rn(x);
  if (x != x) return bit_cast<float>(0x7FC00000u);
  if (x > 30.0f) return 1.0f;  // 1 - e^-30 is nearer to 1 than half an ulp
  if (x < -104.0f) return 0.0f;
  if (x < 0x1p-24f && x > -0x1p-24f) return 0.5f;  // 1/2 + x/4 is nearer to 1/2 than half an ulp
  const DoublePair e = exp_pair(-static_cast<double>(x));
  // d = 1 + e as a pair; whichever term is larger goes first.
  const double high = 1.0 + e.high;
  const double rest = e.high > 1.0 ? 1.0 - (high - e.high) : e.high - (high - 1.0);
  const double low = rest + e.low;
  const double q = 1.0 / high;
  const double error = std::fma(-q, low, std::fma(-q, high, 1.0));  // 1 - q * d
  const double sum = std::fma(error, q, q);
  return round_pair({sum, std::fma(error, q, q - sum)});
}

}  // namespace MXO_ARITHMETIC
}  // namespace mxo

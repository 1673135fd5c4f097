// Chunks, truncations and joins, counted from above.
#include "golden/judge/sum_error.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "golden/judge/rounding_cell.h"

namespace mxo {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kU = 0x1p-24;
constexpr double kTiny = 0x1p-150;  ///< half of f32's least step
constexpr auto kMost = static_cast<double>(std::numeric_limits<float>::max());

}  // namespace

double gamma_of(Index k, double u) {
  const double ku = static_cast<double>(k) * u;  // exact: k below 2^53, u a power of two
  return ku >= 1 ? kInfinity : up(ku / (1 - ku));
}

SumError SumError::any_order(Index k) {
  SumError error;
  error.relative_ = gamma_of(k, kU);
  error.absolute_ = up(static_cast<double>(k) * 0x1p-149);
  return error;
}

SumError SumError::independent(Index k) {
  constexpr double kDeviations = 8;
  const auto n = static_cast<double>(k);
  SumError error = any_order(k);
  const double likely = std::expm1(kDeviations * std::sqrt(n) * kU + n * kU * kU / (1 - kU));
  error.relative_ = std::min(error.relative_, likely * (1 + 0x1p-40));
  return error;
}

SumError SumError::of(const Accumulation& sum, Index k) {
  if (sum.family == SumFamily::exact) return SumError();
  if (sum.family == SumFamily::fma_chain) return any_order(k);
  SumError error;
  error.machine_ = true;
  const bool amd = sum.family == SumFamily::cdna3_dot;
  const Index blocks = sum.block > 0 ? ceil_div(k, Index{sum.block}) + sum.split : 0;
  const Index chains = std::max<Index>(blocks, sum.split);
  const Index instructions = ceil_div(k, Index{sum.instruction}) + chains;
  error.chunks_ = instructions * (sum.instruction / sum.chunk);
  error.joins_ = sum.split + blocks;
  if (sum.promote > 0) error.joins_ += ceil_div(instructions, Index{sum.promote}) + chains;
  // Every term and the accumulator are cut; CDNA3 floors four more times on the way.
  error.units_ = sum.chunk + (amd ? 5 : 1);
  error.step_ = std::ldexp(1.0, -sum.bits);
  const int least = sum.mantissa == 10 ? -14 : -126;
  error.floor_ = std::ldexp(1.0, amd ? least : std::max(least, sum.exponent_floor));
  error.rounding_ = std::ldexp(1.0, -sum.mantissa);
  error.tiny_ = std::ldexp(1.0, least - sum.mantissa);
  error.most_ = sum.mantissa == 10 ? 65504.0 : kMost;
  return error;
}

double SumError::operator()(double magnitude, double binade) const {
  if (machine_) return machine(magnitude, binade);
  const double stray = up(up(magnitude * relative_) + absolute_);
  return relative_ == 0 && absolute_ == 0 ? 0 : stray;
}

double SumError::machine(double magnitude, double binade) const {
  if (magnitude == 0) return 0;
  double error = 0;
  for (Index chunk = 0; chunk < chunks_; ++chunk) {
    const double reach = up(magnitude + error);
    const double cut = up(up(std::max({binade, reach, floor_}) * step_) * units_);
    const double rounded = up(up(up(reach + cut) * rounding_) + tiny_);
    error = up(error + up(cut + rounded));
  }
  for (Index join = 0; join < joins_; ++join) {
    error = up(error + up(up(up(magnitude + error) * kU) + kTiny));
  }
  return up(magnitude + error) > most_ ? kInfinity : error;
}

}  // namespace mxo

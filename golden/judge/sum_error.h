// How far a sum of products may stray from the real number: any f32 order, or a matrix unit.
#pragma once

#include <string_view>

#include "formats/tensor_view.h"
#include "ops/sums.h"

namespace mxo {

/// K u / (1 - K u), rounded upward; infinite where K u reaches 1.
double gamma_of(Index k, double u);

/// The derivation is in docs/gates.md.
class SumError {
 public:
  /// Of `k` products under `sum`.  `any_order`: f32 additions of an unknown kernel instead.
  static SumError of(const Accumulation& sum, Index k);
  static SumError any_order(Index k);
  /// The same where roundings are independent: no right kernel strays further, but with a chance of
  /// 2 exp(-32) for each (docs/gates.md).
  static SumError independent(Index k);

  /// Of products whose magnitudes add up to `magnitude` at most, the largest exponent of a factor's
  /// product being that of `binade`; infinite where a step may overflow.  Rounded upward.
  double operator()(double magnitude, double binade) const;

 private:
  SumError() = default;
  double machine(double magnitude, double binade) const;

  double relative_ = 0;  ///< of the magnitude
  double absolute_ = 0;
  bool machine_ = false;
  Index chunks_ = 0;     ///< fused sums
  Index joins_ = 0;      ///< f32 additions of their chains
  double units_ = 0;     ///< truncations of one chunk, in steps at its largest exponent
  double step_ = 0;      ///< 2^-bits
  double floor_ = 0;     ///< the largest exponent is not below
  double rounding_ = 0;  ///< of a chunk's result, relative
  double tiny_ = 0;      ///< and absolute
  double most_ = 0;      ///< largest finite result
};

}  // namespace mxo

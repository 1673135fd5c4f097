// The inner loops of the matrix-unit models: one chunk, many rows, a panel of columns.
#pragma once

#include <cstdint>

#include "emu/cpu/isa.h"
#include "ops/sums.h"

namespace mxo::cpu {

/// How a number type is laid out for the kernels.
template <typename Real>
struct ModelLayout;
template <>
struct ModelLayout<float> {
  using Exponent = std::int8_t;
  static constexpr int columns = 64;  ///< of a panel
  static constexpr int zero = -64;    ///< exponent of a zero: with any other far below -40
};
template <>
struct ModelLayout<double> {
  using Exponent = std::int16_t;
  static constexpr int columns = 32;
  static constexpr int zero = -8000;
};

/// One element of a row.
template <typename Real>
struct ModelElement {
  Real value;               ///< exact; 0 in place of a NaN or an infinity
  std::int32_t exponents;   ///< not normalised, repeated over the 4 bytes
  std::int32_t sign_plane;  ///< 0, or the panel's columns where the value is negative
};

/// c[r, j] = chunk sum of a[r, k] * b[k, j] and c[r, j] for every row r and column j of a panel.
template <typename Real>
struct ModelChunk {
  int rows = 0;
  int terms = 0;
  const ModelElement<Real>* a = nullptr;  ///< [rows][terms]
  /// [terms][columns]; with signs apart [terms][2][columns], positive values, then negative.
  const Real* b = nullptr;
  const typename ModelLayout<Real>::Exponent* b_exponents = nullptr;  ///< [terms][columns]
  float* c = nullptr;
  Index c_stride = 0;
  /// Per row, one bit per column.  In: columns to skip.  Out: also those the kernel skipped because
  /// c is not finite or beyond the range in which it is exact.
  std::uint64_t* left = nullptr;
  int bits = 0;
  int floor = 0;
  int mantissa = 23;
  StepRounding rounding = StepRounding::toward_zero;
  bool parity = false;  ///< cdna3: the halves of the chunk are summed separately
};

/// Every entry has the bits of the scalar engine (emu/sums) in the columns it does not skip.
struct ModelKernels {
  const char* isa;
  bool signs_apart;
  void (*fused_f32)(const ModelChunk<float>& chunk) noexcept;
  void (*fused_f64)(const ModelChunk<double>& chunk) noexcept;
  void (*cdna3_f64)(const ModelChunk<double>& chunk) noexcept;
};

extern const ModelKernels kModelsAvx2;
extern const ModelKernels kModelsAvx512;
/// Null where the models run in plain C++.
const ModelKernels* model_kernels(Isa isa);

/// Whether a chunk of `how` is exact in f32, operands being 8-bit codes without block scales, or
/// in f64: no sum of truncated products, each below 4 steps of 2^bits, may reach half of the
/// type's exact integer range.
constexpr bool fits_f32(const Accumulation& how) {
  return how.family == SumFamily::fused_dot && how.rounding == StepRounding::toward_zero &&
         how.mantissa != 10 && how.bits <= 16 && how.exponent_floor - how.bits >= -149 &&
         4 * (Index{how.chunk} + 1) << how.bits <= Index{1} << 22;
}
constexpr bool fits_f64(const Accumulation& how) {
  const bool rounding =
      how.rounding == StepRounding::toward_zero ? how.mantissa != 10 : how.mantissa == 23;
  return rounding && how.bits <= 40 && how.exponent_floor >= -400 &&
         4 * (Index{how.chunk} + 1) << how.bits <= Index{1} << 51;
}

}  // namespace mxo::cpu

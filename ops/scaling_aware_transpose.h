// Row-wise FP8 to column-wise FP8 without leaving FP8: exponents move, nothing is requantised.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "formats/any_view.h"
#include "formats/minifloat.h"

namespace mxo {

class Backend;

/// What becomes of a code whose exponent field would fall below 1.
enum class Underflow : std::uint8_t {
  round,          ///< the value times 2^-k rounded to nearest even, subnormals kept
  keep_mantissa,  ///< exponent field 0, the three mantissa bits as they are (released kernel)
  flush,          ///< +0 (independent port)
};

/// Rows split into tiles of 128 that restart at each group.  For tile b of a group, column
/// block c = k / 128 and T[b, c] = max over the tile's rows r of scales[r, c]:
///   codes_out[k, r] = codes[r, k] * 2^-shift,  shift = log2(T[b, c] / scales[r, c])
///   scales_out[b, k] = T[b, c]
/// under `underflow`; keep_mantissa and flush turn every code of exponent field 0 into +0 even
/// when shift is 0, and shift NaN codes like numbers (so a NaN is lost when shift > 0); round
/// keeps NaN.  e4m3fnuz has `round` alone: with its own subnormals, down to 2^-10, its one NaN and
/// no -0; the other rules are those of kernels that know e4m3.  A scale of +0 (a padding row)
/// counts as 2^-127 does, with exponent field 0.
///
///   codes       e4m3, e4m3fnuz [M, K]    scales      f32 [M, ceil(K/128)], powers of two or +0
///   group_ends  i32 [E]
///   codes_out   like codes, [K, M]       scales_out  f32 [at least G, K], G = sum ceil(rows/128)
///
/// Columns of codes_out at or beyond the last end and rows of scales_out at or beyond G are left
/// untouched.  Any extent may be 0.
/// Errors, before any byte is written: Error(shape), also for a scale that is no power of two
/// (a backend that cannot read host memory reports it at synchronize()), Error(dtype),
/// Error(argument) for an underflow that the format does not have.
/// Source: FP8-Flow-MoE, TransformerEngine fork 4c097bf3, scaling_aware_fp8_transpose.
struct ScalingAwareTranspose {
  Operand codes;
  Operand scales;
  Operand group_ends;
  Result codes_out;
  Result scales_out;
  Underflow underflow = Underflow::round;
};

void scaling_aware_transpose(Backend& backend, const ScalingAwareTranspose& op);

/// One code of e4m3 or, under `round`, e4m3fnuz times 2^-shift, shift >= 0.
template <typename T>
MXO_HD constexpr T shifted_code(T code, int shift, Underflow underflow) {
  if (underflow == Underflow::round) {
    if (is_nan(code)) return code;
    // A code has 4 significant bits and 2^-shift is exact in float down to 2^-126 and beyond
    // that rounds to the same zero.
    const int field = 127 - (shift < 126 ? shift : 126);
    return encode<T::spec>(decode(code) * bit_cast<float>(static_cast<std::uint32_t>(field) << 23),
                           Overflow::saturate);
  }
  const int exponent = code.bits >> 3 & 15;
  if (exponent == 0) return {0};
  const int moved = exponent - shift;
  if (moved >= 1) return {static_cast<std::uint8_t>((code.bits & 0x87) | moved << 3)};
  return {static_cast<std::uint8_t>(underflow == Underflow::flush ? 0 : code.bits & 0x87)};
}

}  // namespace mxo

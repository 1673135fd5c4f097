// What a matrix unit makes of a stored element before it multiplies: an integer and an exponent.
#pragma once

#include <cstdint>

#include "formats/dtype.h"
#include "formats/mx_block.h"

namespace mxo {

/// A finite value is significand * 2^(exponent - f), f the mantissa bits of the format.  Nothing
/// is normalised: a subnormal keeps the exponent of the smallest normal number.
struct DotOperand {
  enum class Kind : std::uint8_t { finite, infinite, nan };
  std::int32_t significand = 0;  ///< signed; of an infinity the sign alone counts
  std::int16_t exponent = 0;
  Kind kind = Kind::finite;
};

template <FormatSpec S>
MXO_HD constexpr DotOperand dot_operand(Minifloat<S> x) {
  const bool negative = (x.bits >> S.sign_shift() & 1) != 0;
  if (is_nan(x)) return {0, 0, DotOperand::Kind::nan};
  if (is_infinite(x)) return {negative ? -1 : 1, 0, DotOperand::Kind::infinite};
  const int magnitude = x.bits & ((1 << S.sign_shift()) - 1);
  const int field = magnitude >> S.mantissa_bits;
  const int fraction = magnitude & ((1 << S.mantissa_bits) - 1);
  const int significand = fraction | (field > 0 ? 1 << S.mantissa_bits : 0);
  const int exponent = (field > 0 ? field : 1) - S.bias;
  return {negative ? -significand : significand, static_cast<std::int16_t>(exponent),
          DotOperand::Kind::finite};
}

/// `x` times 2^(scale - 127), the scale joining the exponent; a NaN scale poisons even a zero.
MXO_HD constexpr DotOperand scaled_by(DotOperand x, E8M0 scale) {
  if (scale.bits == 0xFF) return {0, 0, DotOperand::Kind::nan};
  x.exponent = static_cast<std::int16_t>(x.exponent + scale.bits - 127);
  return x;
}

/// Mantissa bits of an operand format.
MXO_HD constexpr int fraction_bits(Dtype dtype) {
  switch (dtype) {
    case Dtype::e4m3:
    case Dtype::e4m3fnuz: return 3;
    case Dtype::e5m2:
    case Dtype::e5m2fnuz: return 2;
    case Dtype::f16: return 10;
    default: return 7;
  }
}

/// The element at `offset` of operands of type `dtype`.
inline DotOperand dot_operand_at(const void* data, Dtype dtype, Index offset) {
  switch (dtype) {
    case Dtype::bf16: return dot_operand(static_cast<const BF16*>(data)[offset]);
    case Dtype::f16: return dot_operand(static_cast<const F16*>(data)[offset]);
    default:
      return visit_minifloat8(dtype, [&](auto tag) {
        return dot_operand(static_cast<const typename decltype(tag)::type*>(data)[offset]);
      });
  }
}

static_assert(dot_operand(E4M3{0x01}).exponent == -6 && dot_operand(E4M3{0x01}).significand == 1);
static_assert(dot_operand(E4M3{0xBF}).significand == -15 && dot_operand(E4M3{0x3F}).exponent == 0);

}  // namespace mxo

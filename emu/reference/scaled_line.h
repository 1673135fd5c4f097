// The numbers one output of a matrix product contracts, read where they lie.
#pragma once

#include "formats/any_view.h"

namespace mxo {

/// The value of one stored element of any float type, exactly.
inline float element_at(const void* data, Dtype dtype, Index offset) {
  switch (dtype) {
    case Dtype::f32: return static_cast<const float*>(data)[offset];
    case Dtype::bf16: return decode(static_cast<const BF16*>(data)[offset]);
    case Dtype::f16: return decode(static_cast<const F16*>(data)[offset]);
    case Dtype::e4m3: return decode(static_cast<const E4M3*>(data)[offset]);
    case Dtype::e4m3fnuz: return decode(static_cast<const E4M3Fnuz*>(data)[offset]);
    case Dtype::e5m2: return decode(static_cast<const E5M2*>(data)[offset]);
    case Dtype::e5m2fnuz: return decode(static_cast<const E5M2Fnuz*>(data)[offset]);
    case Dtype::e8m0: return decode(static_cast<const E8M0*>(data)[offset]);
    default: throw Error(Fault::dtype, "a float type is needed here");
  }
}

/// Element c of a line is code(c) * scale(c); `block` neighbours share a scale.
struct ScaledLine {
  Operand codes;
  Index codes_start = 0;
  Index codes_step = 0;
  Operand scales;  ///< not given: the scale is 1
  Index scales_start = 0;
  Index scales_step = 0;
  Index block = 1;

  float code(Index c) const {
    return element_at(codes.data, codes.dtype, codes_start + c * codes_step);
  }
  float scale(Index c) const {
    if (!scales.given()) return 1.0f;
    return element_at(scales.data, scales.dtype, scales_start + c / block * scales_step);
  }
};

}  // namespace mxo

// FP8 with an f32 scale per row, per 1x128 or per 128x128 block: the scale from amax.
#pragma once

#include <cmath>

#include "formats/mx_block.h"

namespace mxo {

/// Where a profile of `quantize_blockwise` (and the row-wise recipe) puts amax.
struct F32ScaleRule {
  enum class Kind : std::uint8_t {
    f64_divide,  ///< torchao: f32(f64(max) / max(f64 amax, epsilon))
    f32_divide,  ///< TransformerEngine: fl32(max / amax), its own rules for 0, Inf and NaN
  };
  Kind kind = Kind::f64_divide;
  bool power_of_2 = false;  ///< clear the mantissa of the scale
  double epsilon = 1e-12;
};

/// torchao rowwise and blockwise training (pytorch/ao 36027d8).
inline constexpr F32ScaleRule kTorchaoBlockwise{F32ScaleRule::Kind::f64_divide, false, 1e-12};
/// TransformerEngine Float8BlockScaling (d0067d0): power of two, epsilon 0.
inline constexpr F32ScaleRule kTeBlockwise{F32ScaleRule::Kind::f32_divide, true, 0.0};
/// FP8-Flow-MoE (4c097bf3): power of two, floor of amax 1e-10.
inline constexpr F32ScaleRule kFlowBlockwise{F32ScaleRule::Kind::f32_divide, true, 1e-10};

/// What x is multiplied by, and what a code is multiplied by to come back.
struct F32Scale {
  float multiplier;
  float stored;
};

}  // namespace mxo

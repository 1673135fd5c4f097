// Elements as floats and back, in the few instructions a device has for it.
#pragma once

#include <cuda_bf16.h>

#include "formats/dtype.h"

namespace mxo::cuda {

/// The value of an element.  Unlike to_float(), a NaN keeps its payload: what is made of it is
/// canonical again.
__device__ inline float as_float(float x) { return x; }
__device__ inline float as_float(BF16 x) {  // a bf16 is the upper half of a float
  return __uint_as_float(static_cast<std::uint32_t>(x.bits) << 16);
}
__device__ inline float as_float(F16 x) { return to_float(x); }

/// A float as an element of type T, rounded to nearest even; NaN becomes the canonical one, for a
/// device's arithmetic makes 7FFFFFFF of every NaN.
template <typename T>
__device__ inline T canonical(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x != x ? __uint_as_float(0x7FC00000u) : x;
  } else if constexpr (std::is_same_v<T, BF16>) {
    // All floats: cuda_exhaustive_test.
    const std::uint16_t rounded = __bfloat16_as_ushort(__float2bfloat16_rn(x));
    return {x != x ? std::uint16_t{0x7FC0} : rounded};
  } else {
    return from_float<T>(x);
  }
}

/// Two floats rounded to bf16, the first in the low half; of a NaN 7FFF.
__device__ inline std::uint32_t bf16_pair(float first, float second) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

}  // namespace mxo::cuda

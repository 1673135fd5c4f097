// Floats to 8-bit codes, saturating, and back, by the chip's converters where it has them.
#pragma once

#include <cuda_fp8.h>

#include "emu/cuda/launch.cuh"
#include "formats/mx_block.h"

namespace mxo::cuda {

/// Two codes, the first in the low byte: encode<Code::spec>(x, saturate).  For e4m3 and e5m2 the
/// converter of sm_89 and later gives the same byte for every float (cuda_exhaustive_test compares
/// all of them); fnuz has no instruction.
template <typename Code>
__device__ inline std::uint32_t saturated_pair(float first, float second) {
  if constexpr (std::is_same_v<Code, E4M3>) {
    return __nv_cvt_float2_to_fp8x2({first, second}, __NV_SATFINITE, __NV_E4M3);
  } else if constexpr (std::is_same_v<Code, E5M2>) {
    return __nv_cvt_float2_to_fp8x2({first, second}, __NV_SATFINITE, __NV_E5M2);
  } else {
    const std::uint32_t low = encode<Code::spec>(first, Overflow::saturate).bits;
    return low | encode<Code::spec>(second, Overflow::saturate).bits << 8;
  }
}

template <typename Code>
__device__ inline Code saturated_code(float x) {
  return {static_cast<std::uint8_t>(saturated_pair<Code>(x, 0.0f))};
}

template <typename Code>
__device__ inline std::uint32_t saturated_quad(const float (&x)[4]) {
  return saturated_pair<Code>(x[0], x[1]) | saturated_pair<Code>(x[2], x[3]) << 16;
}

/// Eight codes, the first in the lowest byte.
template <typename Code>
__device__ inline uint2 saturated_eight(const float (&x)[8]) {
  return make_uint2(saturated_pair<Code>(x[0], x[1]) | saturated_pair<Code>(x[2], x[3]) << 16,
                    saturated_pair<Code>(x[4], x[5]) | saturated_pair<Code>(x[6], x[7]) << 16);
}

/// The value of a code; a NaN has any payload.  Every 8-bit code is exact in f16.
template <typename Code>
__device__ inline float code_value(Code code) {
  if constexpr (std::is_same_v<Code, E4M3>) {
    return __half2float(__nv_cvt_fp8_to_halfraw(code.bits, __NV_E4M3));
  } else if constexpr (std::is_same_v<Code, E5M2>) {
    return __half2float(__nv_cvt_fp8_to_halfraw(code.bits, __NV_E5M2));
  } else {
    return decode(code);
  }
}

}  // namespace mxo::cuda

// The last step of every quantiser on a device: a float to an 8-bit code, saturating.
#pragma once

#include <cuda_fp8.h>

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

}  // namespace mxo::cuda

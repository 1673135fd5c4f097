// Results of float arithmetic as every backend writes them.
#pragma once

#include "formats/dtype.h"

namespace mxo::cuda {

/// A float as an element of type T; NaN becomes the canonical one, for a device's arithmetic makes
/// 7FFFFFFF of every NaN.
template <typename T>
__device__ inline T canonical(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x != x ? __uint_as_float(0x7FC00000u) : x;
  } else {
    return from_float<T>(x);
  }
}

}  // namespace mxo::cuda

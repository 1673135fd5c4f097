// What the quantise kernels share: rules fixed at compile time where they are common, and loads.
#pragma once

#include <cstdint>

#include "emu/cuda/element_cast.cuh"
#include "formats/dtype.h"
#include "formats/mx_scale.h"

namespace mxo::cuda {

/// Mode and profile as run-time values.
struct AnyRule {
  ScaleMode mode;
  ScaleProfile profile;
  __device__ ScaleMode scale_mode() const { return mode; }
  __device__ ScaleProfile scale_profile() const { return profile; }
};

/// The one that kernels are written for.
struct TorchaoRceil {
  __device__ static constexpr ScaleMode scale_mode() { return ScaleMode::rceil; }
  __device__ static constexpr ScaleProfile scale_profile() { return kTorchao; }
};

/// Calls run(TypeTag<Code>, rule) with the most specific rule that says the same.
template <typename Fn>
void visit_rule(Dtype codes, ScaleMode mode, const ScaleProfile& profile, Fn&& run) {
  visit_minifloat8(codes, [&](auto code) {
    using Code = typename decltype(code)::type;
    if constexpr (Code::spec.special != Special::nan_minus_0) {
      if (profile == kTorchao && mode == ScaleMode::rceil) return run(code, TorchaoRceil{});
    }
    run(code, AnyRule{mode, profile});
  });
}

/// The scale of a block from the largest of its magnitudes, and its reciprocal.
struct BlockScale {
  std::uint8_t bits;
  float factor;
};
template <typename Code, typename Rule>
__device__ inline BlockScale block_scale(std::uint32_t amax, const Rule& rule) {
  const E8M0 scale =
      shared_scale<Code::spec>(__uint_as_float(amax), rule.scale_mode(), rule.scale_profile());
  return {scale.bits, reciprocal(scale)};
}

/// Eight neighbours as floats, read 16 bytes at a time and not kept in the caches.
__device__ inline void load_eight(const float* from, float (&x)[8]) {
#pragma unroll
  for (int i = 0; i < 8; i += 4) {
    const float4 v = __ldcs(reinterpret_cast<const float4*>(from + i));
    x[i] = v.x;
    x[i + 1] = v.y;
    x[i + 2] = v.z;
    x[i + 3] = v.w;
  }
}
__device__ inline void load_eight(const BF16* from, float (&x)[8]) {
  const uint4 v = __ldcs(reinterpret_cast<const uint4*>(from));
  const std::uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // a bf16 is the upper half of a float
    x[2 * i] = __uint_as_float(word[i] << 16);
    x[2 * i + 1] = __uint_as_float(word[i] & 0xFFFF0000u);
  }
}

}  // namespace mxo::cuda

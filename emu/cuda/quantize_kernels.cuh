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

/// The ones that kernels are written for.
template <ScaleMode Mode>
struct TorchaoRule {
  __device__ static constexpr ScaleMode scale_mode() { return Mode; }
  __device__ static constexpr ScaleProfile scale_profile() { return kTorchao; }
};

/// Calls run(TypeTag<Code>, rule) with the most specific rule that says the same.
template <typename Fn>
void visit_rule(Dtype codes, ScaleMode mode, const ScaleProfile& profile, Fn&& run) {
  visit_minifloat8(codes, [&](auto code) {
    using Code = typename decltype(code)::type;
    if constexpr (Code::spec.special != Special::nan_minus_0) {
      if (profile == kTorchao && mode == ScaleMode::rceil) {
        return run(code, TorchaoRule<ScaleMode::rceil>{});
      }
      if (profile == kTorchao && mode == ScaleMode::floor) {
        return run(code, TorchaoRule<ScaleMode::floor>{});
      }
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

/// Eight neighbours of type X as they lie in memory, read 16 bytes at a time.  Plain loads: those
/// that ask the caches not to keep what they read took 3 to 10 % longer in most kernels here, and
/// load_streaming() is for one that measured the opposite.
template <typename X>
struct Eight;

template <>
struct Eight<BF16> {
  uint4 word{};
  __device__ void load(const BF16* from) { word = *reinterpret_cast<const uint4*>(from); }
  __device__ void load_streaming(const BF16* from) {
    word = __ldcs(reinterpret_cast<const uint4*>(from));
  }
  /// The largest magnitude as join_amax() finds it.
  __device__ std::uint32_t amax(NanRule nan) const {
    if (nan == NanRule::ignore) {
      float x[8];
      values(1.0f, x);
      std::uint32_t top = 0;
#pragma unroll
      for (const float v : x) top = join_amax(top, v, nan);
      return top;
    }
    // Magnitudes of bf16 order as integers, two to a word.
    constexpr unsigned kMagnitudes = 0x7FFF7FFFu;
    const unsigned both = __vmaxu2(__vmaxu2(word.x & kMagnitudes, word.y & kMagnitudes),
                                   __vmaxu2(word.z & kMagnitudes, word.w & kMagnitudes));
    return max(both << 16, both & 0xFFFF0000u);
  }
  __device__ void values(float factor, float (&x)[8]) const {
    const unsigned pair[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // a bf16 is the upper half of a float
      x[2 * i] = __uint_as_float(pair[i] << 16) * factor;
      x[2 * i + 1] = __uint_as_float(pair[i] & 0xFFFF0000u) * factor;
    }
  }
};

template <>
struct Eight<float> {
  float4 word[2]{};
  __device__ void load(const float* from) {
    word[0] = reinterpret_cast<const float4*>(from)[0];
    word[1] = reinterpret_cast<const float4*>(from)[1];
  }
  __device__ void load_streaming(const float* from) {
    word[0] = __ldcs(reinterpret_cast<const float4*>(from));
    word[1] = __ldcs(reinterpret_cast<const float4*>(from) + 1);
  }
  __device__ std::uint32_t amax(NanRule nan) const {
    float x[8];
    values(1.0f, x);
    std::uint32_t top = 0;
#pragma unroll
    for (const float v : x) top = join_amax(top, v, nan);
    return top;
  }
  __device__ void values(float factor, float (&x)[8]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      x[4 * i] = word[i].x * factor;
      x[4 * i + 1] = word[i].y * factor;
      x[4 * i + 2] = word[i].z * factor;
      x[4 * i + 3] = word[i].w * factor;
    }
  }
};

/// The scale of a block whose 32 elements lie in the four lanes of a quarter, eight each.
template <typename Code, typename X, typename Rule>
__device__ inline BlockScale scale_of_four_lanes(const Eight<X>& mine, const Rule& rule) {
  std::uint32_t amax = mine.amax(rule.scale_profile().nan);
  amax = max(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, 1));
  amax = max(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, 2));
  return block_scale<Code>(amax, rule);
}

template <typename Code, typename X>
__device__ inline void store_codes(const Eight<X>& x, float factor, std::uint8_t* to) {
  float scaled[8];
  x.values(factor, scaled);
  *reinterpret_cast<uint2*>(to) = saturated_eight<Code>(scaled);
}

}  // namespace mxo::cuda

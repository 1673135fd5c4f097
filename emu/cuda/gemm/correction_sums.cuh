// What residuals are multiplied by, a byte an element, and how the products are summed.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace mxo::cuda {

/// High slices; sums in f16.
struct HighSlices {
  using Sum = __half;
  using Two = __half2;
  static constexpr int kThreads = 256;
  static constexpr float kUnit = 1.0f;
  static constexpr bool kScaled = false;
  static constexpr bool kCommon = false;
  __device__ static std::uint32_t four(std::uint32_t, std::uint32_t high) { return high; }
  __device__ static void values(std::uint32_t four, float (&v)[4]) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      v[n] = static_cast<float>(static_cast<std::int8_t>(four >> 8 * n));
    }
  }
  __device__ static float add(float sum, float residual, float v) { return fmaf(residual, v, sum); }
  __device__ static float join(float a, float b) { return a + b; }
  __device__ static float widened(__half sum) { return __half2float(sum); }
  __device__ static __half kept(float sum) { return __float2half_rn(sum); }
};
/// An integer has four significant bits and is below 2^15: 2^-9 times it is a number of e4m3.  Sums
/// are exact, or NaN.
struct Integers {
  using Sum = float;
  using Two = float2;
  static constexpr int kThreads = 512;
  static constexpr float kUnit = 0x1p9f;
  static constexpr bool kScaled = false;
  static constexpr bool kCommon = true;
  __device__ static std::uint32_t four(std::uint32_t low, std::uint32_t high) {
    std::uint16_t two[2];
#pragma unroll
    for (int n = 0; n < 4; n += 2) {
      const auto element = [&](int i) {
        const int v =
            256 * static_cast<std::int8_t>(high >> 8 * i) + static_cast<std::int8_t>(low >> 8 * i);
        return static_cast<float>(v) * 0x1p-9f;
      };
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
          : "=h"(two[n / 2])
          : "f"(element(n + 1)), "f"(element(n)));
    }
    return two[0] | static_cast<std::uint32_t>(two[1]) << 16;
  }
  __device__ static void values(std::uint32_t four, float (&v)[4]) {
#pragma unroll
    for (int n = 0; n < 4; n += 2) {
      std::uint32_t halves;
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
          : "=r"(halves)
          : "h"(static_cast<std::uint16_t>(four >> 8 * n)));
      asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\ncvt.f32.f16 %0, a;\ncvt.f32.f16 %1, b;\n}"
          : "=f"(v[n]), "=f"(v[n + 1])
          : "r"(halves));
    }
  }
  __device__ static float add(float sum, float residual, float v) {
    return join(sum, residual * v);  // of four bits each
  }
  __device__ static float join(float a, float b) {
    const float sum = a + b;  // Knuth: what it lacks
    const float of_b = sum - a;
    const float lost = (a - (sum - of_b)) + (b - of_b);
    return lost == 0.0f ? sum : NAN;
  }
  __device__ static float widened(float sum) { return sum; }
  __device__ static float kept(float sum) { return sum; }
};

/// The same with scales of runs, each addition rounded.  `Common`: with the products of residuals
/// at one place.
template <bool Common>
struct ScaledIntegers : Integers {
  static constexpr bool kScaled = true;
  static constexpr bool kCommon = Common;
  __device__ static float add(float sum, float residual, float v) { return sum + residual * v; }
  __device__ static float join(float a, float b) { return a + b; }
};

}  // namespace mxo::cuda

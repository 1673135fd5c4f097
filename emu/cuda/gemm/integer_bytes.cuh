// Elements of 8-bit codes as integers of two bytes, and what becomes of a K-vector of them.
#pragma once

#include <algorithm>

#include "emu/cuda/gemm/k_vector_elements.cuh"
#include "emu/cuda/gemm/two_slices.cuh"

namespace mxo::cuda {

/// Place of the greatest bit of the integers: with four significant bits at most they stay below
/// 0x7F7F, what two signed slices hold.
inline constexpr int kTopBit = 14;
inline constexpr int kCodeBits = 4;
/// Elements so small are not counted exactly: their K-vector has too many residuals.
inline constexpr int kLeastShift = -60;
/// Added to a binary32 below 2^16, rounds it to an integer, whose low bytes with 128 added to each
/// end the sum's bits.
inline constexpr float kToInteger = 0x1.8p23f + 0x8080;

/// Multiplies elements by 2^shift and rounds them to integers; true if some leave a residual.
__device__ inline bool to_integers(int shift, float (&x)[kStep], std::uint32_t (&v)[kStep]) {
  // Above 40 all codes are zeros.
  const float unit = __int_as_float((min(max(shift, kLeastShift), 40) + 127) << 23);
  bool any_left = false;
#pragma unroll
  for (int i = 0; i < kStep; ++i) {
    x[i] *= unit;
    const float rounded = x[i] + kToInteger;
    v[i] = __float_as_uint(rounded);
    any_left = any_left || rounded - kToInteger != x[i];
  }
  return any_left;
}
__device__ inline float integer_of(std::uint32_t v) { return __uint_as_float(v) - kToInteger; }

/// The low bytes and the bytes above them of four words.
__device__ inline void take_bytes(const std::uint32_t (&v)[kStep], int first, std::uint32_t& low,
                                  std::uint32_t& high) {
  const std::uint32_t two = __byte_perm(v[first], v[first + 1], 0x5140);
  const std::uint32_t others = __byte_perm(v[first + 2], v[first + 3], 0x5140);
  low = __byte_perm(two, others, 0x5410) ^ 0x80808080u;
  high = __byte_perm(two, others, 0x7632) ^ 0x80808080u;
}

/// What was found of a K-vector of `length` elements.
struct KVectorFindings {
  std::int32_t quantum;
  int significand;     ///< the four bits from place kTopBit down that its greatest element has
  bool beyond;         ///< a NaN or an infinity, or too long
  bool given;          ///< neither that nor all zeros
  std::int32_t count;  ///< of residuals; more than kMaxResiduals if some are too small
  int most;            ///< that it may have
  float sum;
  Index length;
};
/// Writes the head of its list.
__device__ inline KVectorWindow window_of(const KVectorFindings& found, Residuals& list) {
  const bool many = found.count > found.most;
  const std::int32_t number = found.beyond ? kBeyond : many ? kManyResiduals : found.given ? 2 : 0;
  static_cast<ResidualsHead&>(list) = {found.quantum, number, found.sum,
                                       min(found.count, found.most)};
  const float peak = found.given
                         ? static_cast<float>(found.significand << (kTopBit - kCodeBits + 1)) + 0.5f
                         : 0.5f;
  return {found.quantum, number,    peak * sqrtf(static_cast<float>(found.length)) * 1.001f,
          peak,          found.sum, found.sum};
}

}  // namespace mxo::cuda

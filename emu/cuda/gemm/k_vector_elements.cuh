// Elements of laid K-vectors: where they are, and what they are as integers times powers of two.
#pragma once

#include <type_traits>

#include "emu/cuda/gemm/k_vector_memory.cuh"

namespace mxo::cuda {

/// K-vector number `index` of a factor: which group and K-vector it is, and where its codes are.
struct KVectorAt {
  Index group;
  Index k_vector;
  Index length;
  Index place;  ///< of its first element along a laid K-vector
  const std::uint8_t* codes;
  bool has_outputs;
};

__device__ inline KVectorAt k_vector_at(const Problem& p, const Factor& f,
                                        const KVectorMemory& memory, Index index) {
  if (f.rows_are_rows) {
    return {0,
            index,
            p.depth,
            0,
            memory.data + index * memory.k_vector_bytes,
            index < p.span[p.groups].start};
  }
  KVectorAt at{};
  at.group = index / memory.k_vectors;
  at.k_vector = index % memory.k_vectors;
  at.length = p.length_of(at.group);
  at.place = f.k_is_rows ? Index{p.span[at.group].packed} * 128 : 0;
  at.codes = memory.data + (f.k_is_rows ? 0 : at.group * memory.group_bytes) +
             at.k_vector * memory.k_vector_bytes + at.place * memory.element_bytes;
  at.has_outputs = true;
  return at;
}

/// Where the scale of place c of a K-vector lies.
__device__ inline Index scale_offset(const Problem& p, const Factor& f, const KVectorAt& at,
                                     Index c) {
  return f.rows_are_rows ? at.k_vector * f.scales_row_step + (c >> p.block_shift()) * f.scales_step
                         : p.scale_at(f, at.group, at.k_vector, c);
}

/// A number: significand * 2^exponent, or none.
struct Parts {
  std::uint32_t significand;  ///< below 2^24; below 2^28 for an element with its scale
  int exponent;
  bool negative;
  bool finite;
};

template <typename Code>
__device__ Parts parts_of(std::uint32_t bits) {
  constexpr FormatSpec S = Code::spec;
  constexpr int m = S.mantissa_bits;
  const int magnitude = static_cast<int>(bits) & ((1 << S.sign_shift()) - 1);
  const int field = magnitude >> m;
  const int fraction = magnitude & ((1 << m) - 1);
  const Code code{static_cast<typename Code::Bits>(bits)};
  return {static_cast<std::uint32_t>(fraction | (field > 0 ? 1 << m : 0)),
          (field > 0 ? field : 1) - S.bias - m, (bits >> S.sign_shift() & 1) != 0,
          !is_nan(code) && !is_infinite(code)};
}

/// The scale that the elements from place c on are multiplied by, up to the end of its block; one
/// where scales multiply the finished sum.
__device__ inline Parts block_scale(const Problem& p, const Factor& f, const KVectorAt& at,
                                    Index c) {
  if (p.form == ScaleForm::mx) {
    const int byte = static_cast<const std::uint8_t*>(f.scales.data)[scale_offset(p, f, at, c)];
    return {1, byte - 127, false, byte != 0xFF};
  }
  if (p.form != ScaleForm::blockwise) return {1, 0, false, true};
  const std::uint32_t word =
      static_cast<const std::uint32_t*>(f.scales.data)[scale_offset(p, f, at, c)];
  const int field = static_cast<int>(word >> 23 & 0xFF);
  return {(word & 0x7FFFFF) | (field > 0 ? 0x800000u : 0u), (field > 0 ? field : 1) - 150,
          word >> 31 != 0, field != 0xFF};
}

__device__ inline Parts scaled(const Parts& element, const Parts& scale) {
  return {element.significand * scale.significand, element.exponent + scale.exponent,
          element.negative != scale.negative, element.finite && scale.finite};
}

/// True if a scale that multiplies the finished sum is no finite number.
__device__ inline bool bad_row_scale(const Problem& p, const Factor& f, const KVectorAt& at) {
  if (p.form != ScaleForm::rowwise || at.length == 0) return false;
  return !isfinite(static_cast<const float*>(f.scales.data)[scale_offset(p, f, at, 0)]);
}

__device__ inline double sum_of_warp(double v) {
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  return v;
}

inline constexpr int kStep = 16;  ///< elements of a thread at a time; a block has a multiple

/// The values of 16 codes of eight bits.
template <typename Code>
__device__ void decode_codes(const uint4& codes, float (&x)[kStep]) {
  const std::uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
  for (int i = 0; i < kStep; i += 2) {
    const auto two = static_cast<std::uint16_t>(words[i / 4] >> i % 4 * 8);
    if constexpr (std::is_same_v<Code, E4M3> || std::is_same_v<Code, E5M2>) {
      std::uint32_t halves;  // exact in f16
      if constexpr (std::is_same_v<Code, E4M3>) {
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(two));
      } else {
        asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(two));
      }
      asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\ncvt.f32.f16 %0, a;\ncvt.f32.f16 %1, b;\n}"
          : "=f"(x[i]), "=f"(x[i + 1])
          : "r"(halves));
    } else {
      x[i] = decode(Code{static_cast<std::uint8_t>(two)});
      x[i + 1] = decode(Code{static_cast<std::uint8_t>(two >> 8)});
    }
  }
}

/// Sixteen codes from place c on; zeros beyond the K-vector.  K-vectors are padded to 16 elements.
template <typename Code>
__device__ void load_codes(const KVectorAt& at, Index c, std::uint32_t (&codes)[kStep]) {
  constexpr int kBytes = sizeof(Code);
  uint4 words[kBytes] = {};
  if (c < at.length) {
    const auto* from = reinterpret_cast<const uint4*>(at.codes + c * kBytes);
    for (int i = 0; i < kBytes; ++i) words[i] = from[i];
  }
  const std::uint32_t flat[8] = {words[0].x,          words[0].y,          words[0].z,
                                 words[0].w,          words[kBytes - 1].x, words[kBytes - 1].y,
                                 words[kBytes - 1].z, words[kBytes - 1].w};
#pragma unroll
  for (int i = 0; i < kStep; ++i) {
    codes[i] = kBytes == 1 ? flat[i / 4] >> i % 4 * 8 & 0xFF : flat[i / 2] >> i % 2 * 16 & 0xFFFF;
  }
}

}  // namespace mxo::cuda

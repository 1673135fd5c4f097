// Vectors of so many bytes, in the spelling that GCC and clang share.
#pragma once

#include <cstdint>

namespace mxo::cpu {

template <typename Number, int bytes>
struct Lanes {
  typedef Number Type __attribute__((vector_size(bytes)));
};

template <int bytes>
struct Vectors {
  static constexpr int kBytes = bytes;
  typedef std::uint8_t U8 __attribute__((vector_size(bytes)));
  typedef std::int32_t I32 __attribute__((vector_size(bytes)));
  typedef std::uint32_t U32 __attribute__((vector_size(bytes)));
  typedef float F32 __attribute__((vector_size(bytes)));
  typedef std::int64_t I64 __attribute__((vector_size(bytes)));
  typedef double F64 __attribute__((vector_size(bytes)));
  // As many lanes as F32 or, of half the bytes, as F64.
  typedef std::int16_t I16OfF32 __attribute__((vector_size(bytes / 2)));
  typedef std::int32_t I32OfF64 __attribute__((vector_size(bytes / 2)));
  typedef std::uint32_t U32OfF64 __attribute__((vector_size(bytes / 2)));
  typedef float F32OfF64 __attribute__((vector_size(bytes / 2)));
  typedef std::uint16_t U16OfF64 __attribute__((vector_size(bytes / 4)));
};

}  // namespace mxo::cpu

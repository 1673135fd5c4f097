// Loops over all floats; on x86 compiled for AVX2 and AVX-512 besides the machine
// that the build is for.
#pragma once

#include <cstdint>

#include "emu/cpu/isa.h"

namespace mxo::test {

template <typename Holds>
std::uint32_t count_plainly(std::int32_t n, Holds holds) {
  std::uint32_t count = 0;
  for (std::int32_t i = 0; i < n; ++i) count += holds(i) ? 1 : 0;
  return count;
}

template <typename Value>
void fill_plainly(float* out, std::int32_t n, Value value) {
  for (std::int32_t i = 0; i < n; ++i) out[i] = value(i);
}

#if defined(__x86_64__)
// In the registers of AVX-512 or AVX2: everything the argument calls is compiled anew here.  The
// source is the same and so are the bits: nothing is contracted, reassociated or approximated.
#define MXO_WIDE_LOOPS(set, features)                                                       \
  template <typename Holds>                                                                 \
  __attribute__((target(features), flatten))                                                \
  std::uint32_t count_in_##set(std::int32_t n, Holds holds) {                               \
    std::uint32_t count = 0;                                                                \
    _Pragma("omp simd reduction(+ : count)") for (std::int32_t i = 0; i < n; ++i) count +=  \
        holds(i) ? 1 : 0;                                                                   \
    return count;                                                                           \
  }                                                                                         \
  template <typename Value>                                                                 \
  __attribute__((target(features), flatten)) void fill_in_##set(float* out, std::int32_t n, \
                                                                Value value) {              \
    _Pragma("omp simd") for (std::int32_t i = 0; i < n; ++i) out[i] = value(i);             \
  }
MXO_WIDE_LOOPS(avx512, "avx512f,avx512bw,avx512vl,avx512dq,fma")
MXO_WIDE_LOOPS(avx2, "avx2,fma,bmi,bmi2,lzcnt")
#undef MXO_WIDE_LOOPS

/// The widest registers that this machine has for these loops.
inline cpu::Isa widest() {
  for (const cpu::Isa set : {cpu::Isa::avx512, cpu::Isa::avx2})
    if (cpu::machine_has(set)) return set;
  return cpu::Isa::scalar;
}
#endif

/// For how many i from 0 to n - 1 holds(i) is true.  `holds` copies what it reads, and is pure.
template <typename Holds>
std::uint32_t count(std::int32_t n, Holds holds) {
#if defined(__x86_64__)
  static const cpu::Isa set = widest();
  if (set == cpu::Isa::avx512) return count_in_avx512(n, holds);
  if (set == cpu::Isa::avx2) return count_in_avx2(n, holds);
#endif
  return count_plainly(n, holds);
}

/// out[i] = value(i), i from 0 to n - 1.  `value` copies what it reads, and is pure.
template <typename Value>
void fill(float* out, std::int32_t n, Value value) {
#if defined(__x86_64__)
  static const cpu::Isa set = widest();
  if (set == cpu::Isa::avx512) return fill_in_avx512(out, n, value);
  if (set == cpu::Isa::avx2) return fill_in_avx2(out, n, value);
#endif
  fill_plainly(out, n, value);
}

}  // namespace mxo::test

// Loops over all floats; on x86 compiled for AVX-512 besides the machine that the build is for.
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
/// count() in the registers of AVX-512: everything `holds` calls is compiled anew here.  The
/// source is the same and so are the bits: nothing is contracted, reassociated or approximated.
template <typename Holds>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma"), flatten)) std::uint32_t
count_in_avx512(std::int32_t n, Holds holds) {
  std::uint32_t count = 0;
#pragma omp simd reduction(+ : count)
  for (std::int32_t i = 0; i < n; ++i) count += holds(i) ? 1 : 0;
  return count;
}

/// fill(), likewise.
template <typename Value>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma"), flatten)) void fill_in_avx512(
    float* out, std::int32_t n, Value value) {
#pragma omp simd
  for (std::int32_t i = 0; i < n; ++i) out[i] = value(i);
}
#else
template <typename Holds>
std::uint32_t count_in_avx512(std::int32_t n, Holds holds) {
  return count_plainly(n, holds);
}

template <typename Value>
void fill_in_avx512(float* out, std::int32_t n, Value value) {
  fill_plainly(out, n, value);
}
#endif

/// For how many i from 0 to n - 1 holds(i) is true.  `holds` copies what it reads, and is pure.
template <typename Holds>
std::uint32_t count(std::int32_t n, Holds holds) {
  static const bool wide = cpu::machine_has(cpu::Isa::avx512);
  return wide ? count_in_avx512(n, holds) : count_plainly(n, holds);
}

/// out[i] = value(i), i from 0 to n - 1.  `value` copies what it reads, and is pure.
template <typename Value>
void fill(float* out, std::int32_t n, Value value) {
  static const bool wide = cpu::machine_has(cpu::Isa::avx512);
  wide ? fill_in_avx512(out, n, value) : fill_plainly(out, n, value);
}

}  // namespace mxo::test

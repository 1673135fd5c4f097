// 32 neighbouring lanes in the order in which unpacking words leaves both halves sorted.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq")
namespace mxo::cpu {

/// A row's lanes are loaded so that each 128 bits have four of the first half and four of the
/// second: unpacking words then leaves the lanes of either half in order.
inline __m256i spread(__m256i lanes) {
  return _mm256_permutevar8x32_epi32(lanes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
inline std::uint32_t in_order(std::uint32_t spread_lanes) {
  std::uint32_t lanes = 0;
  for (; spread_lanes != 0; spread_lanes &= spread_lanes - 1) {
    const int i = __builtin_ctz(spread_lanes);
    lanes |= 1u << (i % 8 < 4 ? i / 8 * 4 + i % 4 : 16 + i / 8 * 4 + i % 4);
  }
  return lanes;
}
inline __m512i in_order(__m512i words) {
  const __m512i first = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  return _mm512_permutexvar_epi64(first, words);
}

inline constexpr int kAhead = 16;  ///< rows to fetch early: they lie in as many pages

}  // namespace mxo::cpu
MXO_TARGET_END

// What is pending for a tile of sums, by AVX-512 and a little at a time, so that tile instructions
// can lie between: sums of slices recombined, residuals multiplied.
#pragma once

#include <immintrin.h>

#include "emu/cpu/gemm/engines/two_slices/two_slices.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::cpu {

static_assert(static_cast<long long>(kSpanRuns) * kRun * (32767LL * 32767 + 255 * 255) / 256 <
              0x7FFFFFFF);

[[gnu::always_inline]] inline void add_recombined_part(const PendingSums& pending, int part) {
  const int m = part / 2;
  const int n = part % 2 * 8;
  const auto words_of = [&](int slice) __attribute__((always_inline)) {
    const std::int32_t* row = (*pending.slices)[slice][m];
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + n));
  };
  // 256 high + mixed is (sum - low) / 256: with a span of integers of at most 2^15 - 1 it stays
  // below 2^31.  Recombined with low below 2^53.  Both exact.
  const __m256i upper = _mm256_add_epi32(_mm256_slli_epi32(words_of(0), 8), words_of(1));
  const __m512d sum = _mm512_fmadd_pd(_mm512_cvtepi32_pd(upper), _mm512_set1_pd(256.0),
                                      _mm512_cvtepi32_pd(words_of(2)));
  const __m512d scaled = _mm512_mul_pd(sum, _mm512_loadu_pd(pending.scale_b + n));
  double* to = pending.c + m * kMaxNr + n;
  _mm512_storeu_pd(
      to, _mm512_fmadd_pd(scaled, _mm512_set1_pd(pending.scale_a[m]), _mm512_loadu_pd(to)));
}

// Byte `at % 4` of 16 dwords of each slice, recombined to integers.
[[gnu::always_inline]] inline __m512i integers(__m512i high, __m512i low, unsigned at) {
  const unsigned bits = 8 * (at % 4);
  const __m128i up = _mm_cvtsi32_si128(static_cast<int>(24 - bits));
  const __m128i down = _mm_cvtsi32_si128(static_cast<int>(bits));
  const __m512i h = _mm512_srai_epi32(_mm512_sll_epi32(high, up), 24);
  const __m512i l = _mm512_and_si512(_mm512_srl_epi32(low, down), _mm512_set1_epi32(0xFF));
  return _mm512_add_epi32(_mm512_slli_epi32(h, 8), l);
}

[[gnu::always_inline]] inline void add_16(__m512d value, __m512i words, const double* scale,
                                          double* y) {
  for (int i = 0; i < 2; ++i) {
    const __m256i part =
        i == 0 ? _mm512_castsi512_si256(words) : _mm512_extracti64x4_epi64(words, 1);
    const __m512d x = _mm512_mul_pd(_mm512_cvtepi32_pd(part), _mm512_loadu_pd(scale + 8 * i));
    _mm512_storeu_pd(y + 8 * i, _mm512_fmadd_pd(value, x, _mm512_loadu_pd(y + 8 * i)));
  }
}

// Element `at` of 16 lanes of A, counted from a run on.
[[gnu::always_inline]] inline __m512i integers_of_a(const std::int8_t* a, unsigned at) {
  const __m512i lanes =
      _mm512_slli_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), 6);
  const std::int8_t* from =
      a + at / kRun * kRunBytes + at % kRun / kChunk * kTileBytes + at % kChunk / 4 * 4;
  const __m512i high = _mm512_i32gather_epi32(lanes, from + tile_of_a(0, 0), 1);
  const __m512i low = _mm512_i32gather_epi32(lanes, from + tile_of_a(1, 0), 1);
  return integers(high, low, at);
}

// Element `at` of a half of B likewise; chunks of one slice follow each other.
[[gnu::always_inline]] inline __m512i integers_of_b(const std::int8_t* b, unsigned at) {
  const std::int8_t* from = b + at / kRun * 2 * kRunBytes + at % kRun / 4 * 64;
  return integers(_mm512_loadu_si512(from + tile_of_b(0, 0, 0)),
                  _mm512_loadu_si512(from + tile_of_b(0, 1, 0)), at);
}

/// Residual `at` of A, or of B after those of A.
[[gnu::always_inline]] inline void add_residual(const PendingSums& pending, int at) {
  const auto count_a = static_cast<int>(pending.of_a.residuals.size());
  if (at < count_a) {
    const PendingResiduals& a = pending.of_a;
    const Residual& residual = a.residuals[static_cast<std::size_t>(at)];
    const unsigned place = residual.at - a.from;
    add_16(_mm512_set1_pd(residual.value), integers_of_b(a.integers, place),
           a.scales + place / kBlock * kMaxNr, pending.c + residual.lane * kMaxNr);
  } else {
    const PendingResiduals& b = pending.of_b;
    const Residual& residual = b.residuals[static_cast<std::size_t>(at - count_a)];
    const unsigned place = residual.at - b.from;
    add_16(_mm512_set1_pd(residual.value), integers_of_a(b.integers, place),
           b.scales + place / kBlock * kMaxMr, pending.d + residual.lane * kMaxMr);
  }
}

}  // namespace mxo::cpu
MXO_TARGET_END

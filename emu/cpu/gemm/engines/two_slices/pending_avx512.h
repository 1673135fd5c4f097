// What is done between tile instructions, by AVX-512 and a little at a time: the last tile's sums
// recombined, residuals multiplied.
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

// Element `at`, counted from a run on, of 16 lanes in tiles of B: of a half of B or of A's copy.
[[gnu::always_inline]] inline __m512i integers_at(const std::int8_t* runs, unsigned run_bytes,
                                                  unsigned at) {
  const std::int8_t* from = runs + at / kRun * run_bytes + at % kRun / 4 * 64;
  return integers(_mm512_loadu_si512(from + tile_of_a(0, 0)),
                  _mm512_loadu_si512(from + tile_of_a(1, 0)), at);
}
static_assert(tile_of_a(1, 0) == tile_of_b(0, 1, 0));

// A tile of A as one of B: dword i of lane n becomes dword n of row i.
[[gnu::always_inline]] inline void transpose_tile(const std::int8_t* a, std::int8_t* b) {
  __m512i x[16];
  __m512i y[16];
  for (int i = 0; i < 16; ++i) x[i] = _mm512_loadu_si512(a + 64 * i);
  for (int i = 0; i < 16; i += 2) {
    y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {  // x[i + k]: dword k of each quarter of rows i to i + 3
    x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
    x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
    x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
    x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i even = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88);
    const __m512i odd = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xDD);
    const __m512i even_8 = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0x88);
    const __m512i odd_8 = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0xDD);
    _mm512_storeu_si512(b + 64 * i, _mm512_shuffle_i32x4(even, even_8, 0x88));
    _mm512_storeu_si512(b + 64 * (i + 4), _mm512_shuffle_i32x4(odd, odd_8, 0x88));
    _mm512_storeu_si512(b + 64 * (i + 8), _mm512_shuffle_i32x4(even, even_8, 0xDD));
    _mm512_storeu_si512(b + 64 * (i + 12), _mm512_shuffle_i32x4(odd, odd_8, 0xDD));
  }
}

/// Residual `at` of A, or of B after those of A.
[[gnu::always_inline]] inline void add_residual(const PairResiduals& residuals, int at) {
  const auto count_a = static_cast<int>(residuals.of_a.residuals.size());
  if (at < count_a) {
    const PanelResiduals& a = residuals.of_a;
    const Residual& residual = a.residuals[static_cast<std::size_t>(at)];
    const unsigned place = residual.at - a.from;
    add_16(_mm512_set1_pd(residual.value), integers_at(a.integers, 2 * kRunBytes, place),
           a.scales + place / kBlock * kMaxNr, residuals.c + residual.lane * kMaxNr);
  } else {
    const PanelResiduals& b = residuals.of_b;
    const Residual& residual = b.residuals[static_cast<std::size_t>(at - count_a)];
    const unsigned place = residual.at - b.from;
    add_16(_mm512_set1_pd(residual.value), integers_at(b.integers, kRunBytes, place),
           b.scales + place / kBlock * kMaxMr, residuals.d + residual.lane * kMaxMr);
  }
}

}  // namespace mxo::cpu
MXO_TARGET_END

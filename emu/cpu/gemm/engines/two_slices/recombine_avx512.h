// Sums of slices recombined by AVX-512, eight at a time, so that tile instructions can lie between.
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
  const int column = pending.half * kTileLanes + n;
  const __m512d scaled = _mm512_mul_pd(sum, _mm512_loadu_pd(pending.scale_b + column));
  double* to = pending.c + m * kMaxNr + column;
  _mm512_storeu_pd(
      to, _mm512_fmadd_pd(scaled, _mm512_set1_pd(pending.scale_a[m]), _mm512_loadu_pd(to)));
}

}  // namespace mxo::cpu
MXO_TARGET_END

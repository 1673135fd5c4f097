// The rounding of rows by AVX-512.
#include <immintrin.h>

#include "emu/cpu/gemm/rounded_rows.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::cpu {
namespace {

__m512 converted(const std::int32_t* sums) { return _mm512_cvtepi32_ps(_mm512_load_si512(sums)); }

struct Rounded {
  __m512i bits;  // of the f32, the upper 16 of which are the bf16's
  __mmask16 open;
};

/// What leaving the rests out may have changed in 16 sums of a row, at most.
__m512 rests_of(int row, int first, const LineErrors& a, const LineErrors& b) {
  return _mm512_fmadd_ps(_mm512_load_ps(b.rests + first), _mm512_set1_ps(a.most),
                         _mm512_set1_ps(a.rests[row] * b.most));
}

/// Whether not all between c - error and c + error round to one bf16: whatever lies strictly
/// between two numbers that do so, ties up, does so, ties to even.
__mmask16 undecided(__m512 c, __m512 error) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i low = _mm512_add_epi32(_mm512_castps_si512(_mm512_sub_ps(c, error)), half);
  const __m512i high = _mm512_add_epi32(_mm512_castps_si512(_mm512_add_ps(c, error)), half);
  return _mm512_test_epi32_mask(_mm512_xor_si512(low, high),
                                _mm512_set1_epi32(static_cast<int>(0xFFFF0000u)));
}

/// To the nearest bf16, ties to even.
__m512i nearest(__m512i bits) {
  const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), last);
}

/// 16 sums of a row, in 256 units.
template <bool kRests>
Rounded round_16(const DigitSums& sums, int row, int first, const LineErrors& a,
                 const LineErrors& b) {
  const __m512 next = _mm512_set1_ps(256.0f);
  __m512 c = converted(sums[kDigitSums - 1][row]);
#pragma GCC unroll 3
  for (int i = kDigitSums - 2; i > 0; --i) c = _mm512_fmadd_ps(c, next, converted(sums[i][row]));
  __m512 error = _mm512_fmadd_ps(_mm512_abs_ps(c), _mm512_set1_ps(0x1.5p-22f),
                                 _mm512_set1_ps(a.lower[row] + b.most_lower));
  if (kRests) error = _mm512_add_ps(error, rests_of(row, first, a, b));
  return {nearest(_mm512_castps_si512(c)), undecided(c, error)};
}

/// 16 sums of a row.  A sum is 2^20 u + w, w of 20 bits, both exact in f32, so that fused steps
/// round it once: down and up.  Of the two the odd one rounds to bf16 as the sum itself does.
template <bool kRests>
Rounded round_16(const PlaneSums& sums, int row, int first, const LineErrors& a,
                 const LineErrors& b) {
  const __m512i low = _mm512_load_si512(sums[2][row]);
  const __m512i high = _mm512_slli_epi32(_mm512_load_si512(sums[0][row]), 8);
  const __m512i upper = _mm512_add_epi32(_mm512_add_epi32(high, _mm512_load_si512(sums[1][row])),
                                         _mm512_srli_epi32(low, 8));
  const __m512i middle = _mm512_and_si512(_mm512_slli_epi32(upper, 8), _mm512_set1_epi32(0xFFF00));
  constexpr int kOrAnd = 0xF8;  // x | (y & z)
  const __m512 w =
      _mm512_cvtepi32_ps(_mm512_ternarylogic_epi32(middle, low, _mm512_set1_epi32(0xFF), kOrAnd));
  const __m512 u = _mm512_cvtepi32_ps(_mm512_srai_epi32(upper, 12));
  const __m512 step = _mm512_set1_ps(0x1p20f);
  const __m512i down = _mm512_castps_si512(
      _mm512_fmadd_round_ps(u, step, w, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
  const __m512i up = _mm512_castps_si512(
      _mm512_fmadd_round_ps(u, step, w, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC));
  const __m512i odd =
      _mm512_mask_mov_epi32(up, _mm512_test_epi32_mask(down, _mm512_set1_epi32(1)), down);
  if (!kRests) return {nearest(odd), 0};
  const __m512 c = _mm512_castsi512_ps(odd);
  const __m512 rests = rests_of(row, first, a, b);
  const __mmask16 any = _mm512_cmp_ps_mask(rests, _mm512_setzero_ps(), _CMP_NEQ_UQ);
  const __m512 error =
      _mm512_maskz_fmadd_ps(any, _mm512_abs_ps(c), _mm512_set1_ps(0x1p-21f), rests);
  return {nearest(odd), undecided(c, error)};
}

constexpr int exponent_of_count(const DigitSums&) { return 8; }
constexpr int exponent_of_count(const PlaneSums&) { return 0; }

template <bool kRests, typename Sums>
void round_rows(int first, int past, const Sums* halves, const LineErrors& a, const LineErrors& b,
                RoundedRows& to) {
  const __m512i exponents =
      _mm512_add_epi16(_mm512_load_si512(b.exponent),
                       _mm512_set1_epi16(static_cast<short>(exponent_of_count(*halves) << 7)));
  for (int m = first; m < past; ++m) {
    const Rounded left = round_16<kRests>(halves[0], m, 0, a, b);
    const Rounded right = round_16<kRests>(halves[1], m, kTileLanes, a, b);
    // packus takes quarters of both in turn.
    const __m512i mixed =
        _mm512_packus_epi32(_mm512_srli_epi32(left.bits, 16), _mm512_srli_epi32(right.bits, 16));
    const __m512i words =
        _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), mixed);
    const std::uint32_t nonzero = (a.nonzero >> m & 1u) != 0 ? b.nonzero : 0u;
    const __m512i scaled = _mm512_maskz_add_epi16(
        nonzero & _mm512_test_epi16_mask(words, words), words,
        _mm512_add_epi16(exponents, _mm512_set1_epi16(static_cast<short>(a.exponent[m]))));
    to.open[m] = (static_cast<std::uint32_t>(left.open) | static_cast<std::uint32_t>(right.open)
                                                              << kTileLanes) &
                 nonzero;
    if (to.open[m] != 0 || to.out == nullptr) {
      _mm512_store_si512(to.left[m], scaled);
    } else if (to.streams) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to.out + m * to.step), scaled);
    } else {
      _mm512_storeu_si512(to.out + m * to.step, scaled);
    }
  }
}

template <typename Sums>
void round_rows(int first, int past, const Sums* halves, const LineErrors& a, const LineErrors& b,
                RoundedRows& to) {
  if (a.has_rests || b.has_rests) return round_rows<true>(first, past, halves, a, b, to);
  round_rows<false>(first, past, halves, a, b, to);
}

}  // namespace

void round_sums(int first, int past, const DigitSums* halves, const LineErrors& a,
                const LineErrors& b, RoundedRows& to) noexcept {
  round_rows(first, past, halves, a, b, to);
}
void round_sums(int first, int past, const PlaneSums* halves, const LineErrors& a,
                const LineErrors& b, RoundedRows& to) noexcept {
  round_rows(first, past, halves, a, b, to);
}

}  // namespace mxo::cpu
MXO_TARGET_END

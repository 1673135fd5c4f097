// The rounding of rows by AVX-512.  All is inlined into the loop over rows: a call would make its
// constants anew for each.
#include <immintrin.h>

#include "emu/cpu/gemm/rounded_rows.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::cpu {
namespace {

[[gnu::always_inline]] inline __m512 converted(const std::int32_t* sums) {
  return _mm512_cvtepi32_ps(_mm512_load_si512(sums));
}

struct Rounded {
  __m512i bits;  // of the f32, the upper 16 of which are the bf16's
  __mmask16 open;
};

/// Whether not all between c - error and c + error round to one bf16: whatever lies strictly
/// between two numbers that do so, ties up, does so, ties to even.
[[gnu::always_inline]] inline __mmask16 undecided(__m512 c, __m512 error) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i low = _mm512_add_epi32(_mm512_castps_si512(_mm512_sub_ps(c, error)), half);
  const __m512i high = _mm512_add_epi32(_mm512_castps_si512(_mm512_add_ps(c, error)), half);
  return _mm512_test_epi32_mask(_mm512_xor_si512(low, high),
                                _mm512_set1_epi32(static_cast<int>(0xFFFF0000u)));
}

/// To the nearest bf16, ties to even.
[[gnu::always_inline]] inline __m512i nearest(__m512i bits) {
  const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), last);
}

/// Columns [first, first + 16) of a pair of digits.
template <bool kRests>
struct Digits16 {
  static constexpr int kExponent = 8;  // sums are counted in 256 units
  const DigitSums& sums;
  int first;
  const RestSums* rests;
  const LineErrors& a;
  const LineErrors& b;

  [[gnu::always_inline]] inline Rounded round(int row) const {
    const __m512 next = _mm512_set1_ps(256.0f);
    __m512 c = converted(sums[kDigitSums - 1][row]);
#pragma GCC unroll 3
    for (int i = kDigitSums - 2; i > 0; --i) c = _mm512_fmadd_ps(c, next, converted(sums[i][row]));
    __m512 error = _mm512_fmadd_ps(_mm512_abs_ps(c), _mm512_set1_ps(0x1.5p-22f),
                                   _mm512_set1_ps(a.lower[row] + b.most_lower));
    if (kRests) {  // which are left out
      const __m512 of_a = _mm512_set1_ps(a.rests[row] * b.most);
      const __m512 of_b = _mm512_mul_ps(_mm512_load_ps(b.rests + first), _mm512_set1_ps(a.most));
      error = _mm512_add_ps(error, _mm512_add_ps(of_a, of_b));
    }
    return {nearest(_mm512_castps_si512(c)), undecided(c, error)};
  }
};

/// Columns [first, first + 16) of a pair of planes.
template <bool kRests>
struct Planes16 {
  static constexpr int kExponent = 0;
  const PlaneSums& sums;
  int first;
  const RestSums* rests;
  const LineErrors& a;
  const LineErrors& b;

  /// A sum is 2^20 u + w, w of 20 bits, both exact in f32, so that fused steps round it once: down
  /// and up.  The odd one of the two rounds to bf16 as the sum itself does.
  [[gnu::always_inline]] inline __m512i odd(int row) const {
    const __m512i low = _mm512_load_si512(sums[2][row]);
    const __m512i high = _mm512_slli_epi32(_mm512_load_si512(sums[0][row]), 8);
    const __m512i upper = _mm512_add_epi32(_mm512_add_epi32(high, _mm512_load_si512(sums[1][row])),
                                           _mm512_srli_epi32(low, 8));
    const __m512i middle =
        _mm512_and_si512(_mm512_slli_epi32(upper, 8), _mm512_set1_epi32(0xFFF00));
    constexpr int kOrAnd = 0xF8;  // x | (y & z)
    const __m512 w =
        _mm512_cvtepi32_ps(_mm512_ternarylogic_epi32(middle, low, _mm512_set1_epi32(0xFF), kOrAnd));
    const __m512 u = _mm512_cvtepi32_ps(_mm512_srai_epi32(upper, 12));
    const __m512 step = _mm512_set1_ps(0x1p20f);
    const __m512i down = _mm512_castps_si512(
        _mm512_fmadd_round_ps(u, step, w, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
    const __m512i up = _mm512_castps_si512(
        _mm512_fmadd_round_ps(u, step, w, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC));
    return _mm512_mask_mov_epi32(up, _mm512_test_epi32_mask(down, _mm512_set1_epi32(1)), down);
  }

  [[gnu::always_inline]] inline Rounded round(int row) const {
    if (!kRests) return {nearest(odd(row)), 0};
    __m512 c = _mm512_castsi512_ps(odd(row));
    std::uint32_t any = rests->columns >> first & 0xFFFFu;
    __m512 error = _mm512_mul_ps(_mm512_load_ps(b.rests + first), _mm512_set1_ps(a.most));
    for (std::uint32_t left = any; left != 0; left &= left - 1) {
      const float(&column)[kTileLanes] = rests->column[first + __builtin_ctz(left)];
      c = _mm512_mask_add_ps(c, static_cast<__mmask16>(left & -left), c,
                             _mm512_set1_ps(column[row]));
    }
    if ((rests->rows >> row & 1u) != 0) {
      any = 0xFFFF;
      error = _mm512_add_ps(error, _mm512_set1_ps(a.rests[row] * b.most));
      c = _mm512_add_ps(c, _mm512_load_ps(rests->row[row] + first));
    }
    error = _mm512_maskz_fmadd_ps(static_cast<__mmask16>(any), _mm512_abs_ps(c),
                                  _mm512_set1_ps(0x1p-21f), error);
    return {nearest(_mm512_castps_si512(c)), undecided(c, error)};
  }
};

template <typename Sixteen, typename Sums>
void round_rows(int first, int past, const Sums* halves, const RestSums* rests, const LineErrors& a,
                const LineErrors& b, RoundedRows& to) {
  const Sixteen low{halves[0], 0, rests, a, b};
  const Sixteen high{halves[1], kTileLanes, rests, a, b};
  const __m512i exponents =
      _mm512_add_epi16(_mm512_load_si512(b.exponent),
                       _mm512_set1_epi16(static_cast<short>(Sixteen::kExponent << 7)));
  for (int m = first; m < past; ++m) {
    const Rounded left = low.round(m);
    const Rounded right = high.round(m);
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

}  // namespace

void round_sums(int first, int past, const DigitSums* halves, const LineErrors& a,
                const LineErrors& b, RoundedRows& to) noexcept {
  if (a.has_rests || b.has_rests)
    return round_rows<Digits16<true>>(first, past, halves, nullptr, a, b, to);
  round_rows<Digits16<false>>(first, past, halves, nullptr, a, b, to);
}
void round_sums(int first, int past, const PlaneSums* halves, const RestSums* rests,
                const LineErrors& a, const LineErrors& b, RoundedRows& to) noexcept {
  if (rests != nullptr) return round_rows<Planes16<true>>(first, past, halves, rests, a, b, to);
  round_rows<Planes16<false>>(first, past, halves, rests, a, b, to);
}

}  // namespace mxo::cpu
MXO_TARGET_END

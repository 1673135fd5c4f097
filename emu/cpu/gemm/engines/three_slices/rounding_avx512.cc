// The rounding of rows of sums of digits by AVX-512.
#include "emu/cpu/gemm/tiles/rounded_row_avx512.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::cpu {
namespace {

constexpr int kCounted = 8;  // sums are counted in 2^8 units

/// Columns [first, first + 16) of a pair.
template <bool kRests>
struct Digits16 {
  const DigitSums& sums;
  int first;
  const LineErrors& a;
  const LineErrors& b;

  [[gnu::always_inline]] inline Ends round(int row) const {
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
    return ends_of(c, error);
  }
};

template <bool kRests>
void round_digits(int first, int past, const DigitSums* halves, const LineErrors& a,
                  const LineErrors& b, RoundedRows& to) {
  const Digits16<kRests> left{halves[0], 0, a, b};
  const Digits16<kRests> right{halves[1], kTileLanes, a, b};
  const auto round = [&](int m, std::uint32_t wanted) __attribute__((always_inline)) {
    return row_of(left.round(m), right.round(m), wanted);
  };
  round_rows(first, past, RowScale(kCounted, a, b), round, to);
}

}  // namespace

void round_sums(int first, int past, const DigitSums* halves, const LineErrors& a,
                const LineErrors& b, RoundedRows& to) noexcept {
  if ((a.with_rests | b.with_rests) != 0) return round_digits<true>(first, past, halves, a, b, to);
  round_digits<false>(first, past, halves, a, b, to);
}

}  // namespace mxo::cpu
MXO_TARGET_END

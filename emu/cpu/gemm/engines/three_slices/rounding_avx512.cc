// The rounding of rows of sums of three slices by AVX-512.
#include "emu/cpu/gemm/engines/three_slices/three_slices.h"
#include "emu/cpu/gemm/tiles/rounded_row_avx512.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::cpu {
namespace {

constexpr int kCounted = 8;  // sums are counted in 2^8 units

/// Columns [first, first + 16) of a pair.
template <bool kResiduals>
struct ThreeSlices16 {
  const ThreeSliceSums& sums;
  int first;
  const KVectorErrors& a;
  const KVectorErrors& b;

  [[gnu::always_inline]] inline Ends round(int row) const {
    const __m512 next = _mm512_set1_ps(256.0f);
    __m512 c = converted(sums[kSliceSums - 1][row]);
#pragma GCC unroll 3
    for (int i = kSliceSums - 2; i > 0; --i) c = _mm512_fmadd_ps(c, next, converted(sums[i][row]));
    __m512 error = _mm512_fmadd_ps(_mm512_abs_ps(c), _mm512_set1_ps(0x1.5p-22f),
                                   _mm512_set1_ps(a.lower[row] + b.max_lower));
    if (kResiduals) {  // which are left out
      const __m512 of_a = _mm512_set1_ps(a.residuals[row] * b.max_magnitude);
      const __m512 of_b =
          _mm512_mul_ps(_mm512_load_ps(b.residuals + first), _mm512_set1_ps(a.max_magnitude));
      error = _mm512_add_ps(error, _mm512_add_ps(of_a, of_b));
    }
    return ends_of(c, error);
  }
};

template <bool kResiduals>
void round_three_slices(int first, int end, const ThreeSliceSums* halves, const KVectorErrors& a,
                        const KVectorErrors& b, RoundedRows& to) {
  const ThreeSlices16<kResiduals> left{halves[0], 0, a, b};
  const ThreeSlices16<kResiduals> right{halves[1], kTileLanes, a, b};
  const auto round = [&](int m, std::uint32_t wanted) __attribute__((always_inline)) {
    return row_of(left.round(m), right.round(m), wanted);
  };
  round_rows(first, end, RowScale(kCounted, a, b), round, to);
}

}  // namespace

void avx512_round_three_slices(int first, int end, const ThreeSliceSums* halves,
                               const KVectorErrors& a, const KVectorErrors& b,
                               RoundedRows& to) noexcept {
  if ((a.with_residuals | b.with_residuals) != 0)
    return round_three_slices<true>(first, end, halves, a, b, to);
  round_three_slices<false>(first, end, halves, a, b, to);
}

}  // namespace mxo::cpu
MXO_TARGET_END

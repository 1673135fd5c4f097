// K-vectors to three slices by AVX-512, and rows of their sums rounded.
#include "emu/cpu/gemm/engines/three_slices/three_slices.h"
#include "emu/cpu/gemm/tiles/rounded_row_avx512.h"
#include "emu/exact/binary32_bounds.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::cpu {
namespace {

/// Adds 2^15 + 2^7 to 16 integers, so that the carries make the two low bytes signed, then gathers
/// equal bytes of each four integers in a dword.
__m512i grouped_bytes(__m512i integers) {
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  return _mm512_shuffle_epi8(_mm512_add_epi32(integers, _mm512_set1_epi32(0x8080)), order);
}

}  // namespace

void avx512_encode_three_slices(int chunks, const float* x, int exponent,
                                const ThreeSliceTarget& to, ThreeSliceTally& tally) noexcept {
  __m512 squares = _mm512_loadu_ps(tally.squares);
  const __m512 e = _mm512_set1_ps(static_cast<float>(exponent));
  for (int chunk = 0; chunk < chunks; ++chunk) {
    __m512i t[4];
    std::uint64_t residual = 0;
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const int at = chunk * kChunk + 16 * j;
      const __m512 value = _mm512_loadu_ps(x + at);
      const __m512 scaled = _mm512_scalef_ps(value, e);
      const __m512i integer = _mm512_cvttps_epi32(scaled);
      // Compare values, not scaled ones: a scaled residual may underflow in f32.
      const __m512 kept =
          _mm512_scalef_ps(_mm512_cvtepi32_ps(integer), _mm512_sub_ps(_mm512_setzero_ps(), e));
      residual |= static_cast<std::uint64_t>(_mm512_cmp_ps_mask(kept, value, _CMP_NEQ_UQ))
                  << (16 * j);
      squares = _mm512_fmadd_ps(scaled, scaled, squares);
      t[j] = grouped_bytes(integer);
    }
    tally.residual[chunk] = residual;
    const __m512i low = _mm512_unpacklo_epi32(t[0], t[1]);
    const __m512i high = _mm512_unpackhi_epi32(t[0], t[1]);
    const __m512i low2 = _mm512_unpacklo_epi32(t[2], t[3]);
    const __m512i high2 = _mm512_unpackhi_epi32(t[2], t[3]);
    const __m512i flip = _mm512_set1_epi8(-128);
    std::int8_t* out = to.first + chunk * to.chunk_step;
    _mm512_storeu_si512(out, _mm512_xor_si512(_mm512_unpacklo_epi64(low, low2), flip));
    _mm512_storeu_si512(out + to.slice_step,
                        _mm512_xor_si512(_mm512_unpackhi_epi64(low, low2), flip));
    _mm512_storeu_si512(out + 2 * to.slice_step, _mm512_unpacklo_epi64(high, high2));
  }
  _mm512_storeu_ps(tally.squares, squares);
}

namespace {

constexpr int kCounted = 8;  // sums are in multiples of 2^8 units

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
    __m512 error = _mm512_fmadd_ps(_mm512_abs_ps(c), _mm512_set1_ps(kOfThreeSlices),
                                   _mm512_set1_ps(a.lower[row] + b.max_lower));
    if (kResiduals) {  // not part of the sums
      const __m512 of_a = _mm512_set1_ps(a.residuals[row] * b.max_magnitude);
      const __m512 of_b =
          _mm512_mul_ps(_mm512_load_ps(b.residuals + first), _mm512_set1_ps(a.max_magnitude));
      error = _mm512_add_ps(error, _mm512_add_ps(of_a, of_b));
    }
    return ends_of(c, error);
  }
};

template <bool kResiduals>
void round_three_slices(int first, int end, const SlicePair<ThreeSlices>& pair, RoundedRows& to) {
  const KVectorErrors& a = pair.errors_of_a();
  const KVectorErrors& b = pair.errors_of_b();
  const ThreeSlices16<kResiduals> left{pair.half(0), 0, a, b};
  const ThreeSlices16<kResiduals> right{pair.half(1), kTileLanes, a, b};
  const auto round = [&](int m, std::uint32_t wanted) __attribute__((always_inline)) {
    return row_of(left.round(m), right.round(m), wanted);
  };
  round_rows(first, end, RowScale(kCounted, a, b), round, to);
}

}  // namespace

void ThreeSlices::round(int first, int end, const SlicePair<ThreeSlices>& pair,
                        RoundedRows& to) noexcept {
  if ((pair.errors_of_a().with_residuals | pair.errors_of_b().with_residuals) != 0) {
    return round_three_slices<true>(first, end, pair, to);
  }
  round_three_slices<false>(first, end, pair, to);
}

}  // namespace mxo::cpu
MXO_TARGET_END

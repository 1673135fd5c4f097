// Rounds rows of two-slice sums by AVX-512: to odd in f32, then to bf16.  Residuals are added only
// where their upper bound could change the result.
#include <bit>

#include "emu/cpu/gemm/engines/two_slices/two_slices.h"
#include "emu/cpu/gemm/tiles/rounded_row_avx512.h"
#include "emu/exact/binary32_bounds.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::cpu {
namespace {

/// Columns [16 * half, 16 * half + 16) of a pair.
struct TwoSlices16 {
  const TwoSliceSums& sums;
  const KVectorErrors& a;
  const KVectorErrors& b;
  __mmask16 columns;  // that have residuals
  __m512 of_columns;  // upper bound of what those add

  TwoSlices16(const SlicePair<TwoSlices>& pair, int half)
      : sums(pair.half(half)),
        a(pair.errors_of_a()),
        b(pair.errors_of_b()),
        columns(static_cast<__mmask16>(b.with_residuals >> half * kTileLanes)),
        of_columns(_mm512_mul_ps(_mm512_load_ps(b.residuals + half * kTileLanes),
                                 _mm512_set1_ps(a.max_magnitude))) {}

  /// A sum is 2^16 u + w, both exact in f32, so an fma rounds it once: down and up.  The one with
  /// an odd last bit (round to odd) rounds to bf16 as the sum itself does.
  template <bool kDeep>
  [[gnu::always_inline]] inline __m512i odd(int row) const {
    const __m512i mixed = _mm512_load_si512(sums[1][row]);
    const __m512i low = _mm512_load_si512(sums[2][row]);
    __m512i u = _mm512_add_epi32(_mm512_srai_epi32(mixed, 8), _mm512_load_si512(sums[0][row]));
    // Moves the lowest byte of each dword up by one; 0x80 gives zero.
    const __m512i one_up = _mm512_broadcast_i32x4(
        _mm_setr_epi32(static_cast<int>(0x80800080u), static_cast<int>(0x80800480u),
                       static_cast<int>(0x80800880u), static_cast<int>(0x80800C80u)));
    __m512i w = _mm512_shuffle_epi8(mixed, one_up);
    if (kDeep) {
      u = _mm512_add_epi32(u, _mm512_srli_epi32(low, 16));
      w = _mm512_add_epi32(w, _mm512_and_si512(low, _mm512_set1_epi32(0xFFFF)));
    } else {
      w = _mm512_add_epi32(w, low);
    }
    const __m512 high = _mm512_cvtepi32_ps(u);
    const __m512 below = _mm512_cvtepi32_ps(w);
    const __m512 step = _mm512_set1_ps(0x1p16f);
    const __m512i down = _mm512_castps_si512(
        _mm512_fmadd_round_ps(high, step, below, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
    const __m512i up = _mm512_castps_si512(
        _mm512_fmadd_round_ps(high, step, below, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC));
    return _mm512_mask_mov_epi32(up, _mm512_test_epi32_mask(down, _mm512_set1_epi32(1)), down);
  }

  /// Upper bound of what the residuals of a row and of the columns add, in units of both.
  [[gnu::always_inline]] inline __m512 max_of_residuals(int row) const {
    return _mm512_add_ps(of_columns, _mm512_set1_ps(a.residuals[row] * b.max_magnitude));
  }
};

/// To the nearest bf16, ties to even, in the upper half.
[[gnu::always_inline]] inline __m512i nearest(__m512i bits) {
  const __mmask16 last = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __m512i up = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF));
  return _mm512_mask_add_epi32(up, last, up, _mm512_set1_epi32(1));
}

/// An interval around c that covers its f32 rounding errors and another error below `error`.
[[gnu::always_inline]] inline Ends about(__m512 c, __m512 error) {
  return ends_of(c, _mm512_fmadd_ps(_mm512_abs_ps(c), _mm512_set1_ps(kOfOdd), error));
}

/// Sums of one row and half without their residuals, rounded; `near` marks those that residuals
/// may carry across a tie.
struct Rounded16 {
  __m512i bits;
  __mmask16 near;
};

template <bool kDeep, bool kResiduals>
[[gnu::always_inline]] inline Rounded16 round_16(const TwoSlices16& of, int row,
                                                 bool row_has_residuals) {
  const __m512i odd = of.odd<kDeep>(row);
  const __mmask16 any = row_has_residuals ? 0xFFFF : of.columns;
  if (!kResiduals || any == 0) return {nearest(odd), 0};
  const Ends ends = about(_mm512_castsi512_ps(odd), of.max_of_residuals(row));
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000u));
  return {nearest(odd),
          _mm512_mask_test_epi32_mask(any, _mm512_xor_si512(ends.low, ends.high), upper)};
}

/// Rounds the row again, with residuals added where `near` is set.
template <bool kDeep>
RoundedRow add_residuals(const SlicePair<TwoSlices>& pair, int row, std::uint32_t near) {
  alignas(64) float residuals[kMaxNr] = {};
  pair.sum_residuals(row, near, residuals);
  const auto half = [&](int i) {
    const TwoSlices16 of(pair, i);
    const __m512i odd = of.odd<kDeep>(row);
    const __m512 c =
        _mm512_add_ps(_mm512_castsi512_ps(odd), _mm512_load_ps(residuals + i * kTileLanes));
    const Ends ends = about(c, _mm512_mul_ps(of.max_of_residuals(row), _mm512_set1_ps(0x1p-14f)));
    const auto those = static_cast<__mmask16>(near >> i * kTileLanes);
    return Ends{_mm512_mask_mov_epi32(nearest(odd), those, ends.low),
                _mm512_mask_mov_epi32(nearest(odd), those, ends.high)};
  };
  return row_of(half(0), half(1), near);
}

template <bool kDeep, bool kResiduals>
void round_two_slices(int first, int end, const SlicePair<TwoSlices>& pair, RoundedRows& to) {
  const TwoSlices16 left(pair, 0);
  const TwoSlices16 right(pair, 1);
  const RowScale scale(0, left.a, left.b);
  const std::uint32_t rows = left.a.with_residuals;
  const auto round = [&](int m, std::uint32_t wanted) __attribute__((always_inline)) {
    const bool row_has_residuals = kResiduals && (rows >> m & 1u) != 0;
    const Rounded16 of_left = round_16<kDeep, kResiduals>(left, m, row_has_residuals);
    const Rounded16 of_right = round_16<kDeep, kResiduals>(right, m, row_has_residuals);
    const std::uint32_t near =
        kResiduals ? _mm512_kunpackw(of_right.near, of_left.near) & wanted : 0u;
    return RoundedRow{upper_halves(of_left.bits, of_right.bits), near};
  };
  round_rows(first, end, scale, round, to);
  if (!kResiduals) return;
  for (std::uint32_t near = to.rows_left; near != 0; near &= near - 1) {
    const int m = std::countr_zero(near);
    if (to.failed[m] == 0) continue;
    const RoundedRow row = add_residuals<kDeep>(pair, m, to.failed[m]);
    _mm512_store_si512(to.left[m], scale.scaled(m, row.words));
    to.failed[m] = row.failed;
  }
}

}  // namespace

void TwoSlices::round(int first, int end, const SlicePair<TwoSlices>& pair,
                      RoundedRows& to) noexcept {
  const bool deep = pair.k_extent() > 256;  // sums may exceed 2^24 in the lowest slice
  if ((pair.errors_of_a().with_residuals | pair.errors_of_b().with_residuals) != 0) {
    if (deep) return round_two_slices<true, true>(first, end, pair, to);
    return round_two_slices<false, true>(first, end, pair, to);
  }
  if (deep) return round_two_slices<true, false>(first, end, pair, to);
  round_two_slices<false, false>(first, end, pair, to);
}

}  // namespace mxo::cpu
MXO_TARGET_END

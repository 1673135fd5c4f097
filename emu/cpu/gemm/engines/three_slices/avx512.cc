// K-vectors to three slices by AVX-512, and their products without tiles.
#include <immintrin.h>

#include "emu/cpu/gemm/engines/three_slices/three_slices.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::cpu {
namespace {

/// 16 integers with 2^15 + 2^7 added, so that a byte's carry makes the byte below it signed; the
/// same bytes of each four gathered in a dword.
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
      // Compared as values: a residual may be too small for a float once it is scaled.
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

void avx512_add_three_slices(int chunks, const std::int8_t* a, const std::int8_t* b, bool more,
                             ThreeSliceSums& sums) noexcept {
  if (!more) {
    for (auto& sum : sums) {
      for (auto& row : sum) {
        for (std::int32_t& x : row) x = 0;
      }
    }
  }
  for (int i = 0; i < chunks * kSlices * kSlices; ++i) {
    const int of_a = i / kSlices % kSlices;
    const int of_b = i % kSlices;
    const std::int8_t* tile_a =
        a + i / (kSlices * kSlices) * kThreeSliceChunkBytes + of_a * kTileBytes;
    const std::int8_t* tile_b =
        b + i / (kSlices * kSlices) * kThreeSliceChunkBytes + of_b * kTileBytes;
    for (int m = 0; m < kTileLanes; ++m) {
      for (int c = 0; c < kChunk; ++c) {
        const int x = tile_a[m * kChunk + c];
        for (int n = 0; n < kTileLanes; ++n) {
          sums[of_a + of_b][m][n] += x * tile_b[c / 4 * kTileLanes * 4 + n * 4 + c % 4];
        }
      }
    }
  }
}

}  // namespace mxo::cpu
MXO_TARGET_END

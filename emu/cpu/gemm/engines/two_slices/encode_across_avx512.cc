// Integers by shifts, 32 lanes at a time.
#include <immintrin.h>

#include "emu/cpu/gemm/engines/two_slices/encode_across.h"
#include "emu/cpu/gemm/kernels/avx512.h"
#include "emu/cpu/gemm/pack/across_avx512.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq")
namespace mxo::cpu {
namespace {

/// The significand of a magnitude, 15 bits with the implicit one on top, is shifted down to the
/// unit.
class RowEncoder {
 public:
  explicit RowEncoder(const SliceTable& table)
      : mantissa_bits_(table.mantissa_bits),
        max_finite_(table.max_finite),
        nan_minus_0_(table.nan_minus_0) {}

  /// For blocks whose scales are 2^shift below the top.
  void set_shift(const std::uint8_t* shift) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(shift));
    count_ = _mm512_add_epi16(_mm512_cvtepu8_epi16(spread(bytes)),
                              _mm512_set1_epi16(static_cast<short>(max_finite_ >> mantissa_bits_)));
  }

  __m512i encode(__mmask32 lanes, const std::uint8_t* codes, std::uint32_t& residuals) {
    const __m512i code = _mm512_cvtepu8_epi16(spread(_mm256_maskz_loadu_epi8(lanes, codes)));
    const __m512i magnitude = _mm512_and_si512(code, _mm512_set1_epi16(0x7F));
    const __m512i sign = _mm512_set1_epi16(0x80);
    special_ |= nan_minus_0_ ? _mm512_cmpeq_epi16_mask(code, sign)
                             : _mm512_cmpgt_epi16_mask(
                                   magnitude, _mm512_set1_epi16(static_cast<short>(max_finite_)));
    const __m128i bits = _mm_cvtsi32_si128(mantissa_bits_);
    const __m512i exponent = _mm512_srl_epi16(magnitude, bits);
    const __m512i one = _mm512_set1_epi16(1);
    const __m512i implicit = _mm512_sll_epi16(one, bits);
    const __m512i mantissa = _mm512_and_si512(magnitude, _mm512_sub_epi16(implicit, one));
    const __mmask32 normal = _mm512_test_epi16_mask(exponent, exponent);
    const __m512i significand =
        _mm512_sll_epi16(_mm512_or_si512(mantissa, _mm512_maskz_mov_epi16(normal, implicit)),
                         _mm_cvtsi32_si128(14 - mantissa_bits_));
    const __m512i down = _mm512_sub_epi16(count_, _mm512_max_epu16(exponent, one));
    const __m512i integer = _mm512_srlv_epi16(significand, down);
    residuals = _mm512_cmpneq_epi16_mask(_mm512_sllv_epi16(integer, down), significand);
    min_magnitude_ = _mm512_min_epu16(min_magnitude_, _mm512_sub_epi16(magnitude, one));
    return _mm512_mask_sub_epi16(integer, _mm512_test_epi16_mask(code, sign),
                                 _mm512_setzero_si512(), integer);
  }

  bool any_special() const { return special_ != 0; }
  __m512i min_magnitude() const { return in_order(min_magnitude_); }

 private:
  int mantissa_bits_;
  int max_finite_;
  bool nan_minus_0_;
  __mmask32 special_ = 0;
  __m512i count_ = _mm512_setzero_si512();
  __m512i min_magnitude_ = _mm512_set1_epi16(-1);
};

/// Bytes 0 and 2, or 1 and 3, of the dwords of `first` and `second`, side by side.
__m512i merged_bytes(__m512i first, __m512i second, int byte) {
  const __m512i low = _mm512_broadcast_i32x4(
      _mm_setr_epi8(0, 2, -1, -1, 4, 6, -1, -1, 8, 10, -1, -1, 12, 14, -1, -1));
  const __m512i high = _mm512_broadcast_i32x4(
      _mm_setr_epi8(-1, -1, 0, 2, -1, -1, 4, 6, -1, -1, 8, 10, -1, -1, 12, 14));
  const __m512i at = _mm512_set1_epi8(static_cast<char>(byte));
  return _mm512_or_si512(_mm512_shuffle_epi8(first, _mm512_or_si512(low, at)),
                         _mm512_shuffle_epi8(second, _mm512_or_si512(high, at)));
}

__m512i squares_of(__m512i pairs) {
  return _mm512_add_epi32(_mm512_srli_epi32(_mm512_madd_epi16(pairs, pairs), 10),
                          _mm512_set1_epi32(1));
}

}  // namespace

void avx512_encode_across(const SliceTable& table, const RunAcross& run, std::int8_t* tiles,
                          AcrossTally& tally) noexcept {
  const auto lanes = static_cast<__mmask32>(0xFFFFFFFFu >> (kMaxNr - run.width));
  const int halves = run.width > kTileLanes ? 2 : 1;
  RowEncoder encoder(table);
  __m512i squares[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  std::uint32_t any_residuals = 0;
  for (int c = 0; c < run.count; c += 4) {
    if (c % kBlock == 0) encoder.set_shift(run.shift[c / kBlock]);
    __m512i v[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      __builtin_prefetch(run.codes + (c + i + kAhead) * run.step);
      v[i] = encoder.encode(lanes, run.codes + (c + i) * run.step, tally.residuals[c + i]);
      any_residuals |= tally.residuals[c + i];
    }
    for (int half = 0; half < halves; ++half) {
      const __m512i first =
          half == 0 ? _mm512_unpacklo_epi16(v[0], v[1]) : _mm512_unpackhi_epi16(v[0], v[1]);
      const __m512i second =
          half == 0 ? _mm512_unpacklo_epi16(v[2], v[3]) : _mm512_unpackhi_epi16(v[2], v[3]);
      squares[half] =
          _mm512_add_epi32(squares[half], _mm512_add_epi32(squares_of(first), squares_of(second)));
      std::int8_t* to = tiles + c / 4 * 4 * kTileLanes;
      _mm512_storeu_si512(to + tile_of_b(half, 0, 0), merged_bytes(first, second, 1));
      _mm512_storeu_si512(to + tile_of_b(half, 1, 0), merged_bytes(first, second, 0));
    }
  }
  for (int c = run.count; c % kChunk != 0; c += 4) {
    for (int i = 0; i < 2 * halves; ++i) {
      _mm512_storeu_si512(tiles + tile_of_b(i / 2, i % 2, 0) + c / 4 * 4 * kTileLanes,
                          _mm512_setzero_si512());
    }
  }
  _mm512_store_si512(tally.squares, squares[0]);
  _mm512_store_si512(tally.squares + kTileLanes, squares[1]);
  _mm512_store_si512(tally.min_magnitude, encoder.min_magnitude());
  tally.any_special = encoder.any_special();
  tally.any_residuals = any_residuals != 0;
  for (int c = 0; c < run.count && tally.any_residuals; ++c)
    tally.residuals[c] = in_order(tally.residuals[c]);
}

void avx512_transpose_to_a(int chunks, const std::int8_t* tiles, std::int8_t* run_a) noexcept {
  for (int slice = 0; slice < 2; ++slice) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      avx512_interleave(
          kTileLanes, kTileLanes,
          reinterpret_cast<const std::uint32_t*>(tiles + tile_of_b(0, slice, chunk)), kTileLanes,
          reinterpret_cast<std::uint32_t*>(run_a + tile_of_a(slice, chunk)), kTileLanes);
    }
  }
}

}  // namespace mxo::cpu
MXO_TARGET_END

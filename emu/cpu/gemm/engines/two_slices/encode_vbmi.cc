// Codes to two slices by table: VPERMB looks 64 magnitudes up in 64 entries at once, which is
// enough for those that are integers under the greatest scale of the span.
#include <immintrin.h>

#include "emu/cpu/gemm/engines/two_slices/two_slices.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")
namespace mxo::cpu {
namespace {

__m512i bytes(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }

/// A byte for each element of two blocks.
__m512i of_blocks(const std::uint8_t* lower, const std::uint8_t* upper) {
  const auto* low = reinterpret_cast<const __m256i*>(lower);
  const auto* high = reinterpret_cast<const __m256i*>(upper);
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_load_si256(low)), _mm256_load_si256(high),
                            1);
}

/// Table entries for bytes whose bit 6 is set, indexed by the six bits below it; 0 for others.
__m512i look_up_64(__m512i table, __m512i at) {
  const __mmask64 there = _mm512_movepi8_mask(_mm512_add_epi8(at, at));
  return _mm512_maskz_permutexvar_epi8(there, at, table);
}

__m512i look_up_128(const std::uint8_t* table, __m512i magnitude) {
  return _mm512_permutex2var_epi8(_mm512_load_si512(table), magnitude,
                                  _mm512_load_si512(table + 64));
}

/// Finds NaN and infinity codes: key(code) > limit.
struct SpecialKey {
  __m512i keep, flip;
  int limit;
  explicit SpecialKey(const SliceTable& table)
      : keep(bytes(table.nan_minus_0 ? 0xFF : 0x7F)),
        flip(bytes(table.nan_minus_0 ? 0x7F : 0)),
        limit(table.nan_minus_0 ? 0xFE : table.max_finite) {}
  __m512i of(__m512i code) const { return _mm512_xor_si512(_mm512_and_si512(code, keep), flip); }
};

}  // namespace

void vbmi_encode_slices(const SliceTable& table, int chunks, const std::uint8_t* codes,
                        const std::uint8_t* shift, const SliceTarget& to,
                        SliceTally& tally) noexcept {
  constexpr __mmask64 kUpperBlock = 0xFFFFFFFF00000000ull;
  const __m512i zero = _mm512_setzero_si512();
  const __m512i one = bytes(1);
  const __m512i highs = _mm512_loadu_si512(table.high);
  const __m512i lows = _mm512_loadu_si512(table.low);
  const __m512i low_offset = bytes(table.low_offset);
  const __m512i first_integer = bytes(table.shifted[0].residual_below - 1);
  const SpecialKey key(table);
  const SliceTarget target = to;  // a copy, which the stores cannot alias
  __m512i max_special = zero;
  __m512i squares = _mm512_load_si512(tally.squares);
  __m512i min_magnitude = _mm512_load_si512(tally.min_magnitude);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const __m512i code = _mm512_loadu_si512(codes + chunk * kChunk);
    max_special = _mm512_max_epu8(max_special, key.of(code));
    const __m512i magnitude = _mm512_and_si512(code, bytes(0x7F));
    const __m512i below = _mm512_sub_epi8(magnitude, one);  // 255 of a zero
    min_magnitude = _mm512_min_epu8(min_magnitude, below);
    const ShiftedSlices& lower = table.shifted[shift[2 * chunk]];
    const ShiftedSlices& upper = table.shifted[shift[2 * chunk + 1]];
    const __m512i lowered = of_blocks(lower.lowered, upper.lowered);
    const __m512i at = _mm512_subs_epu8(magnitude, lowered);
    __m512i high = look_up_64(highs, at);
    __m512i low = look_up_64(lows, _mm512_add_epi8(at, low_offset));
    const __mmask64 residual =
        _mm512_cmplt_epu8_mask(_mm512_subs_epu8(below, lowered), first_integer);
    tally.residual[chunk] = residual;
    if (residual != 0) [[unlikely]] {  // truncated integers have a high byte of 0
      low = _mm512_mask_mov_epi8(look_up_128(lower.low, magnitude), kUpperBlock,
                                 look_up_128(upper.low, magnitude));
    }
    const __m512i above = _mm512_add_epi8(high, one);
    squares = _mm512_dpbusd_epi32(squares, above, above);
    // -(256 h + l) = 256 (-h - 1) + (256 - l), and 256 (-h) where l is 0.
    const __mmask64 negative = _mm512_movepi8_mask(code);
    const __mmask64 borrows = _mm512_mask_test_epi8_mask(negative, low, low);
    low = _mm512_mask_sub_epi8(low, negative, zero, low);
    high = _mm512_mask_sub_epi8(high, negative, zero, high);
    high = _mm512_mask_sub_epi8(high, borrows, high, one);
    const int place = target.place(chunk);
    _mm512_storeu_si512(target.high + place, high);
    _mm512_storeu_si512(target.low + place, low);
  }
  _mm512_store_si512(tally.squares, squares);
  _mm512_store_si512(tally.min_magnitude, min_magnitude);
  tally.special = _mm512_cmpgt_epu8_mask(max_special, bytes(key.limit)) != 0;
}

}  // namespace mxo::cpu
MXO_TARGET_END

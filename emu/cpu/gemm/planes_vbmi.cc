// Codes to byte planes by table: VPERMI2B looks 64 magnitudes up in 128 entries at once.
#include <immintrin.h>

#include "emu/cpu/gemm/planes.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")
namespace mxo::cpu {
namespace {

constexpr __mmask64 kUpperBlock = 0xFFFFFFFF00000000ull;

__m512i look_up(const std::uint8_t* table, __m512i magnitude) {
  return _mm512_permutex2var_epi8(_mm512_load_si512(table), magnitude,
                                  _mm512_load_si512(table + 64));
}

}  // namespace

void vbmi_encode_planes(const PlaneTable& table, int chunks, const std::uint8_t* codes,
                        const std::uint8_t* shift, const PlaneTarget& to,
                        LineTally& tally) noexcept {
  const __m512i zero = _mm512_setzero_si512();
  const __m512i one = _mm512_set1_epi8(1);
  __m512i squares = _mm512_load_si512(tally.squares);
  __m512i least = _mm512_load_si512(tally.least);
  __mmask64 special = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const __m512i code = _mm512_loadu_si512(codes + chunk * kChunk);
    const __m512i magnitude = _mm512_and_si512(code, _mm512_set1_epi8(0x7F));
    const __mmask64 negative = _mm512_movepi8_mask(code);
    if (table.nan_minus_0) {
      special |= _mm512_cmpeq_epi8_mask(code, _mm512_set1_epi8(-0x80));
    } else {
      special |=
          _mm512_cmpgt_epu8_mask(magnitude, _mm512_set1_epi8(static_cast<char>(table.most_finite)));
    }
    const ShiftedPlanes& lower = table.shifted[shift[2 * chunk]];
    const ShiftedPlanes& upper = table.shifted[shift[2 * chunk + 1]];
    __m512i high = look_up(lower.high, magnitude);
    __m512i low = look_up(lower.low, magnitude);
    __m512i square = look_up(lower.square, magnitude);
    __m512i rest_below = _mm512_set1_epi8(static_cast<char>(lower.rest_below));
    if (&upper != &lower) {
      high = _mm512_mask_mov_epi8(high, kUpperBlock, look_up(upper.high, magnitude));
      low = _mm512_mask_mov_epi8(low, kUpperBlock, look_up(upper.low, magnitude));
      square = _mm512_mask_mov_epi8(square, kUpperBlock, look_up(upper.square, magnitude));
      rest_below =
          _mm512_mask_set1_epi8(rest_below, kUpperBlock, static_cast<char>(upper.rest_below));
    }
    // -(256 h + l) = 256 (-h - 1) + (256 - l), and 256 (-h) where l is 0.
    const __mmask64 borrows = _mm512_mask_test_epi8_mask(negative, low, low);
    low = _mm512_mask_sub_epi8(low, negative, zero, low);
    high = _mm512_mask_sub_epi8(high, negative, zero, high);
    high = _mm512_mask_sub_epi8(high, borrows, high, one);
    _mm512_storeu_si512(to.high + to.place(chunk), high);
    _mm512_storeu_si512(to.low + to.place(chunk), low);
    squares = _mm512_add_epi64(squares, _mm512_sad_epu8(square, zero));
    least = _mm512_min_epu8(least, _mm512_sub_epi8(magnitude, one));
    tally.rest[chunk] = _mm512_mask_cmplt_epu8_mask(_mm512_test_epi8_mask(magnitude, magnitude),
                                                    magnitude, rest_below);
  }
  _mm512_store_si512(tally.squares, squares);
  _mm512_store_si512(tally.least, least);
  tally.special = special != 0;
}

}  // namespace mxo::cpu
MXO_TARGET_END

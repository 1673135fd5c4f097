// Codes to bf16 by AVX-512, and their sums rounded.
#include <immintrin.h>

#include <cstring>

#include "emu/cpu/gemm/engines/bf16/rounding_avx512.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::cpu {
namespace {

// A row is loaded so that each 128-bit lane holds four words of the first half and four of the
// second: unpacking words then leaves both halves in order.
__m256i spread(__m256i lanes) {
  return _mm256_permutevar8x32_epi32(lanes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
std::uint32_t in_order(std::uint32_t spread_lanes) {
  std::uint32_t lanes = 0;
  for (; spread_lanes != 0; spread_lanes &= spread_lanes - 1) {
    const int i = __builtin_ctz(spread_lanes);
    lanes |= 1u << (i % 8 < 4 ? i / 8 * 4 + i % 4 : 16 + i / 8 * 4 + i % 4);
  }
  return lanes;
}
__m512i in_order(__m512i words) {
  const __m512i first = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  return _mm512_permutexvar_epi64(first, words);
}

constexpr int kAhead = 16;  // rows to prefetch; each lies in a page of its own

/// Looks up 32 magnitudes in a table of 128 words.
struct WordTable {
  __m512i words[4];
  explicit WordTable(const Bf16Table& table) {
    for (int i = 0; i < 4; ++i) words[i] = _mm512_load_si512(table.words + 32 * i);
  }
  [[gnu::always_inline]] inline __m512i operator[](__m512i magnitudes) const {
    const __m512i lower = _mm512_permutex2var_epi16(words[0], magnitudes, words[1]);
    const __m512i upper = _mm512_permutex2var_epi16(words[2], magnitudes, words[3]);
    const __mmask32 in_upper = _mm512_test_epi16_mask(magnitudes, _mm512_set1_epi16(0x40));
    return _mm512_mask_mov_epi16(lower, in_upper, upper);
  }
};

__m512 squares_on(__m512 sum, __m512i words) {
  return _mm512_fmadd_ps(_mm512_castsi512_ps(words), _mm512_castsi512_ps(words), sum);
}

/// To the nearest bf16, ties to even, in the upper half.
__m512i nearest(__m512i bits) {
  const __mmask16 last = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __m512i up = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF));
  return _mm512_mask_add_epi32(up, last, up, _mm512_set1_epi32(1));
}

}  // namespace

void avx512_round_bf16(int first, int end, int blocks, const BlockSums* sums,
                       const KVectorErrors& a, const KVectorErrors& b, RoundedRows& to) noexcept {
  const auto words = [](__m512 left, __m512 right) {
    return upper_halves(nearest(_mm512_castps_si512(left)), nearest(_mm512_castps_si512(right)));
  };
  const BlockRows rows(blocks, sums, a, b);
  RowPutter putter(to);
  for (int m = first; m < end; ++m) {
    const BlockRows::Row row = rows.row(m);
    rows.put(m, words(row.left.low, row.right.low), words(row.left.high, row.right.high), putter);
  }
  to.rows_left = putter.rows_left();
}

void avx512_encode_bf16(const Bf16Table& table, const std::uint8_t* codes, Index step, int width,
                        int halves, int blocks, const std::uint8_t (*shift)[kMaxNr],
                        std::uint16_t* tiles, Bf16Tally& tally) noexcept {
  const auto lanes = static_cast<__mmask32>(0xFFFFFFFFu >> (kMaxNr - width));
  const WordTable words(table);
  const __m512i zero = _mm512_setzero_si512();
  const __m512i sign = _mm512_set1_epi16(0x80);
  const __m512i max_magnitude = _mm512_set1_epi16(static_cast<short>(table.max_finite));
  __m512i min_magnitude = _mm512_set1_epi16(-1);
  __m512 all[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  __m512 max_squares[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  __mmask32 specials = 0;
  for (int block = 0; block < blocks; ++block) {
    const auto* shifts = reinterpret_cast<const __m256i*>(shift[block]);
    const __m512i down =
        _mm512_slli_epi16(_mm512_cvtepu8_epi16(spread(_mm256_loadu_si256(shifts))), 7);
    __m512 squares[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (int c = 0; c < kBlock; c += 2) {
      __m512i v[2];
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i, codes += step) {
        __builtin_prefetch(codes + kAhead * step);
        const __m512i code = _mm512_cvtepu8_epi16(spread(_mm256_maskz_loadu_epi8(lanes, codes)));
        const __m512i magnitude = _mm512_and_si512(code, _mm512_set1_epi16(0x7F));
        specials |= table.nan_minus_0 ? _mm512_cmpeq_epi16_mask(code, sign)
                                      : _mm512_cmpgt_epi16_mask(magnitude, max_magnitude);
        const __m512i word = words[magnitude];
        const __m512i lower =
            _mm512_mask_sub_epi16(word, _mm512_test_epi16_mask(word, word), word, down);
        min_magnitude =
            _mm512_min_epu16(min_magnitude, _mm512_sub_epi16(lower, _mm512_set1_epi16(1)));
        squares[0] = squares_on(squares[0], _mm512_unpacklo_epi16(zero, lower));
        squares[1] = squares_on(squares[1], _mm512_unpackhi_epi16(zero, lower));
        v[i] = _mm512_or_si512(lower, _mm512_slli_epi16(_mm512_and_si512(code, sign), 8));
      }
      std::uint16_t* to = tiles + c * kTileLanes;
      _mm512_storeu_si512(to, _mm512_unpacklo_epi16(v[0], v[1]));
      if (halves > 1) {
        _mm512_storeu_si512(to + kTileWords, _mm512_unpackhi_epi16(v[0], v[1]));
      }
    }
    tiles += halves * kTileWords;
    for (int half = 0; half < halves; ++half) {
      all[half] = _mm512_add_ps(all[half], squares[half]);
      max_squares[half] = _mm512_max_ps(max_squares[half], squares[half]);
    }
  }
  _mm512_store_si512(tally.min_magnitude, in_order(min_magnitude));
  for (int half = 0; half < halves; ++half) {
    _mm512_store_ps(tally.squares + half * kTileLanes, all[half]);
    _mm512_store_ps(tally.max_squares + half * kTileLanes, max_squares[half]);
  }
  tally.specials |= in_order(std::uint32_t{specials});
}

void avx512_count_small(int tiles, Index step, const std::uint16_t* from,
                        const std::uint16_t* words, std::uint16_t* counts) noexcept {
  const __m512i below =
      _mm512_cvtepu16_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(words)));
  const __m512i one = _mm512_set1_epi16(1);
  // Compares magnitude - 1 with bound - 1, so that zeros wrap around to the maximum and are not
  // counted.  A bound of 0 wraps, too, and is masked off.
  const __m512i bounds =
      _mm512_sub_epi16(_mm512_or_si512(below, _mm512_slli_epi32(below, 16)), one);
  const __mmask32 any = _mm512_cmpneq_epi16_mask(bounds, _mm512_set1_epi16(-1));
  __m512i sums = _mm512_setzero_si512();
  for (int tile = 0; tile < tiles; ++tile, from += step) {
    for (int pair = 0; pair < kPairs; ++pair) {
      const __m512i word = _mm512_loadu_si512(from + pair * 2 * kTileLanes);
      const __m512i magnitude = _mm512_and_si512(word, _mm512_set1_epi16(0x7FFF));
      const __mmask32 small =
          _mm512_mask_cmplt_epu16_mask(any, _mm512_sub_epi16(magnitude, one), bounds);
      sums = _mm512_mask_add_epi16(sums, small, sums, one);
    }
  }
  const __m512i both = _mm512_add_epi32(_mm512_and_si512(sums, _mm512_set1_epi32(0xFFFF)),
                                        _mm512_srli_epi32(sums, 16));
  _mm256_store_si256(reinterpret_cast<__m256i*>(counts), _mm512_cvtepi32_epi16(both));
}

namespace {

/// f64 sums of 16 dword lanes, each a pair of neighbouring bf16 words.
struct LaneSums {
  __m512d low;
  __m512d high;

  LaneSums() : low(_mm512_setzero_pd()), high(low) {}
  [[gnu::always_inline]] inline void add(__m512i x, __m512i y) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000u));
    add_products(_mm512_slli_epi32(x, 16), _mm512_slli_epi32(y, 16));
    add_products(_mm512_and_si512(x, upper), _mm512_and_si512(y, upper));
  }

 private:
  [[gnu::always_inline]] inline void add_products(__m512i x, __m512i y) {
    const __m512 products = _mm512_mul_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(y));
    low = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(products)));
    high = _mm512_add_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(products, 1)));
  }
};

}  // namespace

double avx512_sum_f64_of(int blocks, const std::uint16_t* a, const std::uint16_t* b) noexcept {
  LaneSums sums;
  for (int i = 0; i < blocks; ++i, a += kTileWords, b += 2 * kTileWords) {
    // Four neighbours per step: a gather of sixteen is slower on some processors.
    const auto pair = [b](int at) { return _mm_loadu_si32(b + at * 2 * kTileLanes); };
    const auto four = [&pair](int at) {
      return _mm_unpacklo_epi64(_mm_unpacklo_epi32(pair(at), pair(at + 1)),
                                _mm_unpacklo_epi32(pair(at + 2), pair(at + 3)));
    };
    const auto eight = [&four](int at) {
      return _mm256_inserti128_si256(_mm256_castsi128_si256(four(at)), four(at + 4), 1);
    };
    const __m512i x = _mm512_loadu_si512(a);
    const __m512i y = _mm512_inserti64x4(_mm512_castsi256_si512(eight(0)), eight(8), 1);
    sums.add(x, y);
  }
  return _mm512_reduce_add_pd(_mm512_add_pd(sums.low, sums.high));
}

}  // namespace mxo::cpu
MXO_TARGET_END

// Digits of lines and the rounding of their sums, by AVX-512.
#include <immintrin.h>

#include "emu/cpu/gemm/avx512.h"
#include "emu/cpu/gemm/digits.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::cpu {
namespace {

constexpr int kNotFinite = 0x99;  // of fpclass: both NaNs, both infinities

/// 16 integers with 2^15 + 2^7 added, so that a byte's carry makes the digit below it signed; the
/// same bytes of each four gathered in a dword.
__m512i grouped_bytes(__m512i integers) {
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  return _mm512_shuffle_epi8(_mm512_add_epi32(integers, _mm512_set1_epi32(0x8080)), order);
}

}  // namespace

void encode_digits(int chunks, const float* x, const float* exponent, const DigitTarget& to,
                   DigitTally& tally) noexcept {
  __m512 squares = _mm512_loadu_ps(tally.squares);
  __mmask16 special = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    __m512i t[4];
    std::uint64_t rest = 0;
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const int at = chunk * kChunk + 16 * j;
      const __m512 value = _mm512_loadu_ps(x + at);
      const __m512 e = _mm512_set1_ps(exponent[at / kBlock]);
      const __m512 scaled = _mm512_scalef_ps(value, e);
      const __m512i integer = _mm512_cvttps_epi32(scaled);
      // Compared as values: a rest may be too small for a float once it is scaled.
      const __m512 kept =
          _mm512_scalef_ps(_mm512_cvtepi32_ps(integer), _mm512_sub_ps(_mm512_setzero_ps(), e));
      rest |= static_cast<std::uint64_t>(_mm512_cmp_ps_mask(kept, value, _CMP_NEQ_UQ)) << (16 * j);
      squares = _mm512_fmadd_ps(scaled, scaled, squares);
      special = static_cast<__mmask16>(special | _mm512_fpclass_ps_mask(value, kNotFinite));
      t[j] = grouped_bytes(integer);
    }
    tally.rest[chunk] = rest;
    const __m512i low = _mm512_unpacklo_epi32(t[0], t[1]);
    const __m512i high = _mm512_unpackhi_epi32(t[0], t[1]);
    const __m512i low2 = _mm512_unpacklo_epi32(t[2], t[3]);
    const __m512i high2 = _mm512_unpackhi_epi32(t[2], t[3]);
    const __m512i flip = _mm512_set1_epi8(-128);
    std::int8_t* out = to.first + chunk * to.chunk_step;
    _mm512_storeu_si512(out, _mm512_xor_si512(_mm512_unpacklo_epi64(low, low2), flip));
    _mm512_storeu_si512(out + to.plane_step,
                        _mm512_xor_si512(_mm512_unpackhi_epi64(low, low2), flip));
    _mm512_storeu_si512(out + 2 * to.plane_step, _mm512_unpacklo_epi64(high, high2));
  }
  _mm512_storeu_ps(tally.squares, squares);
  tally.special = tally.special || special != 0;
}

void turn_digits(int plane, int chunks, const std::int8_t* lines, std::int8_t* run_b,
                 std::int64_t half_step) noexcept {
  for (int half = 0; half < kMaxLanesB / kTileLanes; ++half) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const std::int8_t* from = lines + half * kTileLanes * kRun + chunk * kChunk;
      std::int8_t* out = run_b + half * half_step + chunk * kDigitChunkBytes + plane * kTileBytes;
      avx512_interleave(kTileLanes, kChunk / 4, reinterpret_cast<const std::uint32_t*>(from),
                        kRun / 4, reinterpret_cast<std::uint32_t*>(out), kTileLanes);
    }
  }
}

namespace {

struct Rounded {
  __m512i bits;  // of the f32, the upper 16 of which are the bf16's
  __mmask16 open;
};

/// 16 sums of a row.  Whatever lies strictly between two numbers that round to one bf16, ties up,
/// rounds to it as well, ties to even.
template <bool kRests>
Rounded round_16(const DigitSums& sums, int row, int first, __m512 lower, const DigitLines& a,
                 const DigitLines& b) {
  const auto sum = [&](int i) { return _mm512_cvtepi32_ps(_mm512_load_si512(sums[i][row])); };
  const __m512 next = _mm512_set1_ps(256.0f);
  __m512 c = sum(kDigitSums - 1);
#pragma GCC unroll 3
  for (int i = kDigitSums - 2; i > 0; --i) c = _mm512_fmadd_ps(c, next, sum(i));
  __m512 error = _mm512_fmadd_ps(_mm512_abs_ps(c), _mm512_set1_ps(0x1.5p-22f), lower);
  if (kRests) {
    error = _mm512_fmadd_ps(_mm512_set1_ps(a.rests[row]), _mm512_load_ps(b.norm + first), error);
    error = _mm512_fmadd_ps(_mm512_set1_ps(a.norm[row]), _mm512_load_ps(b.rests + first), error);
  }
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i low = _mm512_add_epi32(_mm512_castps_si512(_mm512_sub_ps(c, error)), half);
  const __m512i high = _mm512_add_epi32(_mm512_castps_si512(_mm512_add_ps(c, error)), half);
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000u));
  return {low, _mm512_test_epi32_mask(_mm512_xor_si512(low, high), upper)};
}

template <bool kRests>
void round_rows(int first, int past, const DigitSums* halves, const DigitLines& a,
                const DigitLines& b, DigitRounding& to) {
  const __m512i exponents = _mm512_add_epi16(_mm512_load_si512(b.exponent),
                                             _mm512_set1_epi16(8 << 7));  // 256 units
  for (int m = first; m < past; ++m) {
    const __m512 lower = _mm512_set1_ps(a.lower[m] + b.most_lower);
    const Rounded left = round_16<kRests>(halves[0], m, 0, lower, a, b);
    const Rounded right = round_16<kRests>(halves[1], m, kTileLanes, lower, a, b);
    // packus takes quarters of both in turn.
    const __m512i mixed =
        _mm512_packus_epi32(_mm512_srli_epi32(left.bits, 16), _mm512_srli_epi32(right.bits, 16));
    const __m512i words =
        _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), mixed);
    const std::uint32_t nonzero = (a.nonzero >> m & 1u) != 0 ? b.nonzero : 0u;
    const __m512i scaled = _mm512_maskz_add_epi16(
        nonzero, words,
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

void round_digits(int first, int past, const DigitSums* halves, const DigitLines& a,
                  const DigitLines& b, DigitRounding& to) noexcept {
  if (a.has_rests || b.has_rests) return round_rows<true>(first, past, halves, a, b, to);
  round_rows<false>(first, past, halves, a, b, to);
}

void portable_add_digits(int chunks, const std::int8_t* a, const std::int8_t* b, bool more,
                         DigitSums& sums) noexcept {
  if (!more) {
    for (auto& sum : sums) {
      for (auto& row : sum) {
        for (std::int32_t& x : row) x = 0;
      }
    }
  }
  for (int i = 0; i < chunks * kDigits * kDigits; ++i) {
    const int of_a = i / kDigits % kDigits;
    const int of_b = i % kDigits;
    const std::int8_t* tile_a = a + i / (kDigits * kDigits) * kDigitChunkBytes + of_a * kTileBytes;
    const std::int8_t* tile_b = b + i / (kDigits * kDigits) * kDigitChunkBytes + of_b * kTileBytes;
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

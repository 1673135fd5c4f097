// Two slices by AVX-512: splitting, recombining, and the products of residuals.
#include <immintrin.h>

#include "emu/cpu/gemm/engines/two_slices/recombine_avx512.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::cpu {
namespace {

// 64 int16 to 64 high and 64 low bytes.
void split_64(const std::uint32_t* pairs, std::int8_t* high, std::int8_t* low) {
  for (int i = 0; i < 2; ++i) {
    const __m512i x = _mm512_loadu_si512(pairs + 16 * i);
    const __m256i h = _mm512_cvtepi16_epi8(_mm512_srli_epi16(x, 8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(high + 32 * i), h);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(low + 32 * i), _mm512_cvtepi16_epi8(x));
  }
}

}  // namespace

void avx512_split_pairs(const std::uint32_t* pairs, const SliceTarget& to) noexcept {
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    split_64(pairs + chunk * kChunk / 2, to.high + chunk * to.step, to.low + chunk * to.step);
  }
}

void avx512_add_recombined(const PendingSums& pending, int first) noexcept {
  for (int part = first; part < kPendingParts; ++part) add_recombined_part(pending, part);
}

void avx512_slices_of_block(const std::int8_t* a, const ChunkRange& range,
                            std::int8_t (&tiles)[2][kTileBytes]) noexcept {
  const __mmask64 keep = range.blocks == ChunkRange::lower ? 0xFFFFFFFFull : 0xFFFFFFFFull << 32;
  for (int slice = 0; slice < 2; ++slice) {
    for (int i = 0; i < kTileBytes; i += 64) {
      _mm512_storeu_si512(tiles[slice] + i,
                          _mm512_maskz_loadu_epi8(keep, a + tile_of_a(slice, range.first) + i));
    }
  }
}

namespace {

// Byte `at % 4` of 16 dwords of each slice, recombined to integers.
__m512i integers(__m512i high, __m512i low, unsigned at) {
  const unsigned bits = 8 * (at % 4);
  const __m128i up = _mm_cvtsi32_si128(static_cast<int>(24 - bits));
  const __m128i down = _mm_cvtsi32_si128(static_cast<int>(bits));
  const __m512i h = _mm512_srai_epi32(_mm512_sll_epi32(high, up), 24);
  const __m512i l = _mm512_and_si512(_mm512_srl_epi32(low, down), _mm512_set1_epi32(0xFF));
  return _mm512_add_epi32(_mm512_slli_epi32(h, 8), l);
}

void add_16(__m512d value, __m512i words, const double* scale, double* y) {
  for (int i = 0; i < 2; ++i) {
    const __m256i part =
        i == 0 ? _mm512_castsi512_si256(words) : _mm512_extracti64x4_epi64(words, 1);
    const __m512d x = _mm512_mul_pd(_mm512_cvtepi32_pd(part), _mm512_loadu_pd(scale + 8 * i));
    _mm512_storeu_pd(y + 8 * i, _mm512_fmadd_pd(value, x, _mm512_loadu_pd(y + 8 * i)));
  }
}

// Element `at` of 16 lanes of A, counted from a run on.
__m512i integers_of_a(const std::int8_t* a, unsigned at) {
  const __m512i lanes =
      _mm512_slli_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), 6);
  const std::int8_t* from =
      a + at / kRun * kRunBytes + at % kRun / kChunk * kTileBytes + at % kChunk / 4 * 4;
  const __m512i high = _mm512_i32gather_epi32(lanes, from + tile_of_a(0, 0), 1);
  const __m512i low = _mm512_i32gather_epi32(lanes, from + tile_of_a(1, 0), 1);
  return integers(high, low, at);
}

// Element `at` of a half of B likewise; chunks of one slice follow each other.
__m512i integers_of_b(const std::int8_t* b, unsigned at) {
  const std::int8_t* from = b + at / kRun * 2 * kRunBytes + at % kRun / 4 * 64;
  return integers(_mm512_loadu_si512(from + tile_of_b(0, 0, 0)),
                  _mm512_loadu_si512(from + tile_of_b(0, 1, 0)), at);
}

}  // namespace

void avx512_add_residuals_of_a(const Residual* residuals, int count, int from,
                               const std::int32_t* panel, const double* scale_b,
                               double* c) noexcept {
  const auto* b = reinterpret_cast<const std::int8_t*>(panel);
  for (int i = 0; i < count; ++i) {
    const Residual& residual = residuals[i];
    const unsigned at = residual.at - static_cast<unsigned>(from);
    const double* scale = scale_b + at / kBlock * kMaxNr;
    add_16(_mm512_set1_pd(residual.value), integers_of_b(b, at), scale, c + residual.lane * kMaxNr);
  }
}

void avx512_add_residuals_of_b(int, const Residual* residuals, int count, int from,
                               const std::int32_t* panel, const double* scale_a,
                               double* d) noexcept {
  const auto* a = reinterpret_cast<const std::int8_t*>(panel);
  for (int i = 0; i < count; ++i) {
    const Residual& residual = residuals[i];
    const unsigned at = residual.at - static_cast<unsigned>(from);
    add_16(_mm512_set1_pd(residual.value), integers_of_a(a, at), scale_a + at / kBlock * kMaxMr,
           d + residual.lane * kMaxMr);
  }
}

}  // namespace mxo::cpu
MXO_TARGET_END

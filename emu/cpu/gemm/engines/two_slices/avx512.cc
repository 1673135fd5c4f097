// Two slices by AVX-512, and what tiles would do with them.
#include <immintrin.h>

#include "emu/cpu/gemm/engines/two_slices/two_slices.h"
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

static_assert(static_cast<long long>(kSpanRuns) * kRun * (32767LL * 32767 + 255 * 255) / 256 <
              0x7FFFFFFF);

void avx512_add_recombined(const TwoSliceSums& slices, int half, const double* scale_a,
                           const double* scale_b, double* c) noexcept {
  const __m512d shift = _mm512_set1_pd(256.0);
  for (int part = 0; part < kTileLanes; part += 8) {
    const int column = half * kTileLanes + part;
    const __m512d factor = _mm512_loadu_pd(scale_b + column);
    const auto words_of = [part](const std::int32_t* row) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + part));
    };
    for (int m = 0; m < kTileLanes; ++m) {
      // 256 high + mixed is (sum - low) / 256: with a span of integers of at most 2^15 - 1 it
      // stays below 2^31.  Recombined with low below 2^53.  Both exact.
      const __m256i upper =
          _mm256_add_epi32(_mm256_slli_epi32(words_of(slices[0][m]), 8), words_of(slices[1][m]));
      const __m512d sum = _mm512_fmadd_pd(_mm512_cvtepi32_pd(upper), shift,
                                          _mm512_cvtepi32_pd(words_of(slices[2][m])));
      double* to = c + m * kMaxNr + column;
      _mm512_storeu_pd(to, _mm512_fmadd_pd(_mm512_mul_pd(sum, factor), _mm512_set1_pd(scale_a[m]),
                                           _mm512_loadu_pd(to)));
    }
  }
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

// What four tile instructions add: 16 x 64 bytes by 64 x 16, signed or not.
void add_tile_products(const std::int8_t* a_high, const std::int8_t* a_low,
                       const std::int8_t* b_high, const std::int8_t* b_low, TwoSliceSums& sums) {
  for (int m = 0; m < kTileLanes; ++m) {
    for (int n = 0; n < kTileLanes; ++n) {
      for (int c = 0; c < kChunk; ++c) {
        const int at_a = m * kChunk + c;
        const int at_b = c / 4 * kTileLanes * 4 + n * 4 + c % 4;
        const int al = static_cast<std::uint8_t>(a_low[at_a]);
        const int bl = static_cast<std::uint8_t>(b_low[at_b]);
        sums[0][m][n] += a_high[at_a] * b_high[at_b];
        sums[1][m][n] += a_high[at_a] * bl + al * b_high[at_b];
        sums[2][m][n] += al * bl;
      }
    }
  }
}

void clear(TwoSliceSums& sums) {
  for (auto& slice : sums) {
    for (auto& row : slice) {
      for (std::int32_t& x : row) x = 0;
    }
  }
}

void add_chunk_of(int half, int i, const std::int8_t* a, const std::int8_t* b, TwoSliceSums& sums) {
  const int chunk = i % kChunks;
  const std::int8_t* run_a = a + i / kChunks * kRunBytes;
  const std::int8_t* run_b = b + i / kChunks * 2 * kRunBytes;
  add_tile_products(run_a + tile_of_a(0, chunk), run_a + tile_of_a(1, chunk),
                    run_b + tile_of_b(half, 0, chunk), run_b + tile_of_b(half, 1, chunk), sums);
}

void add_chunk(int chunk, int chunks, const std::int8_t* a, const std::int8_t* b,
               TwoSliceSums* halves) noexcept {
  if (chunk == chunks) return;
  for (int half = 0; half < kMaxNr / kTileLanes; ++half) {
    if (chunk == 0) clear(halves[half]);
    add_chunk_of(half, chunk, a, b, halves[half]);
  }
}

void sum_two_slices(int half, const ChunkRange& range, const std::int8_t* a, const std::int8_t* b,
                    TwoSliceSums& sums) noexcept {
  clear(sums);
  if (range.blocks != ChunkRange::both) {
    std::int8_t tiles[2][kTileBytes];
    avx512_slices_of_block(a, range, tiles);
    return add_tile_products(tiles[0], tiles[1], b + tile_of_b(half, 0, range.first),
                             b + tile_of_b(half, 1, range.first), sums);
  }
  for (int i = 0; i < range.count; ++i) add_chunk_of(half, i, a, b, sums);
}

}  // namespace

const TwoSliceKernels& two_slices_layout_kernels() {
  static constexpr TwoSliceKernels kernels = {portable_encode_slices, sum_two_slices, add_chunk};
  return kernels;
}

}  // namespace mxo::cpu
MXO_TARGET_END

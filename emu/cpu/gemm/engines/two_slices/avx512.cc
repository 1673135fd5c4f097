// Two slices by AVX-512: splitting, and what is pending.
#include <immintrin.h>

#include "emu/cpu/gemm/engines/two_slices/pending_avx512.h"
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

void avx512_add_pending(const PendingSums& pending, int part) noexcept {
  if (pending.slices == nullptr) return;
  for (; part < kPendingParts; ++part) add_recombined_part(pending, part);
}

void avx512_add_residuals(const PairResiduals& residuals, int first) noexcept {
  for (int i = first; i < residuals.count(); ++i) add_residual(residuals, i);
}

void avx512_copy_as_b(int chunks, const std::int8_t* a, std::int8_t* copy) noexcept {
  for (int i = 0; i < 2 * chunks; ++i) {
    transpose_tile(a + chunk_of_a(i % 2, i / 2), copy + chunk_of_a(i % 2, i / 2));
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

}  // namespace mxo::cpu
MXO_TARGET_END

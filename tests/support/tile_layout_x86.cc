// The instructions of tile registers spelt out in plain C++, so that what AMX is fed and what
// becomes of its sums is tested wherever there is AVX-512.
#include <cstring>

#include "emu/cpu/target_region.h"
#include "tests/support/tile_emulation.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::test {
namespace {

using namespace cpu;

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
    if (chunk == 0) std::memset(&halves[half], 0, sizeof halves[half]);
    add_chunk_of(half, chunk, a, b, halves[half]);
  }
}

void sum_two_slices(int half, const ChunkRange& range, const std::int8_t* a, const std::int8_t* b,
                    const PendingSums& pending, const PairResiduals& residuals, std::int8_t* copy,
                    const std::int8_t*, TwoSliceSums& sums) noexcept {
  avx512_add_pending(pending, 0);
  if (copy != nullptr) avx512_copy_as_b(range.count, a, copy);
  avx512_add_residuals(residuals, 0);
  std::memset(&sums, 0, sizeof sums);
  if (range.blocks != ChunkRange::both) {
    alignas(64) std::int8_t tiles[2][kTileBytes];
    avx512_slices_of_block(a, range, tiles);
    return add_tile_products(tiles[0], tiles[1], b + tile_of_b(half, 0, range.first),
                             b + tile_of_b(half, 1, range.first), sums);
  }
  for (int i = 0; i < range.count; ++i) add_chunk_of(half, i, a, b, sums);
}

void add_bf16(int blocks, const std::uint16_t* a, const std::uint16_t* b,
              BlockSums* sums) noexcept {
  const auto value = [](std::uint16_t word) {
    return bit_cast<float>(static_cast<std::uint32_t>(word) << 16);
  };
  for (int i = 0; i < blocks * kTileLanes * kMaxNr; ++i) {
    const int block = i / (kTileLanes * kMaxNr);
    const int m = i / kMaxNr % kTileLanes;
    const int half = i / kTileLanes % 2;
    const int n = i % kTileLanes;
    const std::uint16_t* tile = b + (2 * block + half) * kTileWords;
    float sum = 0.0f;
    for (int c = 0; c < kBlock; ++c)
      sum += value(a[block * kTileWords + m * kBlock + c]) *
             value(tile[c / 2 * 2 * kTileLanes + 2 * n + c % 2]);
    sums[block].halves[half][m][n] = sum;
  }
}

void add_three_slices(int chunks, const std::int8_t* a, const std::int8_t* b, bool more,
                      ThreeSliceSums& sums) noexcept {
  if (!more) std::memset(&sums, 0, sizeof sums);
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
        for (int n = 0; n < kTileLanes; ++n)
          sums[of_a + of_b][m][n] += x * tile_b[c / 4 * kTileLanes * 4 + n * 4 + c % 4];
      }
    }
  }
}

}  // namespace

const Kernels& amx_layout_kernels() {
  static constexpr TileKernels tiles = {nullptr,        nullptr,          encode_two_slices,
                                        sum_two_slices, add_chunk,        add_three_slices,
                                        add_bf16,       avx512_round_bf16};
  static const Kernels kernels = with_tiles(Isa::avx512, tiles);
  return kernels;
}

}  // namespace mxo::test
MXO_TARGET_END

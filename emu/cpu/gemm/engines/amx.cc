// The kernel tables that use tile registers, and the AMX loops.
#include <immintrin.h>

#include "emu/cpu/gemm/engines/bf16/rounding_avx512.h"
#include "emu/cpu/gemm/engines/tile_kernels.h"
#include "emu/cpu/gemm/engines/two_slices/pending_avx512.h"
#include "emu/cpu/target_region.h"

namespace mxo::cpu {

Kernels with_tiles(Isa isa, const TileKernels& tiles) {
  static const Engine* const engines[] = {&kThreeSlicesEngine, &kBf16Engine, &kTwoSlicesEngine,
                                          nullptr};
  Kernels k = kernels_of(Isa::avx512);
  k.isa = isa;
  k.mr_integers = kTileLanes;
  k.tile_engines = engines;
  k.tiles = &tiles;
  return k;
}

}  // namespace mxo::cpu

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma,avx512bf16,amx-tile,amx-int8,amx-bf16")
namespace mxo::cpu {
namespace {

/// The 64 bytes of LDTILECFG: 16 rows of 64 bytes in each of the 8 tiles.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

void begin() noexcept {
  static constexpr TileConfig config;
  _tile_loadconfig(&config);
}
void end() noexcept { _tile_release(); }

// Where another thread shares a core, tile instructions that follow each other directly take half
// as long again, and each tile in use leaves one less to rename (bench/AMX_PRODUCTS.md).
[[gnu::always_inline]] inline void apart() { asm volatile(".rept 8\n\tnop\n\t.endr"); }

/// The tiles of a chunk.
struct SliceTiles {
  const std::int8_t* a_high;
  const std::int8_t* a_low;
  const std::int8_t* b_high;
  const std::int8_t* b_low;
};

// Tiles 0 and 1 hold A's slices, 2 one of B's; 3, 4 and 5 the sums high, mixed and low.  Loads and
// products alternate, with something else between: loaded() after a load, multiplied(i) after
// product i.
template <typename Chunk, typename Loaded, typename Multiplied>
[[gnu::always_inline]] inline void add_chunks(int count, const Chunk& chunk_at,
                                              const Loaded& loaded, const Multiplied& multiplied) {
  SliceTiles next = chunk_at(0);
  _tile_loadd(0, next.a_high, 64);
  loaded();
  _tile_loadd(2, next.b_high, 64);
  loaded();
  for (int i = 0; i < count; ++i) {
    const SliceTiles chunk = next;
    _tile_dpbssd(3, 0, 2);
    multiplied(4 * i);
    _tile_loadd(1, chunk.a_low, 64);
    loaded();
    _tile_dpbusd(4, 1, 2);
    multiplied(4 * i + 1);
    _tile_loadd(2, chunk.b_low, 64);
    loaded();
    _tile_dpbsud(4, 0, 2);
    multiplied(4 * i + 2);
    next = chunk_at(i + 1 < count ? i + 1 : 0);
    _tile_loadd(0, next.a_high, 64);
    loaded();
    _tile_dpbuud(5, 1, 2);
    multiplied(4 * i + 3);
    _tile_loadd(2, next.b_high, 64);
    loaded();
  }
}

constexpr auto kNothing = [](auto...) __attribute__((always_inline)) { apart(); };

static_assert(4 * kSpanChunks == kPendingParts);  // one after each product of a span

void sum_two_slices(int half, const ChunkRange& range, const std::int8_t* a, const std::int8_t* b,
                    const PendingSums& pending, const PairResiduals& residuals, std::int8_t* copy,
                    const std::int8_t* ahead, TwoSliceSums& sums) noexcept {
  const auto chunk_at = [&](int i) __attribute__((always_inline)) {
    const std::int8_t* run_b = b + i / kChunks * 2 * kRunBytes;
    return SliceTiles{a + chunk_of_a(0, i), a + chunk_of_a(1, i),
                      run_b + tile_of_b(half, 0, i % kChunks),
                      run_b + tile_of_b(half, 1, i % kChunks)};
  };
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  if (range.blocks != ChunkRange::both) {
    alignas(64) std::int8_t tiles[2][kTileBytes];
    avx512_slices_of_block(a, range, tiles);
    const SliceTiles chunk = chunk_at(range.first);
    add_chunks(
        1,
        [&](int) __attribute__((always_inline)) {
          return SliceTiles{tiles[0], tiles[1], chunk.b_high, chunk.b_low};
        },
        kNothing, kNothing);
    avx512_add_pending(pending, 0);
    avx512_add_residuals(residuals, 0);
  } else {
    const int count = residuals.count();
    int residual = 0;
    const auto one_residual = [&]() __attribute__((always_inline)) {
      if (residual == count) return apart();
      add_residual(residuals, residual++);
    };
    const auto one_part = [&](int part) __attribute__((always_inline)) {
      if (ahead != nullptr) __builtin_prefetch(ahead + 64 * part, 0, 2);
      if (pending.slices == nullptr) return apart();
      add_recombined_part(pending, part);
    };
    const auto part_and_tile = [&](int part) __attribute__((always_inline)) {
      one_part(part);
      if (part % 2 == 0) {
        const int tile = chunk_of_a(part / 2 % 2, part / 4);
        transpose_tile(a + tile, copy + tile);
      }
    };
    if (copy == nullptr) {
      add_chunks(range.count, chunk_at, one_residual, one_part);
    } else {
      add_chunks(range.count, chunk_at, one_residual, part_and_tile);
    }
    avx512_add_pending(pending, 4 * range.count);
    avx512_add_residuals(residuals, residual);
  }
  _tile_stored(3, sums[0], 64);
  _tile_stored(4, sums[1], 64);
  _tile_stored(5, sums[2], 64);
}

// Tiles 0 to 2 hold the first half's sums, 3 to 5 the second's: six independent accumulators,
// where one half alone has three.
void add_chunk_of_both(int i, int chunks, const std::int8_t* a, const std::int8_t* b,
                       TwoSliceSums* halves) noexcept {
  if (i == 0) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
  }
  if (i < chunks) {
    const int chunk = i % kChunks;
    const std::int8_t* run_a = a + i / kChunks * kRunBytes;
    const std::int8_t* run_b = b + i / kChunks * 2 * kRunBytes;
    _tile_loadd(6, run_a + tile_of_a(0, chunk), 64);
    apart();
    _tile_loadd(7, run_b + tile_of_b(0, 0, chunk), 64);
    apart();
    _tile_dpbssd(0, 6, 7);
    apart();
    _tile_loadd(7, run_b + tile_of_b(1, 0, chunk), 64);
    apart();
    _tile_dpbssd(3, 6, 7);
    apart();
    _tile_loadd(7, run_b + tile_of_b(0, 1, chunk), 64);
    apart();
    _tile_dpbsud(1, 6, 7);
    apart();
    _tile_loadd(7, run_b + tile_of_b(1, 1, chunk), 64);
    apart();
    _tile_dpbsud(4, 6, 7);
    apart();
    _tile_loadd(6, run_a + tile_of_a(1, chunk), 64);
    apart();
    _tile_dpbuud(5, 6, 7);
    apart();
    _tile_loadd(7, run_b + tile_of_b(0, 1, chunk), 64);
    apart();
    _tile_dpbuud(2, 6, 7);
    apart();
    _tile_loadd(7, run_b + tile_of_b(0, 0, chunk), 64);
    apart();
    _tile_dpbusd(1, 6, 7);
    apart();
    _tile_loadd(7, run_b + tile_of_b(1, 0, chunk), 64);
    apart();
    _tile_dpbusd(4, 6, 7);
    apart();
    return;
  }
  _tile_stored(0, halves[0][0], 64);
  _tile_stored(1, halves[0][1], 64);
  _tile_stored(2, halves[0][2], 64);
  _tile_stored(3, halves[1][0], 64);
  _tile_stored(4, halves[1][1], 64);
  _tile_stored(5, halves[1][2], 64);
}

// In two passes, with six tiles instead of eight: 0 to 2 hold sums, 3 and 4 slices of A, 5 one of
// B.
void add_three_slices(int chunks, const std::int8_t* a, const std::int8_t* b, bool more,
                      ThreeSliceSums& sums) noexcept {
  constexpr int kStep = kThreeSliceChunkBytes;
  if (more) {
    _tile_loadd(0, sums[2], 64);
    _tile_loadd(1, sums[3], 64);
    _tile_loadd(2, sums[4], 64);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
  }
  for (int i = 0; i < chunks; ++i) {
    const std::int8_t* of_a = a + i * kStep;
    const std::int8_t* of_b = b + i * kStep;
    _tile_loadd(3, of_a + 2 * kTileBytes, 64);
    apart();
    _tile_loadd(5, of_b + 2 * kTileBytes, 64);
    apart();
    _tile_dpbssd(2, 3, 5);
    apart();
    _tile_loadd(4, of_a + kTileBytes, 64);
    apart();
    _tile_dpbssd(1, 4, 5);
    apart();
    _tile_loadd(5, of_b + kTileBytes, 64);
    apart();
    _tile_dpbssd(1, 3, 5);
    apart();
    _tile_dpbssd(0, 4, 5);
    apart();
    _tile_loadd(5, of_b, 64);
    apart();
    _tile_dpbssd(0, 3, 5);
    apart();
    _tile_loadd(4, of_a, 64);
    apart();
    _tile_loadd(5, of_b + 2 * kTileBytes, 64);
    apart();
    _tile_dpbssd(0, 4, 5);
    apart();
  }
  _tile_stored(0, sums[2], 64);
  _tile_stored(1, sums[3], 64);
  _tile_stored(2, sums[4], 64);
  if (more) {
    _tile_loadd(0, sums[0], 64);
    _tile_loadd(1, sums[1], 64);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  for (int i = 0; i < chunks; ++i) {
    const std::int8_t* of_a = a + i * kStep;
    const std::int8_t* of_b = b + i * kStep;
    _tile_loadd(3, of_a, 64);
    apart();
    _tile_loadd(5, of_b, 64);
    apart();
    _tile_dpbssd(0, 3, 5);
    apart();
    _tile_loadd(4, of_a + kTileBytes, 64);
    apart();
    _tile_dpbssd(1, 4, 5);
    apart();
    _tile_loadd(5, of_b + kTileBytes, 64);
    apart();
    _tile_dpbssd(1, 3, 5);
    apart();
  }
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
}

// Tiles 0 and 1 hold the sums.
void add_bf16(int blocks, const std::uint16_t* a, const std::uint16_t* b,
              BlockSums* sums) noexcept {
  for (int i = 0; i < blocks; ++i, a += kTileWords, b += 2 * kTileWords) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(2, a, 64);
    apart();
    _tile_loadd(3, b, 64);
    apart();
    _tile_dpbf16ps(0, 2, 3);
    apart();
    _tile_loadd(3, b + kTileWords, 64);
    apart();
    _tile_dpbf16ps(1, 2, 3);
    apart();
    _tile_stored(0, sums[i].halves[0], 64);
    _tile_stored(1, sums[i].halves[1], 64);
  }
}

void round_bf16(int first, int end, int blocks, const BlockSums* sums, const KVectorErrors& a,
                const KVectorErrors& b, RoundedRows& to) noexcept {
  const auto words = [](__m512 left, __m512 right) {
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(right, left));
  };
  const BlockRows rows(blocks, sums, a, b);
  RowPutter putter(to);
  for (int m = first; m < end; ++m) {
    const BlockRows::Row row = rows.row(m);
    rows.put(m, words(row.left.low, row.right.low), words(row.left.high, row.right.high), putter);
  }
  to.rows_left = putter.rows_left();
}

}  // namespace

const Kernels& amx_kernels() {
  static constexpr TileKernels tiles = {
      begin,    end,       vbmi_encode_slices, sum_two_slices, add_chunk_of_both, add_three_slices,
      add_bf16, round_bf16};
  static const Kernels kernels = with_tiles(Isa::amx, tiles);
  return kernels;
}

}  // namespace mxo::cpu
MXO_TARGET_END

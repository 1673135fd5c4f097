// The integer loop on AMX tiles of bytes; the rest of the table is that of AVX-512.
#include <immintrin.h>

#include "emu/cpu/gemm/planes.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,amx-tile,amx-int8")
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

// Tiles 0 and 1 hold A's planes, 2 and 3 B's; 4, 5 and 6 the sums high, mixed and low.
void add_chunk(const std::int8_t* a_high, const std::int8_t* a_low, const std::int8_t* b_high,
               const std::int8_t* b_low) {
  _tile_loadd(0, a_high, 64);
  _tile_loadd(2, b_high, 64);
  _tile_dpbssd(4, 0, 2);
  _tile_loadd(3, b_low, 64);
  _tile_dpbsud(5, 0, 3);
  _tile_loadd(1, a_low, 64);
  _tile_dpbuud(6, 1, 3);
  _tile_dpbusd(5, 1, 2);
}

void dot_int16(int, int block, int blocks, const std::int32_t* run_a, const std::int32_t* run_b,
               std::int32_t* sums) noexcept {
  const auto* a = reinterpret_cast<const std::int8_t*>(run_a);
  const auto* b = reinterpret_cast<const std::int8_t*>(run_b);
  alignas(64) PlaneSums planes[2];
  alignas(64) std::int8_t masked[2][kTileBytes];
  const bool one = block > 0 || blocks == 1;
  if (one) planes_of_block(a, block, masked);
  for (int half = 0; half < 2; ++half) {
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    if (one) {
      add_chunk(masked[0], masked[1], b + tile_of_b(half, 0, block / 2),
                b + tile_of_b(half, 1, block / 2));
    } else {
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        add_chunk(a + tile_of_a(0, chunk), a + tile_of_a(1, chunk), b + tile_of_b(half, 0, chunk),
                  b + tile_of_b(half, 1, chunk));
      }
    }
    _tile_stored(4, planes[half][0], 64);
    _tile_stored(5, planes[half][1], 64);
    _tile_stored(6, planes[half][2], 64);
  }
  join_planes(planes[0], 0, sums);
  join_planes(planes[1], 1, sums);
}

}  // namespace

const Kernels& amx_kernels() {
  static const Kernels kernels = [] {
    Kernels k = amx_layout_kernels();
    k.isa = Isa::amx;
    k.begin = begin;
    k.end = end;
    k.dot_int16 = dot_int16;
    return k;
  }();
  return kernels;
}

}  // namespace mxo::cpu
MXO_TARGET_END

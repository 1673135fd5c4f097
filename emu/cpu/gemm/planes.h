// The int16 panels of AMX: two planes of bytes, so that a product of int16 is four of bytes.
//
// An integer x is 256 * high + low, high signed, low not.  A run of A is [plane][chunk][lane][64],
// tiles of 16 lanes by 64 elements.  A run of B is [half][plane][chunk][16][16 lanes][4]: tiles of
// 64 elements by 16 lanes, four neighbours in a dword.  Plane 0 is the high one.
#pragma once

#include "emu/cpu/gemm/kernels.h"

namespace mxo::cpu {

inline constexpr int kTileBytes = 1024;
inline constexpr int kChunk = 64;  ///< elements of a tile along the contracted axis
inline constexpr int kChunks = kRun / kChunk;
inline constexpr int kTileLanes = 16;

constexpr int tile_of_a(int plane, int chunk) { return (plane * kChunks + chunk) * kTileBytes; }
constexpr int tile_of_b(int half, int plane, int chunk) {
  return ((half * 2 + plane) * kChunks + chunk) * kTileBytes;
}

/// The four products of byte planes of a 16 x 16 tile of sums, in int32: high * high, the two
/// mixed ones, low * low, one [16][16] each.  Sums wrap; modulo 2^32 they are right.
using PlaneSums = std::int32_t[3][kTileLanes][kTileLanes];

void place_planes_a(int lanes, int blocks, const std::uint32_t* lines, std::int32_t* run) noexcept;
void place_planes_b(int lanes, int blocks, const std::uint32_t* lines, std::int32_t* run) noexcept;
void planes_add_rest_of_a(double value, const std::int32_t* b, int at, const double* scale_b,
                          double* c) noexcept;
void planes_add_rest_of_b(int width, double value, const std::int32_t* a, int at,
                          const double* scale_a, double* d) noexcept;
/// Lanes 16 * half and on of sums [16][32] from the planes' sums.
void join_planes(const PlaneSums& planes, int half, std::int32_t* sums) noexcept;
/// Chunk `chunk` of A with all but block `block` of the run zero: two tiles, high and low.
void planes_of_block(const std::int8_t* a, int block, std::int8_t (&tiles)[2][kTileBytes]) noexcept;

}  // namespace mxo::cpu

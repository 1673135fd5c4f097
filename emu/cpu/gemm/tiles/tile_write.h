// The outputs of a tile from its sums.
#pragma once

#include <span>

#include "emu/cpu/gemm/tiles/tile.h"
#include "emu/cpu/gemm/tiles/writer.h"

namespace mxo::cpu {

/// Outputs of row m of a pair that failed every rounding test, a bit for each column: to fixed
/// point.
void put_failed(const Writer& writer, const MicroPanel& a, const MicroPanel& b, int m,
                std::uint32_t columns, StageCounts& stages);
/// One pair of panels: sums [m][nr] in f64, rounded once.
void write_exact(const Kernels& kernels, const Product& product, const MicroPanel& a,
                 const MicroPanel& b, const double* sums, StageCounts& stages);
/// All pairs of a tile.
void write_tile(const Kernels& kernels, const KcTile& tile, TileScratch& scratch);
/// Products with K = 0, the weight gradients of groups without rows: every output is +0.
void write_zeros(std::span<const Product> products, int threads);

}  // namespace mxo::cpu

// The outputs of a tile from its sums.
#pragma once

#include "emu/cpu/gemm/tiles/tile_sums.h"
#include "emu/cpu/gemm/tiles/writer.h"

namespace mxo::cpu {

/// Outputs of row m of a pair that failed every rounding test, a bit for each column: to fixed
/// point.
void put_failed(const Writer& writer, const MicroPanel& a, const MicroPanel& b, int m,
                std::uint32_t columns);
/// One pair of panels: sums [m][nr] in f64, rounded once.
void write_exact(const Kernels& kernels, const Product& product, const MicroPanel& a,
                 const MicroPanel& b, const double* sums);
/// All pairs of a tile, of whichever engine.
void write_tile(const Kernels& kernels, const KcTile& tile, TileScratch& scratch);

}  // namespace mxo::cpu

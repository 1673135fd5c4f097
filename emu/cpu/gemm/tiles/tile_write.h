// The outputs of a tile from its sums.
#pragma once

#include "emu/cpu/gemm/tiles/tile_sums.h"
#include "emu/cpu/gemm/tiles/writer.h"

namespace mxo::cpu {

/// Outputs of row m of a pair that no bound decides: a bit for each column.
void put_undecided(const Writer& writer, const Panel& a, const Panel& b, int m,
                   std::uint32_t columns);
/// One pair of panels: sums [m][lanes_b] in f64, rounded once.
void write_exact(const Kernels& kernels, const Product& product, const Panel& a, const Panel& b,
                 const double* sums);
/// All pairs of a tile, of whichever engine.
void write_tile(const Kernels& kernels, const TilePart& part, TileScratch& scratch);

}  // namespace mxo::cpu

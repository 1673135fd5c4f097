// How products are cut into jobs that fit the memory there is, and jobs into batches.
#pragma once

#include <vector>

#include "emu/cpu/gemm/tiles/tile.h"

namespace mxo::cpu {

/// A rectangle of a product and in how many parts its depth is packed.
struct Piece {
  const Product* product;
  Index first_row, rows;
  Index first_column, columns;
  Index part;         ///< elements of the depth at once; the whole depth, or a multiple of kRun
  std::size_t bytes;  ///< of packed panels and, in parts, of sums
  bool own_b;         ///< only A is packed in advance; Job::own_b
};

/// Pieces in order, cut for `memory` bytes; small neighbours make a batch.
std::vector<Piece> cut(const Kernels& kernels, Engine engine, const Product& product,
                       std::size_t memory);
std::vector<std::vector<Piece>> batches_of(const Kernels& kernels, Engine engine,
                                           const std::vector<Product>& products,
                                           std::size_t memory);

/// Makes `job` that of a piece, its panels laid out for the first part of the depth.
void set_job(const Kernels& kernels, Engine engine, const Piece& piece, std::byte* memory,
             Job& job);

/// The tiles of a job, at least `wanted` of them where it has so many panels.
void add_tiles(Job& job, std::size_t wanted, std::vector<Tile>& tiles);

}  // namespace mxo::cpu

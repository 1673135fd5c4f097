// The loops that use tile registers: by AMX, or by code that emulates its instructions.
#pragma once

#include "emu/cpu/gemm/engines/bf16/bf16_tiles.h"
#include "emu/cpu/gemm/engines/three_slices/three_slices.h"
#include "emu/cpu/gemm/engines/two_slices/two_slices.h"

namespace mxo::cpu {

struct TileKernels {
  /// Each thread calls begin before the loops below and end after them; either may be null.
  void (*begin)() noexcept;
  void (*end)() noexcept;
  /// Encodes chunks from the start of a run; block b's scale is 2^shift[b] below the span's,
  /// shift at most kMaxSpread.
  void (*encode_two_slices)(const SliceTable& table, int chunks, const std::uint8_t* codes,
                            const std::uint8_t* shift, const SliceTarget& to,
                            SliceTally& tally) noexcept;
  /// Sums of products of 16 lanes of A and a half of B; meanwhile recombines others, adds residuals
  /// and, unless null, copies A's chunks as tiles of B to `copy` and fetches 2 KiB from `ahead`.
  void (*sum_two_slices)(int half, const ChunkRange& range, const std::int8_t* a,
                         const std::int8_t* b, const PendingSums& pending,
                         const PairResiduals& residuals, std::int8_t* copy,
                         const std::int8_t* ahead, TwoSliceSums& sums) noexcept;
  /// The same for both halves in steps, `chunk` from 0 to `chunks`: sums stay in the tiles between
  /// steps while the caller does other work; the last step stores them to `halves`.
  void (*add_two_slices)(int chunk, int chunks, const std::int8_t* a, const std::int8_t* b,
                         TwoSliceSums* halves) noexcept;
  /// 16 x 16 products of three slices over chunks; with `more` they are added to `sums`.
  void (*add_three_slices)(int chunks, const std::int8_t* a, const std::int8_t* b, bool more,
                           ThreeSliceSums& sums) noexcept;
  /// Sums the products of each of `blocks` blocks of a pair, every addition rounded once to f32, in
  /// some order.
  void (*add_bf16)(int blocks, const std::uint16_t* a, const std::uint16_t* b,
                   BlockSums* sums) noexcept;
  /// Adds the blocks' sums and rounds, rows [first, end); of a K-vector's errors `residuals` and
  /// `lower` are what add_k_vector was given.
  void (*round_bf16)(int first, int end, int blocks, const BlockSums* sums, const KVectorErrors& a,
                     const KVectorErrors& b, RoundedRows& to) noexcept;
};

/// The AVX-512 table plus the engines that use tile registers.
Kernels with_tiles(Isa isa, const TileKernels& tiles);

/// RAII: begin and end of a thread's use of tile registers.
class TileRegisters {
 public:
  explicit TileRegisters(const TileKernels& tiles) : tiles_(tiles) {
    if (tiles_.begin != nullptr) tiles_.begin();
  }
  ~TileRegisters() {
    if (tiles_.end != nullptr) tiles_.end();
  }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

 private:
  const TileKernels& tiles_;
};

}  // namespace mxo::cpu

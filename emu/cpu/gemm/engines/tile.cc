// The kc blocks of a macro-tile: what is packed when, and when its sums are rounded.
#include "emu/cpu/gemm/tiles/tile.h"

#include <algorithm>
#include <cstring>

#include "emu/cpu/gemm/engines/bf16/tile.h"
#include "emu/cpu/gemm/engines/three_slices/tile.h"
#include "emu/cpu/gemm/engines/two_slices/span_tile.h"
#include "emu/cpu/gemm/tiles/tile_write.h"

namespace mxo::cpu {

void TileScratchDelete::operator()(TileScratch* scratch) const { delete scratch; }

TileScratchPtr make_tile_scratch() {
  TileScratchPtr scratch(new TileScratch);
  scratch->pack = make_pack_scratch();
  return scratch;
}

double* block_of(const MacroTile& tile, TileScratch& scratch, int i, int j) {
  const PackedBlock& packed = *tile.packed;
  if (packed.sums != nullptr) {
    const auto row = static_cast<std::size_t>(tile.a0 + i);
    return packed.sums +
           (row * packed.b.size() + static_cast<std::size_t>(tile.b0 + j)) * kBlockSums;
  }
  return scratch.sums[j * (tile.a1 - tile.a0) + i];
}

namespace {

constexpr std::size_t kAlign = 64;  // of panels

void add_kc(const Kernels& kernels, const KcTile& of_kc, TileScratch& scratch) {
  if (kernels.begin != nullptr) kernels.begin();
  switch (of_kc.tile->packed->engine) {
    case Engine::int16: sum_int16(kernels, of_kc, scratch); break;
    case Engine::bf16: break;          // compute_bf16
    case Engine::three_slices: break;  // compute_three_slices
    case Engine::f64: sum_f64(kernels, of_kc, scratch); break;
    case Engine::chain: sum_chain(kernels, of_kc, scratch); break;
  }
  if (kernels.end != nullptr) kernels.end();
}

/// B's panels, which a tile packs a kc block at a time into memory that stays in the
/// L2.
class OwnB {
 public:
  OwnB(const Kernels& kernels, const MacroTile& tile, TileScratch& scratch)
      : kernels_(kernels), tile_(tile), packed_(*tile.packed), scratch_(scratch) {
    const KBlock largest{0, std::min(kOwnKc, packed_.k_block.count)};
    bytes_ = panel_bytes(packed_.engine, kernels.nr, kMaxNr, largest);
    scratch.own_memory.resize(bytes_ * kMaxPanelsNc + kAlign);
    memory_ = scratch.own_memory.data();
    memory_ += (kAlign - reinterpret_cast<std::uintptr_t>(memory_) % kAlign) % kAlign;
    for (int j = 0; j < tile.b1 - tile.b0; ++j) {
      const MicroPanel& planned = packed_.b[static_cast<std::size_t>(tile.b0 + j)];
      MicroPanel& b = scratch.own_b[j];  // packing fills what is left of it
      b.first = planned.first;
      b.width = planned.width;
      b.step = planned.step;
      b.scale_step = planned.scale_step;
    }
  }

  /// The kc block that begins at `start`.
  KcTile pack(Index start) {
    const KBlock k_block{start, std::min(kOwnKc, packed_.k_block.count - start)};
    const KcTile of_kc{&tile_,
                       packed_.a.data() + tile_.a0,
                       scratch_.own_b,
                       k_block,
                       start / kRun,
                       start == 0,
                       start + k_block.count == packed_.k_block.count};
    for (int j = 0; j < of_kc.wide(); ++j) {
      MicroPanel& b = scratch_.own_b[j];
      place_panel(b, packed_.engine, of_kc.k_block, memory_ + static_cast<std::size_t>(j) * bytes_);
      pack_panel(kernels_, packed_.engine, *packed_.product, packed_.product->b, of_kc.k_block, b,
                 *scratch_.pack);
    }
    return of_kc;
  }

 private:
  const Kernels& kernels_;
  const MacroTile& tile_;
  const PackedBlock& packed_;
  TileScratch& scratch_;
  std::size_t bytes_;
  std::byte* memory_;
};

/// Whether the panels of a tile hold one span, all of K.
bool is_span(const PackedBlock& packed) {
  return packed.engine == Engine::int16 && packed.first_kc() && packed.last_kc() &&
         packed.k_block.runs() <= kSpanRuns;
}

void clear_sums(const MacroTile& tile, TileScratch& scratch) {
  for (int j = 0; j < tile.b1 - tile.b0; ++j) {
    for (int i = 0; i < tile.a1 - tile.a0; ++i) {
      std::memset(block_of(tile, scratch, i, j), 0, sizeof(double) * kBlockSums);
    }
  }
}

void compute_with_own_b(const Kernels& kernels, const MacroTile& tile, TileScratch& scratch) {
  OwnB own(kernels, tile, scratch);
  if (is_span(*tile.packed)) return compute_span(kernels, own.pack(0), scratch);
  clear_sums(tile, scratch);
  KcTile of_kc = own.pack(0);
  add_kc(kernels, of_kc, scratch);
  while (!of_kc.last) {
    of_kc = own.pack(of_kc.k_block.start + of_kc.k_block.count);
    add_kc(kernels, of_kc, scratch);
  }
  write_tile(kernels, of_kc, scratch);
}

}  // namespace

void compute_tile(const Kernels& kernels, const MacroTile& tile, TileScratch& scratch) {
  const PackedBlock& packed = *tile.packed;
  if (packed.own_b) return compute_with_own_b(kernels, tile, scratch);
  const KcTile of_kc{&tile, packed.a.data() + tile.a0, packed.b.data() + tile.b0, packed.k_block,
                     0};
  if (packed.engine == Engine::bf16) return compute_bf16(kernels, of_kc, scratch);
  if (packed.engine == Engine::three_slices) return compute_three_slices(kernels, of_kc, scratch);
  if (is_span(packed)) return compute_span(kernels, of_kc, scratch);
  if (packed.first_kc()) clear_sums(tile, scratch);
  add_kc(kernels, of_kc, scratch);
  if (packed.last_kc()) write_tile(kernels, of_kc, scratch);
}

}  // namespace mxo::cpu

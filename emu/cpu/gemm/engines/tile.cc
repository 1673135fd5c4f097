// The parts of a tile: what is packed when, and when its sums are rounded.
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

double* block_of(const Tile& tile, TileScratch& scratch, int i, int j) {
  const Job& job = *tile.job;
  if (job.sums != nullptr) {
    const auto row = static_cast<std::size_t>(tile.a0 + i);
    return job.sums + (row * job.b.size() + static_cast<std::size_t>(tile.b0 + j)) * kBlockSums;
  }
  return scratch.sums[j * (tile.a1 - tile.a0) + i];
}

namespace {

constexpr std::size_t kAlign = 64;  // of panels

void add_part(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  if (kernels.begin != nullptr) kernels.begin();
  switch (part.tile->job->engine) {
    case Engine::int16: sum_int16(kernels, part, scratch); break;
    case Engine::bf16: break;    // compute_bf16
    case Engine::digits: break;  // compute_digits
    case Engine::f64: sum_f64(kernels, part, scratch); break;
    case Engine::chain: sum_chain(kernels, part, scratch); break;
  }
  if (kernels.end != nullptr) kernels.end();
}

/// B's panels, which a tile packs a part of the depth at a time into memory that stays in the
/// second cache.
class OwnB {
 public:
  OwnB(const Kernels& kernels, const Tile& tile, TileScratch& scratch)
      : kernels_(kernels), tile_(tile), job_(*tile.job), scratch_(scratch) {
    const Depth most{0, std::min(kOwnDepth, job_.depth.count)};
    bytes_ = panel_bytes(job_.engine, kernels.lanes_b, kMaxLanesB, most);
    scratch.own_memory.resize(bytes_ * kTilePanelsB + kAlign);
    memory_ = scratch.own_memory.data();
    memory_ += (kAlign - reinterpret_cast<std::uintptr_t>(memory_) % kAlign) % kAlign;
    for (int j = 0; j < tile.b1 - tile.b0; ++j) {
      const Panel& planned = job_.b[static_cast<std::size_t>(tile.b0 + j)];
      Panel& b = scratch.own_b[j];  // packing fills the rest of it
      b.first = planned.first;
      b.width = planned.width;
      b.step = planned.step;
      b.scale_step = planned.scale_step;
    }
  }

  /// The part that begins at `start`.
  TilePart pack(Index start) {
    const Depth depth{start, std::min(kOwnDepth, job_.depth.count - start)};
    const TilePart part{&tile_,
                        job_.a.data() + tile_.a0,
                        scratch_.own_b,
                        depth,
                        start / kRun,
                        start == 0,
                        start + depth.count == job_.depth.count};
    for (int j = 0; j < part.wide(); ++j) {
      Panel& b = scratch_.own_b[j];
      place_panel(b, job_.engine, part.depth, memory_ + static_cast<std::size_t>(j) * bytes_);
      pack_panel(kernels_, job_.engine, *job_.product, job_.product->b, part.depth, b,
                 *scratch_.pack);
    }
    return part;
  }

 private:
  const Kernels& kernels_;
  const Tile& tile_;
  const Job& job_;
  TileScratch& scratch_;
  std::size_t bytes_;
  std::byte* memory_;
};

/// Whether the panels of a tile hold one span, the whole depth.
bool is_span(const Job& job) {
  return job.engine == Engine::int16 && job.first_part() && job.last_part() &&
         job.depth.runs() <= kSpanRuns;
}

void clear_sums(const Tile& tile, TileScratch& scratch) {
  for (int j = 0; j < tile.b1 - tile.b0; ++j) {
    for (int i = 0; i < tile.a1 - tile.a0; ++i) {
      std::memset(block_of(tile, scratch, i, j), 0, sizeof(double) * kBlockSums);
    }
  }
}

void compute_with_own_b(const Kernels& kernels, const Tile& tile, TileScratch& scratch) {
  OwnB own(kernels, tile, scratch);
  if (is_span(*tile.job)) return compute_span(kernels, own.pack(0), scratch);
  clear_sums(tile, scratch);
  TilePart part = own.pack(0);
  add_part(kernels, part, scratch);
  while (!part.last) {
    part = own.pack(part.depth.start + part.depth.count);
    add_part(kernels, part, scratch);
  }
  write_tile(kernels, part, scratch);
}

}  // namespace

void compute_tile(const Kernels& kernels, const Tile& tile, TileScratch& scratch) {
  const Job& job = *tile.job;
  if (job.own_b) return compute_with_own_b(kernels, tile, scratch);
  const TilePart part{&tile, job.a.data() + tile.a0, job.b.data() + tile.b0, job.depth, 0};
  if (job.engine == Engine::bf16) return compute_bf16(kernels, part, scratch);
  if (job.engine == Engine::digits) return compute_digits(kernels, part, scratch);
  if (is_span(job)) return compute_span(kernels, part, scratch);
  if (job.first_part()) clear_sums(tile, scratch);
  add_part(kernels, part, scratch);
  if (job.last_part()) write_tile(kernels, part, scratch);
}

}  // namespace mxo::cpu

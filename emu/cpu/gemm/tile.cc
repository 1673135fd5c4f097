// The parts of a tile: what is packed when, and when its sums are rounded.
#include "emu/cpu/gemm/tile.h"

#include <emmintrin.h>

#include <algorithm>
#include <cstring>

#include "emu/cpu/gemm/digit_tile.h"
#include "emu/cpu/gemm/tile_write.h"

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

/// A depth of one span: each pair of panels is summed, rounded and written before the next, so
/// that its sums stay in the first cache.
void compute_pairs(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  const Tile& tile = *part.tile;
  if (kernels.begin != nullptr) kernels.begin();
  for (int j = 0; j < part.wide(); ++j) {
    for (int i = 0; i < part.tall(); ++i) {
      const Tile one{tile.job, tile.a0 + i, tile.a0 + i + 1, tile.b0 + j, tile.b0 + j + 1};
      const TilePart pair{&one, part.a + i, part.b + j, part.depth, part.first_of_a};
      double* sums = block_of(one, scratch, 0, 0);
      std::memset(sums, 0, sizeof(double) * kBlockSums);
      sum_int16(kernels, pair, scratch);
      write_exact(kernels, *tile.job->product, part.a[i], part.b[j], sums);
    }
  }
  if (kernels.end != nullptr) kernels.end();
  _mm_sfence();
}

void add_part(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  if (kernels.begin != nullptr) kernels.begin();
  switch (part.tile->job->engine) {
    case Engine::int16: sum_int16(kernels, part, scratch); break;
    case Engine::digits: break;  // compute_digits
    case Engine::f64: sum_f64(kernels, part, scratch); break;
    case Engine::chain: sum_chain(kernels, part, scratch); break;
  }
  if (kernels.end != nullptr) kernels.end();
}

/// All of the depth, with B packed a part at a time into memory that stays in the second cache.
TilePart add_with_own_b(const Kernels& kernels, const Tile& tile, TileScratch& scratch) {
  const Job& job = *tile.job;
  TilePart part{&tile, job.a.data() + tile.a0, scratch.own_b, {0, 0}, 0};
  const Depth most{0, std::min(kOwnDepth, job.depth.count)};
  const std::size_t bytes = panel_bytes(job.engine, kernels.lanes_b, kMaxLanesB, most);
  scratch.own_memory.resize(bytes * kTilePanelsB + kAlign);
  std::byte* memory = scratch.own_memory.data();
  memory += (kAlign - reinterpret_cast<std::uintptr_t>(memory) % kAlign) % kAlign;
  for (int j = 0; j < part.wide(); ++j) {
    Panel& b = scratch.own_b[j];
    std::vector<Rest> rests = std::move(b.rests);  // keeps its room
    b = job.b[static_cast<std::size_t>(tile.b0 + j)];
    b.rests = std::move(rests);
  }
  while (part.depth.start < job.depth.count) {
    part.depth.count = std::min(kOwnDepth, job.depth.count - part.depth.start);
    part.first_of_a = part.depth.start / kRun;
    for (int j = 0; j < part.wide(); ++j) {
      Panel& b = scratch.own_b[j];
      place_panel(b, job.engine, part.depth, memory + static_cast<std::size_t>(j) * bytes);
      pack_panel(kernels, job.engine, *job.product, job.product->b, part.depth, b, *scratch.pack);
    }
    add_part(kernels, part, scratch);
    part.depth.start += part.depth.count;
  }
  return part;
}

}  // namespace

void compute_tile(const Kernels& kernels, const Tile& tile, TileScratch& scratch) {
  const Job& job = *tile.job;
  const TilePart part{&tile, job.a.data() + tile.a0, job.b.data() + tile.b0, job.depth, 0};
  if (job.engine == Engine::digits) return compute_digits(kernels, part, scratch);
  if (job.engine == Engine::int16 && !job.own_b && job.first_part() && job.last_part() &&
      job.depth.runs() <= kSpanRuns) {
    return compute_pairs(kernels, part, scratch);
  }
  if (job.first_part()) {
    for (int j = 0; j < tile.b1 - tile.b0; ++j) {
      for (int i = 0; i < tile.a1 - tile.a0; ++i) {
        std::memset(block_of(tile, scratch, i, j), 0, sizeof(double) * kBlockSums);
      }
    }
  }
  if (job.own_b) return write_tile(kernels, add_with_own_b(kernels, tile, scratch), scratch);
  add_part(kernels, part, scratch);
  if (job.last_part()) write_tile(kernels, part, scratch);
}

}  // namespace mxo::cpu

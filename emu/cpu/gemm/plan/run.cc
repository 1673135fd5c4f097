// Packs a batch, then multiplies its tiles; all threads do both.

#include <omp.h>

#include <algorithm>
#include <memory>
#include <new>
#include <span>

#include "emu/cpu/gemm/plan/plan.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/memory_pool.h"

namespace mxo::cpu {
namespace {

/// Few threads: what their own memory leaves of 36 MiB.  Many: enough for each, because all wait
/// for the last tile of a batch.
PackedRoom room_of(int threads) {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  const std::size_t own = static_cast<std::size_t>(threads) * kMebibyte;
  const std::size_t left = 36 * kMebibyte - std::min(own, 36 * kMebibyte);
  return {std::max(left, 5 * own), std::max(8 * kMebibyte, 4 * own)};
}

/// Kept between calls: sixteen threads that map and touch new pages wait on one huge page after
/// another, a tenth of the time of a product of 2048^3.
MemoryPool& pool() {
  static MemoryPool pool;
  return pool;
}

/// In huge pages where available, because a tile touches more 4 KiB pages than the TLB holds.
class PooledMemory {
 public:
  explicit PooledMemory(std::size_t bytes) : memory_(pool().take(bytes)) {}
  ~PooledMemory() { pool().give_back(memory_); }
  PooledMemory(const PooledMemory&) = delete;
  PooledMemory& operator=(const PooledMemory&) = delete;
  std::byte* get() const { return memory_; }

 private:
  std::byte* memory_;
};

/// The threads' own memory, from the pool; a thread sets up its own, without zeroing it.
class Scratches {
 public:
  explicit Scratches(int threads)
      : memory_(static_cast<std::size_t>(threads) * kBytes),
        made_(static_cast<std::size_t>(threads)) {}

  TileScratch& of(std::size_t thread) {
    Made& made = made_[thread];
    // Without parentheses, which would zero all of it.
    if (made == nullptr) made.reset(::new (memory_.get() + thread * kBytes) TileScratch);
    return *made;
  }
  StageCounts stages() const {
    StageCounts all;
    for (const Made& made : made_) {
      if (made != nullptr) all.add(made->stages);
    }
    return all;
  }

 private:
  struct Destroy {
    void operator()(TileScratch* scratch) const { scratch->~TileScratch(); }
  };
  using Made = std::unique_ptr<TileScratch, Destroy>;
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kBytes = (sizeof(TileScratch) + kPage - 1) / kPage * kPage;

  PooledMemory memory_;
  std::vector<Made> made_;  // destroyed before the memory
};

constexpr std::size_t kAlign = 64;  // of panels

/// B's panels when a tile packs its own, a kc block at a time, into memory that
/// stays in L2.
class OwnB {
 public:
  OwnB(const Kernels& kernels, const MacroTile& tile, TileScratch& scratch)
      : kernels_(kernels), tile_(tile), packed_(*tile.packed), scratch_(scratch) {
    const KBlock largest{0, std::min(kOwnKc, packed_.k_block.count)};
    bytes_ = packed_.engine->bytes(kernels.nr, kMaxNr, largest).all();
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
      place_panel(b, packed_.engine->bytes(b.step, b.scale_step, k_block),
                  memory_ + static_cast<std::size_t>(j) * bytes_);
      pack_panel(kernels_, *packed_.engine, *packed_.product, packed_.product->b, k_block, b,
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

void compute_tile(const Kernels& kernels, const MacroTile& tile, TileScratch& scratch) {
  const PackedBlock& packed = *tile.packed;
  if (!packed.own_b) {
    return packed.engine->compute(
        kernels,
        {&tile, packed.a.data() + tile.a0, packed.panels_of_b.data() + tile.b0, packed.k_block, 0},
        scratch);
  }
  OwnB own(kernels, tile, scratch);
  for (Index start = 0; start < packed.k_block.count; start += kOwnKc) {
    packed.engine->compute(kernels, own.pack(start), scratch);
  }
}

/// Packs the current kc block of every packed block and multiplies it.
class Runner {
 public:
  Runner(const Kernels& kernels, int threads)
      : kernels_(kernels), threads_(threads), scratches_(threads) {}

  /// With `has_a` the first block's A is packed already.
  void run(std::span<PackedBlock> packed_blocks, bool has_a = false) {
    std::vector<Packing> packings;
    std::vector<MacroTile> tiles;
    const std::size_t wanted =
        (static_cast<std::size_t>(4 * threads_) + packed_blocks.size() - 1) / packed_blocks.size();
    for (PackedBlock& packed : packed_blocks) {
      if (!packed.own_b) {
        for (MicroPanel& panel : packed.b)
          packings.push_back({&packed, &panel, &packed.product->b});
      }
      if (!has_a || &packed != packed_blocks.data()) {
        for (MicroPanel& panel : packed.a) {
          packings.push_back({&packed, &panel, &packed.product->a});
        }
      }
      add_tiles(packed, wanted, tiles);
    }
    const auto packs = static_cast<Index>(packings.size());
    const auto count = static_cast<Index>(tiles.size());
#pragma omp parallel num_threads(threads_) firstprivate(ieee_thread)
    {
      TileScratch& scratch = scratches_.of(static_cast<std::size_t>(omp_get_thread_num()));
#pragma omp for schedule(dynamic, 1)
      for (Index i = 0; i < packs; ++i) {
        const Packing& p = packings[static_cast<std::size_t>(i)];
        pack_panel(kernels_, *p.packed->engine, *p.packed->product, *p.factor, p.packed->k_block,
                   *p.panel, *scratch.pack);
      }
#pragma omp for schedule(dynamic, 1)
      for (Index i = 0; i < count; ++i) {
        compute_tile(kernels_, tiles[static_cast<std::size_t>(i)], scratch);
      }
    }
  }

  StageCounts stages() const { return scratches_.stages(); }

 private:
  struct Packing {
    PackedBlock* packed;
    MicroPanel* panel;
    const Factor* factor;
  };
  const Kernels& kernels_;
  int threads_;
  Scratches scratches_;
};

}  // namespace

StageCounts run(const Kernels& kernels, const Engine& engine, const std::vector<Product>& products,
                int threads) {
  if (products.empty()) return {};
  const std::vector<PanelsOfB> kept = KeptPanels::of(kernels, engine, products, threads);
  const auto batches = batches_of(kernels, engine, products, kept, room_of(threads));
  std::size_t max_bytes = 0;
  for (const auto& batch : batches) {
    std::size_t bytes = 0;
    for (const BlockPlan& plan : batch) bytes += plan.bytes;
    max_bytes = std::max(max_bytes, bytes);
  }
  const PooledMemory memory(max_bytes);
  Runner runner(kernels, threads);
  std::vector<PackedBlock> room;  // reused, so that their vectors keep their memory
  const BlockPlan* before = nullptr;
  for (const auto& batch : batches) {
    if (room.size() < batch.size()) room.resize(batch.size());
    const std::span<PackedBlock> packed_blocks(room.data(), batch.size());
    std::byte* at = memory.get();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      set_packed_block(kernels, engine, batch[i], at, packed_blocks[i]);
      at += batch[i].bytes;
    }
    runner.run(packed_blocks, before != nullptr && continues_a(*before, batch.front()));
    before = &batch.front();
    while (!packed_blocks.front().last_kc()) {  // several kc only in a batch of one block
      KBlock& k_block = packed_blocks.front().k_block;
      k_block.start += k_block.count;
      k_block.count = std::min(k_block.count, packed_blocks.front().product->depth - k_block.start);
      runner.run(packed_blocks);
    }
  }
  return runner.stages();
}

}  // namespace mxo::cpu

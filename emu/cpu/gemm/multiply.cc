// Exact sums and fma chains: pack a batch, then multiply its tiles, all threads at both.
#include "emu/cpu/gemm/multiply.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <span>

#include "emu/cpu/gemm/engines/bf16/bf16_tiles.h"
#include "emu/cpu/gemm/plan/plan.h"
#include "emu/cpu/gemm/tiles/zeros.h"

namespace mxo::cpu {

namespace {

/// Packed operands and the threads' own memory stay below 64 MiB together.
constexpr std::size_t kMebibyte = std::size_t{1} << 20;
std::size_t packed_bytes(int threads) {
  const std::size_t own = static_cast<std::size_t>(threads) * kMebibyte;
  return own < 28 * kMebibyte ? 36 * kMebibyte - own : 8 * kMebibyte;
}

/// Packed panels: anonymous memory in large pages where the system has them, because a tile
/// walks over more small ones than a TLB holds.
class PackedMemory {
 public:
  explicit PackedMemory(std::size_t bytes) : bytes_(bytes + kLargePage) {
    void* memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(memory);
    madvise(memory_, bytes_, MADV_HUGEPAGE);
  }
  ~PackedMemory() { munmap(memory_, bytes_); }
  PackedMemory(const PackedMemory&) = delete;
  PackedMemory& operator=(const PackedMemory&) = delete;
  std::byte* get() const {
    const auto at = reinterpret_cast<std::uintptr_t>(memory_);
    return memory_ + (kLargePage - at % kLargePage) % kLargePage;
  }

 private:
  static constexpr std::size_t kLargePage = 2 * kMebibyte;
  std::byte* memory_;
  std::size_t bytes_;
};

/// Packs the current kc block of every packed block and multiplies it.
class Runner {
 public:
  Runner(const Kernels& kernels, int threads) : kernels_(kernels), threads_(threads) {
    for (int t = 0; t < threads; ++t) scratch_.push_back(make_tile_scratch());
    for (int t = 0; t < threads; ++t) pack_.push_back(make_pack_scratch());
  }

  void run(std::span<PackedBlock> packed_blocks) {
    std::vector<Packing> packings;
    std::vector<MacroTile> tiles;
    const std::size_t wanted = static_cast<std::size_t>(4 * threads_) / packed_blocks.size() + 1;
    for (PackedBlock& packed : packed_blocks) {
      if (!packed.own_b) {
        for (MicroPanel& panel : packed.b)
          packings.push_back({&packed, &panel, &packed.product->b});
      }
      for (MicroPanel& panel : packed.a) packings.push_back({&packed, &panel, &packed.product->a});
      add_tiles(packed, wanted, tiles);
    }
    const auto packs = static_cast<Index>(packings.size());
    const auto count = static_cast<Index>(tiles.size());
#pragma omp parallel num_threads(threads_)
    {
      const auto thread = static_cast<std::size_t>(omp_get_thread_num());
#pragma omp for schedule(dynamic, 1)
      for (Index i = 0; i < packs; ++i) {
        const Packing& p = packings[static_cast<std::size_t>(i)];
        pack_panel(kernels_, p.packed->engine, *p.packed->product, *p.factor, p.packed->k_block,
                   *p.panel, *pack_[thread]);
      }
#pragma omp for schedule(dynamic, 1)
      for (Index i = 0; i < count; ++i) {
        compute_tile(kernels_, tiles[static_cast<std::size_t>(i)], *scratch_[thread]);
      }
    }
  }

 private:
  struct Packing {
    PackedBlock* packed;
    MicroPanel* panel;
    const Factor* factor;
  };
  const Kernels& kernels_;
  int threads_;
  std::vector<TileScratchPtr> scratch_;
  std::vector<PackScratchPtr> pack_;
};

Engine engine_of(const Accumulation& sum, Scaling scaling) {
  if (sum.family == SumFamily::fma_chain) return Engine::chain;
  return scaling == Scaling::none ? Engine::f64 : Engine::int16;
}

/// Sums of three slices are rounded to bf16 only.
bool suits_three_slices(const Product& product) {
  return product.out.dtype == Dtype::bf16 && product.scaling == Scaling::none &&
         product.depth <= kMaxThreeSliceK;
}

/// K-vectors of codes that are neighbours in memory, as rows contracted have them.
bool suits_bf16(const Product& product) {
  return product.out.dtype == Dtype::bf16 && product.scaling == Scaling::mx &&
         product.depth <= kMaxBf16K && product.depth % kBlock == 0 && product.a.row_step == 1 &&
         product.b.row_step == 1;
}

void multiply_all(const Kernels& kernels, int threads, Engine engine,
                  const std::vector<Product>& products) {
  if (products.empty()) return;
  const auto batches = batches_of(kernels, engine, products, packed_bytes(threads));
  std::size_t max_bytes = 0;
  for (const auto& batch : batches) {
    std::size_t bytes = 0;
    for (const BlockPlan& plan : batch) bytes += plan.bytes;
    max_bytes = std::max(max_bytes, bytes);
  }
  const PackedMemory memory(max_bytes);
  Runner runner(kernels, threads);
  std::vector<PackedBlock> room;  // their vectors are used again
  for (const auto& batch : batches) {
    if (room.size() < batch.size()) room.resize(batch.size());
    const std::span<PackedBlock> packed_blocks(room.data(), batch.size());
    std::byte* at = memory.get();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      set_packed_block(kernels, engine, batch[i], at, packed_blocks[i]);
      at += batch[i].bytes;
    }
    runner.run(packed_blocks);
    while (!packed_blocks.front().last_kc()) {  // only a block alone has several kc
      KBlock& k_block = packed_blocks.front().k_block;
      k_block.start += k_block.count;
      k_block.count = std::min(k_block.count, packed_blocks.front().product->depth - k_block.start);
      runner.run(packed_blocks);
    }
  }
}

void multiply_all(const Kernels& kernels, int threads, const Accumulation& sum, Scaling scaling,
                  std::vector<Product> products) {
  const auto empty = std::stable_partition(
      products.begin(), products.end(), [](const Product& product) { return product.depth > 0; });
  if (empty != products.end()) write_zeros({empty, products.end()}, threads);
  products.erase(empty, products.end());
  const Engine engine = engine_of(sum, scaling);
  const auto take = [&](bool has, Engine by, bool (*suits)(const Product&)) {
    if (engine == Engine::chain || !has) return;
    const auto others = std::stable_partition(products.begin(), products.end(), suits);
    multiply_all(kernels, threads, by, {products.begin(), others});
    products.erase(products.begin(), others);
  };
  take(kernels.add_three_slices != nullptr, Engine::three_slices, suits_three_slices);
  take(kernels.bf16 != nullptr, Engine::bf16, suits_bf16);
  multiply_all(kernels, threads, engine, products);
}

}  // namespace

void multiply(const GroupedMatmul& op, const Kernels& kernels, int threads) {
  multiply_all(kernels, threads, op.sum, op.scaling, group_products(op));
}

void multiply(const GroupedMatmulWgrad& op, const Kernels& kernels, int threads) {
  multiply_all(kernels, threads, op.sum, op.scaling, group_products(op));
}

}  // namespace mxo::cpu

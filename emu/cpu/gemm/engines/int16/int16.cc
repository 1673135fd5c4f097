// The int16 engine: 8-bit codes as pairs of int16, int32 sums over a run, flushed to f64 whenever
// the unit changes.
#include <cstring>

#include "emu/cpu/gemm/pack/integer_packer.h"
#include "emu/cpu/gemm/tiles/engine.h"
#include "emu/cpu/gemm/tiles/integer_pair.h"

namespace mxo::cpu {
namespace {

class PairPacker : IntegerPacker {
 public:
  using IntegerPacker::IntegerPacker;

  void pack() {
    begin();
    std::memset(panel_.scales, 0,
                static_cast<std::size_t>(k_block_.runs() * kRunBlocks * panel_.scale_step) * 8);
    for (int lane = panel_.width; lane < panel_.step; ++lane) {
      std::memset(scratch_.k_vectors[lane], 0, sizeof(scratch_.k_vectors[lane]));
    }
    for (Index run = 0; run < k_block_.runs(); ++run) {
      begin_run(run);
      pack_run(run);
    }
    end();
  }

 private:
  void pack_run(Index run) {
    const int count = k_block_.run_count(run);
    scratch_.codes.fetch(kernels_.isa, factor_, panel_.first, panel_.width,
                         k_block_.start + run * kRun, count);
    for (int lane = 0; lane < panel_.width; ++lane) {
      pack_pairs(run, count, lane, reinterpret_cast<std::int32_t*>(scratch_.k_vectors[lane]));
    }
    auto* to = static_cast<std::uint32_t*>(panel_.data) + run * kRunPairs * panel_.step;
    const int blocks = static_cast<int>(ceil_div(count, kBlock));
    kernels_.interleave(panel_.step, kPairs * blocks, scratch_.k_vectors[0], kRun, to, panel_.step);
  }
};

constexpr Index kRunsAtOnce = 2;  // of a pair

PanelBytes bytes(int step, int scale_step, const KBlock& k_block) {
  return integer_bytes(k_block.runs() * kRunPairs * step * 4, scale_step, k_block);
}

void pack(const Kernels& kernels, const Product& product, const Factor& factor,
          const KBlock& k_block, MicroPanel& panel, PackScratch& scratch) {
  PairPacker(kernels, product, factor, k_block, panel, scratch).pack();
}

void add_pairs(const Kernels& kernels, const IntegerPair& pair, Index run, double* sums) {
  alignas(64) std::int32_t dots[kMaxMr * kMaxNr];
  const int blocks = static_cast<int>(ceil_div(pair.k_block().run_count(run), kBlock));
  const int step = pair.split(run) ? 1 : blocks;
  for (int block = 0; block < blocks; block += step) {
    const Index at = run * kRunBlocks + block;
    kernels.dot_int16(pair.a().step, block, step, pair.data_a(run), pair.data_b(run), dots);
    kernels.add_scaled(pair.a().step, dots, pair.scales_a(at), pair.scales_b(at), sums);
  }
}

/// While the runs are in L1.
void add_residuals(const Kernels& kernels, const IntegerPair& pair, const RunRange& runs,
                   double* sums, int at, TileScratch& scratch) {
  const std::span<const Residual> of_a = pair.residuals_of_a(runs);
  const Index block = runs.first * kRunBlocks;
  kernels.add_residuals_of_a(of_a.data(), static_cast<int>(of_a.size()),
                             static_cast<int>(pair.element_of_a(runs.first)),
                             pair.data_b(runs.first), pair.scales_b(block), sums);
  pair.add_products_of_residuals(runs, sums);
  const std::span<const Residual> of_b = pair.residuals_of_b(runs);
  if (of_b.empty()) return;
  kernels.add_residuals_of_b(pair.a().step, of_b.data(), static_cast<int>(of_b.size()),
                             static_cast<int>(runs.first * kRun), pair.data_a(runs.first),
                             pair.scales_a(block), transposed_of(scratch, at));
}

void compute_whole(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  sum_and_write(kernels, tile, scratch, [](const auto& k, const KcTile& t, TileScratch& s) {
    sum_integers(k, t, s, kRunsAtOnce,
                 [&](const IntegerPair& pair, const RunRange& runs, double* sums, int at) {
                   for (Index run = runs.first; run < runs.end; ++run) {
                     add_pairs(k, pair, run, sums);
                   }
                   add_residuals(k, pair, runs, sums, at, s);
                 });
    finish_integers(k, t, s);
  });
}

/// With a short K, a pair's sums are rounded while still in L1.
void compute(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  const bool is_short = tile.begins_k() && tile.ends_k() && tile.k_block.runs() <= kSpanRuns;
  if (!is_short) return compute_whole(kernels, tile, scratch);
  each_pair(tile, [&](const KcTile& pair, int, int) { compute_whole(kernels, pair, scratch); });
}

bool suits(const Product& product) { return product.form != ScaleForm::none; }

}  // namespace

const Engine kInt16Engine = {suits, false, false, &Kernels::mr_integers, bytes, pack, compute};

}  // namespace mxo::cpu

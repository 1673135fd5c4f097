// Loops over the panels of a macro-tile of three slices, some chunks of K at a time.
#include <algorithm>
#include <cstring>

#include "emu/cpu/gemm/engines/tile_kernels.h"
#include "emu/cpu/gemm/tiles/writer.h"
#include "emu/cpu/streaming.h"

namespace mxo::cpu {
namespace {

constexpr int kHalves = kMaxNr / kTileLanes;
/// Up to this many chunks, K is summed in one pass and rounded while its sums are in L1.
constexpr Index kMaxChunksAtOnce = 12;

struct ThreeSliceBlock {
  ThreeSliceSums halves[kMaxNr / kTileLanes];
};

class ThreeSliceTile {
 public:
  ThreeSliceTile(const Kernels& kernels, const KcTile& tile, TileScratch& scratch)
      : kernels_(kernels),
        tile_(tile),
        scratch_(scratch),
        writer_(tile.product()),
        chunks_(ceil_div(tile.k_block.count, kChunk)) {}

  void compute() {
    if (chunks_ <= kMaxChunksAtOnce) {
      blocks_ = scratch_.room<ThreeSliceBlock>(2);
      return pipeline_pairs(
          tile_, kHalves, [this](int i, int j) { return takes(i, j); },
          [this](const PipelinedPair& pair, int half) { add(pair, half, 0, chunks_); },
          [this](const PipelinedPair& pair, int first, int end) { write(pair, first, end); });
    }
    blocks_ = scratch_.room<ThreeSliceBlock>(kMaxTilePairs);
    for (Index first = 0; first < chunks_; first += kSpanChunksAtOnce) {
      const Index end = std::min<Index>(first + kSpanChunksAtOnce, chunks_);
      for (int j = 0; j < tile_.wide(); ++j) {
        for (int half = 0; half < kHalves; ++half) {
          for (int i = 0; i < tile_.tall(); ++i) {
            if (takes(i, j)) add({i, j, j * tile_.tall() + i}, half, first, end);
          }
        }
        for (int i = 0; i < tile_.tall() && end == chunks_; ++i) {
          if (takes(i, j)) write({i, j, j * tile_.tall() + i}, 0, kTileLanes);
        }
      }
    }
  }

 private:
  bool takes(int i, int j) const {
    return !tile_.a[i].residual_overflow && !tile_.b[j].residual_overflow;
  }

  void add(const PipelinedPair& pair, int half, Index first, Index end) {
    const auto* a = static_cast<const std::int8_t*>(tile_.a[pair.a].data);
    const auto* b = static_cast<const std::int8_t*>(tile_.b[pair.b].data) +
                    half * tile_.k_block.runs() * kChunks * kThreeSliceChunkBytes;
    kernels_.tiles->add_three_slices(
        static_cast<int>(end - first), a + first * kThreeSliceChunkBytes,
        b + first * kThreeSliceChunkBytes, first != 0, blocks_[pair.block].halves[half]);
  }

  void write(const PipelinedPair& of, int first, int end) {
    SlicePair<ThreeSlices>(tile_.k_block, tile_.a[of.a], tile_.b[of.b], blocks_[of.block].halves)
        .write(writer_, first, end, scratch_);
  }

  const Kernels& kernels_;
  const KcTile& tile_;
  TileScratch& scratch_;
  Writer writer_;
  Index chunks_;
  ThreeSliceBlock* blocks_ = nullptr;
};

PanelBytes bytes(int step, int, const KBlock& k_block) {
  return {whole_lines(k_block.runs() * kRun * kSlices * step)};
}

void compute(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  {
    const TileRegisters registers(*kernels.tiles);
    ThreeSliceTile(kernels, tile, scratch).compute();
  }
  compute_overflow(kernels, tile, scratch);
  finish_streams();  // before the threads join
}

/// Sums of three slices are rounded to bf16 only.
bool suits(const Product& product) {
  return product.out.dtype == Dtype::bf16 && product.form == ScaleForm::none &&
         product.depth <= kMaxThreeSliceK;
}

}  // namespace

const Engine kThreeSlicesEngine = {
    suits, true, true, &Kernels::mr_integers, bytes, pack_three_slices, compute};

}  // namespace mxo::cpu

// K is one span: each pair of panels is summed, rounded and written before the next, so
// that its sums stay in L1; where the panels allow it, rounded in f32 from the integers.

#include <algorithm>
#include <cstring>

#include "emu/cpu/gemm/engines/tile_kernels.h"
#include "emu/cpu/gemm/tiles/integer_pair.h"
#include "emu/cpu/streaming.h"

namespace mxo::cpu {
namespace {

/// Adds spans to pairs; what is left to do for one is done while the next is summed.
class SpanSums {
 public:
  SpanSums(const TileKernels& tiles, TileScratch& scratch) : tiles_(tiles), scratch_(scratch) {}

  void add(const IntegerPair& pair, const RunRange& runs, int half, double* sums, int at) {
    const Index first = runs.first * kRunBlocks;
    const Index end = std::min(runs.end * kRun, pair.k_block().count);
    bool any_split = false;
    for (Index run = runs.first; run < runs.end; ++run) any_split = any_split || pair.split(run);
    double* c = sums + half * kTileLanes;
    if (!any_split) {
      const auto chunks = static_cast<int>(ceil_div(end - runs.first * kRun, kChunk));
      add(pair, first, half, {0, chunks, ChunkRange::both}, c);
    }
    for (Index block = first; block * kBlock < end && any_split; ++block) {
      const auto of_run = static_cast<int>(block % kRunBlocks);
      add(pair, block, half,
          {of_run / 2, 1, of_run % 2 == 0 ? ChunkRange::lower : ChunkRange::upper}, c);
    }
    add_residuals(pair, runs, half, sums, at);
  }

  void finish() {
    if (pending_.slices != nullptr) avx512_add_pending(pending_, 0, 0);
    pending_ = {};
  }

 private:
  void add(const IntegerPair& pair, Index block, int half, const ChunkRange& range, double* c) {
    TwoSliceSums& slices = slices_[next_];
    tiles_.sum_two_slices(half, range, data_a(pair, block / kRunBlocks),
                          data_b(pair, block / kRunBlocks), pending_, slices);
    pending_ = {};
    pending_.slices = &slices;
    pending_.scale_a = pair.scales_a(block);
    pending_.scale_b = pair.scales_b(block) + half * kTileLanes;
    pending_.c = c;
    next_ = 1 - next_;
  }

  /// Of all of the runs, with the last of their sums; residuals of B with the second half.
  void add_residuals(const IntegerPair& pair, const RunRange& runs, int half, double* sums,
                     int at) {
    const Index block = runs.first * kRunBlocks;
    pending_.of_a = {
        pair.residuals_of_a(runs), static_cast<unsigned>(pair.element_of_a(runs.first)),
        data_b(pair, runs.first) + tile_of_b(half, 0, 0), pair.scales_b(block) + half * kTileLanes};
    if (half == 0) return pair.add_products_of_residuals(runs, sums);
    pending_.of_b = {pair.residuals_of_b(runs), static_cast<unsigned>(runs.first * kRun),
                     data_a(pair, runs.first), pair.scales_a(block)};
    if (!pending_.of_b.residuals.empty()) pending_.d = transposed_of(scratch_, at);
  }

  static const std::int8_t* data_a(const IntegerPair& pair, Index run) {
    return reinterpret_cast<const std::int8_t*>(pair.data_a(run));
  }
  static const std::int8_t* data_b(const IntegerPair& pair, Index run) {
    return reinterpret_cast<const std::int8_t*>(pair.data_b(run));
  }

  const TileKernels& tiles_;
  TileScratch& scratch_;
  alignas(64) TwoSliceSums slices_[2];
  int next_ = 0;
  PendingSums pending_;
};

void sum_two_slices(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  const TileRegisters registers(*kernels.tiles);
  SpanSums spans(*kernels.tiles, scratch);
  sum_integers(kernels, tile, scratch, span_runs(tile.product().form), kMaxNr / kTileLanes,
               [&](const IntegerPair& pair, const RunRange& runs, int half, double* sums, int at) {
                 spans.add(pair, runs, half, sums, at);
               });
  spans.finish();
  finish_integers(kernels, tile, scratch);
}

struct TwoSliceBlock {
  TwoSliceSums halves[kMaxNr / kTileLanes];
};

class SpanTile {
 public:
  SpanTile(const Kernels& kernels, const KcTile& tile, TileScratch& scratch)
      : kernels_(kernels),
        tile_(tile),
        scratch_(scratch),
        writer_(*tile.tile->packed->product),
        chunks_(static_cast<int>(ceil_div(tile.k_block.count, kChunk))),
        blocks_(scratch.room<TwoSliceBlock>(2)) {}

  void compute() {
    {
      const TileRegisters registers(*kernels_.tiles);
      pipeline_pairs(
          tile_, chunks_ + 1, [this](int i, int j) { return direct(i, j); },
          [this](const PipelinedPair& pair, int chunk) { add(pair, chunk); },
          [this](const PipelinedPair& pair, int first, int end) { write(pair, first, end); });
    }
    each_pair(tile_, [this](const KcTile& pair, int i, int j) {
      if (!direct(i, j)) sum_and_write(kernels_, pair, scratch_, sum_two_slices);
    });
  }

 private:
  bool direct(int i, int j) const { return tile_.a[i].direct && tile_.b[j].direct; }

  void add(const PipelinedPair& pair, int chunk) {
    kernels_.tiles->add_two_slices(
        chunk, chunks_, static_cast<const std::int8_t*>(tile_.a[pair.a].data),
        static_cast<const std::int8_t*>(tile_.b[pair.b].data), blocks_[pair.block].halves);
  }

  void write(const PipelinedPair& of, int first, int end) {
    if (first == end) return;
    SlicePair<TwoSlices>(tile_.k_block, tile_.a[of.a], tile_.b[of.b], blocks_[of.block].halves)
        .write(writer_, first, end, scratch_);
  }

  const Kernels& kernels_;
  const KcTile& tile_;
  TileScratch& scratch_;
  Writer writer_;
  int chunks_;
  TwoSliceBlock* blocks_;  ///< double buffer: two pairs
};

PanelBytes bytes(int step, int scale_step, const KBlock& k_block) {
  return integer_bytes(k_block.runs() * kRunPairs * step * 4, scale_step, k_block);
}

void compute(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  const bool one_span = tile.begins_k() && tile.ends_k() && tile.k_block.runs() <= kSpanRuns;
  if (!one_span) return sum_and_write(kernels, tile, scratch, sum_two_slices);
  SpanTile(kernels, tile, scratch).compute();
  finish_streams();  // before the threads join
}

bool suits(const Product& product) { return product.form != ScaleForm::none; }

}  // namespace

const Engine kTwoSlicesEngine = {suits, false,           true,   &Kernels::mr_integers,
                                 bytes, pack_two_slices, compute};

}  // namespace mxo::cpu

// K is one span: each pair of panels is summed, rounded and written before the next, so
// that its sums stay in L1; where the panels allow it, rounded in f32 from the integers.

#include <algorithm>
#include <cstring>

#include "emu/cpu/gemm/engines/tile_kernels.h"
#include "emu/cpu/gemm/tiles/integer_pair.h"
#include "emu/cpu/streaming.h"

namespace mxo::cpu {
namespace {

/// A panel's part of a span: next to each other what a pair reads, because those of all panels of
/// B do not stay in L1.
struct SpanOfPanel {
  SpanOfPanel() = default;
  /// Runs are numbered as in B; B's first is run `first` of the panel.
  SpanOfPanel(const MicroPanel& panel, const RunRange& runs, Index first, int bytes_of_run)
      : data(static_cast<const std::int8_t*>(panel.data) + (first + runs.first) * bytes_of_run),
        scales(panel.scales + (first + runs.first) * kRunBlocks * panel.scale_step),
        residuals(panel.residuals_in({first + runs.first, first + runs.end})),
        places(panel.residual_places + 2 * (first + runs.first)),
        from(static_cast<unsigned>((first + runs.first) * kRun)) {
    for (Index run = runs.first; run < runs.end; ++run) split |= panel.split[first + run] != 0;
  }

  bool shares_place(const SpanOfPanel& other, const RunRange& runs) const {
    std::uint64_t both = 0;
    for (Index i = 0; i < 2 * (runs.end - runs.first); ++i) both |= places[i] & other.places[i];
    return both != 0;
  }
  void fetch() const {
    __builtin_prefetch(places);
    __builtin_prefetch(scales);
    __builtin_prefetch(scales + 8);
    for (std::size_t i = 0; i < residuals.size() && i < 8; i += 4) {
      __builtin_prefetch(&residuals[i]);
    }
  }

  const std::int8_t* data = nullptr;
  const double* scales = nullptr;
  std::span<const Residual> residuals;
  const std::uint64_t* places = nullptr;
  unsigned from = 0;  ///< the element at which it starts
  bool split = false;
};

/// Adds spans to pairs; what is left to do for one is done while the next is summed.
class SpanSums {
 public:
  SpanSums(const Kernels& kernels, const KcTile& tile, TileScratch& scratch)
      : kernels_(kernels), tile_(tile), scratch_(scratch) {}

  void add(const RunRange& runs) {
    bool residuals_of_b = false;
    for (int j = 0; j < tile_.wide(); ++j) {
      if (!takes(tile_.b[j])) continue;
      of_b_[j] = {tile_.b[j], runs, 0, 2 * kRunBytes};
      residuals_of_b = residuals_of_b || !of_b_[j].residuals.empty();
    }
    for (int i = 0; i < tile_.tall(); ++i) {
      if (!takes(tile_.a[i])) continue;
      const SpanOfPanel a(tile_.a[i], runs, tile_.first_of_a, kRunBytes);
      copied_ = !residuals_of_b;
      for (int j = 0; j < tile_.wide(); ++j) {
        if (!takes(tile_.b[j])) continue;
        if (j + 1 < tile_.wide() && takes(tile_.b[j + 1])) of_b_[j + 1].fetch();
        for (int half = 0; half < kMaxNr / kTileLanes; ++half) add(runs, half, i, j, a, of_b_[j]);
      }
    }
  }

  void finish() {
    avx512_add_pending(pending_, 0);
    pending_ = {};
  }

 private:
  static bool takes(const MicroPanel& panel) { return !panel.residual_overflow; }

  void add(const RunRange& runs, int half, int i, int j, const SpanOfPanel& a,
           const SpanOfPanel& b) {
    const Index count = std::min(runs.end * kRun, tile_.k_block.count) - runs.first * kRun;
    double* sums = block_of(*tile_.tile, scratch_, i, j);
    ahead_ = ahead_of(runs, half, i, j);
    PairResiduals residuals;
    residuals.c = sums + half * kTileLanes;
    residuals.of_a = {a.residuals, a.from, b.data + tile_of_b(half, 0, 0),
                      b.scales + half * kTileLanes};
    if (half == 0) {
      if (a.shares_place(b, runs)) {
        IntegerPair(kernels_, tile_.k_block, tile_.a[i], tile_.first_of_a, tile_.b[j])
            .add_products_of_residuals(runs, sums);
      }
    } else if (!b.residuals.empty()) {  // those of B for both halves
      residuals.of_b = {b.residuals, b.from, copy_, a.scales};
      residuals.d = transposed_of(scratch_, j * tile_.tall() + i);
    }
    if (!a.split && !b.split) {
      const auto chunks = static_cast<int>(ceil_div(count, kChunk));
      std::int8_t* copy = copied_ ? nullptr : copy_;
      copied_ = true;
      return add(a, b, 0, half, {0, chunks, ChunkRange::both}, residuals, copy);
    }
    if (!copied_) avx512_copy_as_b(static_cast<int>(ceil_div(count, kChunk)), a.data, copy_);
    copied_ = true;
    for (int block = 0; block * kBlock < count; ++block) {
      const int of_run = block % kRunBlocks;
      add(a, b, block, half,
          {of_run / 2, 1, of_run % 2 == 0 ? ChunkRange::lower : ChunkRange::upper}, residuals,
          nullptr);
      residuals.of_a.residuals = residuals.of_b.residuals = {};
    }
  }

  /// This half's share of what is read soon and not in the caches: of B's next span or, where B
  /// was packed a moment ago, of the next panel of A; else null.
  const std::int8_t* ahead_of(const RunRange& runs, int half, int i, int j) const {
    const Index bytes = (runs.end - runs.first) * kRunBytes;
    if (tile_.tile->packed->own_b) {
      if (i + 1 == tile_.tall()) return nullptr;
      return static_cast<const std::int8_t*>(tile_.a[i + 1].data) +
             (tile_.first_of_a + runs.first) * kRunBytes +
             (2 * j + half) * bytes / (2 * tile_.wide());
    }
    if (runs.end == tile_.k_block.runs()) return nullptr;
    return of_b_[j].data + 2 * bytes + (half * tile_.tall() + i) * bytes / tile_.tall();
  }

  /// From block `block` of the span on.
  void add(const SpanOfPanel& a, const SpanOfPanel& b, int block, int half, const ChunkRange& range,
           const PairResiduals& residuals, std::int8_t* copy) {
    const int run = block / kRunBlocks;
    TwoSliceSums& slices = slices_[next_];
    kernels_.tiles->sum_two_slices(half, range, a.data + run * kRunBytes,
                                   b.data + run * 2 * kRunBytes, pending_, residuals, copy, ahead_,
                                   slices);
    pending_ = {&slices, a.scales + block * kMaxMr, b.scales + block * kMaxNr + half * kTileLanes,
                residuals.c};
    next_ = 1 - next_;
  }

  const Kernels& kernels_;
  const KcTile& tile_;
  TileScratch& scratch_;
  SpanOfPanel of_b_[kMaxPanelsNc];
  /// A panel's integers as tiles of B, in which a residual of B finds those of 16 lanes side by
  /// side.
  alignas(64) std::int8_t copy_[kSpanRuns * kRunBytes];
  bool copied_ = false;
  const std::int8_t* ahead_ = nullptr;
  alignas(64) TwoSliceSums slices_[2];
  int next_ = 0;
  PendingSums pending_;
};

void sum_two_slices(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  const TileRegisters registers(*kernels.tiles);
  SpanSums spans(kernels, tile, scratch);
  begin_transposed(tile, scratch);
  const Index step = span_runs(tile.product().form);
  for (Index first = 0; first < tile.k_block.runs(); first += step) {
    spans.add({first, std::min(first + step, tile.k_block.runs())});
  }
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

// K is one span: each pair of panels is summed, rounded and written before the next, so
// that its sums stay in L1; where the panels allow it, rounded in f32 from the integers.
#include "emu/cpu/gemm/engines/two_slices/span_tile.h"

#include <algorithm>
#include <cstring>

#include "emu/cpu/gemm/engines/two_slices/pair.h"
#include "emu/cpu/gemm/tiles/pair_rows.h"
#include "emu/cpu/gemm/tiles/tile_write.h"
#include "emu/cpu/simd/streaming.h"

namespace mxo::cpu {
namespace {

class SpanTile {
 public:
  SpanTile(const Kernels& kernels, const KcTile& tile, TileScratch& scratch)
      : kernels_(kernels),
        tile_(tile),
        scratch_(scratch),
        writer_(*tile.tile->packed->product),
        chunks_(static_cast<int>(ceil_div(tile.k_block.count, kChunk))) {}

  void compute() {
    pipeline_pairs(
        tile_, chunks_ + 1, [this](int i, int j) { return direct(i, j); },
        [this](const PipelinedPair& pair, int chunk) { add(pair, chunk); },
        [this](const PipelinedPair& pair, int first, int end) { write(pair, first, end); });
    const auto is_direct = [](const MicroPanel& panel) { return panel.direct; };
    if (std::all_of(tile_.a, tile_.a + tile_.tall(), is_direct) &&
        std::all_of(tile_.b, tile_.b + tile_.wide(), is_direct)) {
      return;
    }
    for (int j = 0; j < tile_.wide(); ++j) {
      for (int i = 0; i < tile_.tall(); ++i) {
        if (!direct(i, j)) compute_in_f64(i, j);
      }
    }
  }

 private:
  bool direct(int i, int j) const { return tile_.a[i].direct && tile_.b[j].direct; }

  void add(const PipelinedPair& pair, int chunk) {
    kernels_.slices->add_chunk(
        chunk, chunks_, static_cast<const std::int8_t*>(tile_.a[pair.a].data),
        static_cast<const std::int8_t*>(tile_.b[pair.b].data), scratch_.slices[pair.block].halves);
  }

  void write(const PipelinedPair& of, int first, int end) {
    if (first == end) return;
    const MicroPanel& a = tile_.a[of.a];
    const MicroPanel& b = tile_.b[of.b];
    const TwoSlicePair pair(tile_.k_block, a, b, scratch_.slices[of.block].halves);
    const auto round = [&](int begin, int end_row, RoundedRows& to) {
      round_sums(begin, end_row, pair, to);
    };
    const auto sum_of = [&](int m, int n) { return pair.sum(m, n); };
    write_rows(writer_, a, b, first, end, round, sum_of, scratch_.rows);
  }

  void compute_in_f64(int i, int j) {
    const MacroTile& whole = *tile_.tile;
    const MacroTile one_pair{whole.packed, whole.a0 + i, whole.a0 + i + 1, whole.b0 + j,
                             whole.b0 + j + 1};
    const KcTile one_kc{&one_pair, tile_.a + i, tile_.b + j, tile_.k_block, tile_.first_of_a};
    double* sums = block_of(one_pair, scratch_, 0, 0);
    std::memset(sums, 0, sizeof(double) * kBlockSums);
    sum_int16(kernels_, one_kc, scratch_);
    write_exact(kernels_, *whole.packed->product, tile_.a[i], tile_.b[j], sums);
  }

  const Kernels& kernels_;
  const KcTile& tile_;
  TileScratch& scratch_;
  Writer writer_;
  int chunks_;
};

}  // namespace

void compute_span(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  if (kernels.begin != nullptr) kernels.begin();
  SpanTile(kernels, tile, scratch).compute();
  if (kernels.end != nullptr) kernels.end();
  finish_streams();  // before the threads join
}

}  // namespace mxo::cpu

// A depth of one span: each pair of panels is summed, rounded and written before the next, so that
// its sums stay in the first cache; where the panels allow it, rounded in f32 from the integers.
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
  SpanTile(const Kernels& kernels, const TilePart& part, TileScratch& scratch)
      : kernels_(kernels),
        part_(part),
        scratch_(scratch),
        writer_(*part.tile->job->product),
        chunks_(static_cast<int>(ceil_div(part.depth.count, kChunk))) {}

  void compute() {
    pairs_in_turn(
        part_, chunks_ + 1, [this](int i, int j) { return direct(i, j); },
        [this](const PairInTurn& pair, int chunk) { add(pair, chunk); },
        [this](const PairInTurn& pair, int first, int past) { write(pair, first, past); });
    const auto is_direct = [](const Panel& panel) { return panel.direct; };
    if (std::all_of(part_.a, part_.a + part_.tall(), is_direct) &&
        std::all_of(part_.b, part_.b + part_.wide(), is_direct)) {
      return;
    }
    for (int j = 0; j < part_.wide(); ++j) {
      for (int i = 0; i < part_.tall(); ++i) {
        if (!direct(i, j)) compute_in_f64(i, j);
      }
    }
  }

 private:
  bool direct(int i, int j) const { return part_.a[i].direct && part_.b[j].direct; }

  void add(const PairInTurn& pair, int chunk) {
    kernels_.planes->add_chunk(
        chunk, chunks_, static_cast<const std::int8_t*>(part_.a[pair.a].data),
        static_cast<const std::int8_t*>(part_.b[pair.b].data), scratch_.planes[pair.block].halves);
  }

  void write(const PairInTurn& of, int first, int past) {
    if (first == past) return;
    const Panel& a = part_.a[of.a];
    const Panel& b = part_.b[of.b];
    const PlanePair pair(part_.depth, a, b, scratch_.planes[of.block].halves);
    const auto round = [&](int begin, int end, RoundedRows& to) {
      round_sums(begin, end, pair, to);
    };
    const auto sum_of = [&](int m, int n) { return pair.sum(m, n); };
    write_rows(writer_, a, b, first, past, round, sum_of, scratch_.rows);
  }

  void compute_in_f64(int i, int j) {
    const Tile& tile = *part_.tile;
    const Tile one{tile.job, tile.a0 + i, tile.a0 + i + 1, tile.b0 + j, tile.b0 + j + 1};
    const TilePart pair{&one, part_.a + i, part_.b + j, part_.depth, part_.first_of_a};
    double* sums = block_of(one, scratch_, 0, 0);
    std::memset(sums, 0, sizeof(double) * kBlockSums);
    sum_int16(kernels_, pair, scratch_);
    write_exact(kernels_, *tile.job->product, part_.a[i], part_.b[j], sums);
  }

  const Kernels& kernels_;
  const TilePart& part_;
  TileScratch& scratch_;
  Writer writer_;
  int chunks_;
};

}  // namespace

void compute_span(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  if (kernels.begin != nullptr) kernels.begin();
  SpanTile(kernels, part, scratch).compute();
  if (kernels.end != nullptr) kernels.end();
  finish_streams();  // before the threads join
}

}  // namespace mxo::cpu

// Pairs of panels of codes as bf16: summed in f32, rounded while the next is summed, and written.
#include "emu/cpu/gemm/bf16_tile.h"

#include "emu/cpu/gemm/pair_rows.h"

namespace mxo::cpu {
namespace {

class Bf16Tile {
 public:
  Bf16Tile(const Kernels& kernels, const TilePart& part, TileScratch& scratch)
      : kernels_(*kernels.bf16),
        part_(part),
        scratch_(scratch),
        writer_(*part.tile->job->product),
        blocks_(static_cast<int>(part.depth.blocks())) {}

  void compute() {
    pairs_in_turn(
        part_, 2, [this](int i, int j) { return !part_.a[i].dense && !part_.b[j].dense; },
        [this](const PairInTurn& pair, int step) { add(pair, step); },
        [this](const PairInTurn& pair, int first, int past) { write(pair, first, past); });
  }

 private:
  void add(const PairInTurn& pair, int step) {
    kernels_.add(step, blocks_, static_cast<const std::uint16_t*>(part_.a[pair.a].data),
                 static_cast<const std::uint16_t*>(part_.b[pair.b].data),
                 scratch_.bf16[pair.block]);
  }

  void write(const PairInTurn& pair, int first, int past) {
    const Panel& a = part_.a[pair.a];
    const Panel& b = part_.b[pair.b];
    const auto round = [&](int begin, int end, RoundedRows& to) {
      kernels_.round(begin, end, blocks_, scratch_.bf16[pair.block], a.errors, b.errors, to);
    };
    const auto sum_of = [&](int m, int n) {
      const auto* row = static_cast<const std::uint16_t*>(a.data) + m * kBlock;
      const auto* column = static_cast<const std::uint16_t*>(b.data) + n / kTileLanes * kTileWords +
                           n % kTileLanes * 2;
      return sum_f64_of(blocks_, row, column) * a.unit[m] * b.unit[n];
    };
    write_rows(writer_, a, b, first, past, round, sum_of, scratch_.rows);
  }

  const Bf16Kernels& kernels_;
  const TilePart& part_;
  TileScratch& scratch_;
  Writer writer_;
  int blocks_;
};

}  // namespace

void compute_bf16(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  if (kernels.begin != nullptr) kernels.begin();
  Bf16Tile(kernels, part, scratch).compute();
  if (kernels.end != nullptr) kernels.end();
  compute_dense(kernels, part, scratch);
  _mm_sfence();  // streamed stores become visible before the threads join
}

}  // namespace mxo::cpu

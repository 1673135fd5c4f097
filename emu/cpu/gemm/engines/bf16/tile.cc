// Pairs of panels of codes as bf16: summed in f32, rounded while the next is summed, and written.
#include "emu/cpu/gemm/engines/bf16/tile.h"

#include <bit>

#include "emu/cpu/gemm/tiles/pair_rows.h"
#include "emu/cpu/simd/streaming.h"

namespace mxo::cpu {
namespace {

/// Sums of a pair in f64, one by one, or a row at once where much of it is open.
class OpenSums {
 public:
  OpenSums(int blocks, const Panel& a, const Panel& b, const RoundedRows& rows)
      : blocks_(blocks),
        a_(a),
        b_(b),
        from_a_(static_cast<const std::uint16_t*>(a.data)),
        from_b_(static_cast<const std::uint16_t*>(b.data)),
        rows_(rows) {}

  double operator()(int m, int n) {
    constexpr int kMany = 4;  // outputs that take as long as a row
    const std::uint16_t* row = from_a_ + m * kBlock;
    double sum = 0;
    if (std::popcount(rows_.open[m]) < kMany) {
      sum = sum_f64_of(blocks_, row, from_b_ + n / kTileLanes * kTileWords + n % kTileLanes * 2);
    } else {
      if (m != row_) sum_row_f64(blocks_, row, from_b_, sums_);
      row_ = m;
      sum = sums_[n];
    }
    return sum * a_.unit[m] * b_.unit[n];
  }

 private:
  int blocks_;
  const Panel& a_;
  const Panel& b_;
  const std::uint16_t* from_a_;
  const std::uint16_t* from_b_;
  const RoundedRows& rows_;
  int row_ = -1;  ///< whose sums are in sums_
  double sums_[kMaxLanesB];
};

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
    OpenSums sums(blocks_, a, b, scratch_.rows);
    const auto sum_of = [&](int m, int n) { return sums(m, n); };
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
  finish_streams();  // before the threads join
}

}  // namespace mxo::cpu

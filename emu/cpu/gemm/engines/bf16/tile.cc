// Pairs of panels of codes as bf16: summed in f32, rounded while the next is summed, and written.
#include "emu/cpu/gemm/engines/bf16/tile.h"

#include <bit>

#include "emu/cpu/gemm/tiles/pair_rows.h"
#include "emu/cpu/simd/streaming.h"

namespace mxo::cpu {
namespace {

/// Sums of a pair in f64, one by one, or a row at once where much of it failed.
class FailedSums {
 public:
  FailedSums(int blocks, const MicroPanel& a, const MicroPanel& b, const RoundedRows& rows)
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
    if (std::popcount(rows_.failed[m]) < kMany) {
      sum = avx512_sum_f64_of(blocks_, row,
                              from_b_ + n / kTileLanes * kTileWords + n % kTileLanes * 2);
    } else {
      if (m != row_) avx512_sum_row_f64(blocks_, row, from_b_, sums_);
      row_ = m;
      sum = sums_[n];
    }
    return sum * a_.unit[m] * b_.unit[n];
  }

 private:
  int blocks_;
  const MicroPanel& a_;
  const MicroPanel& b_;
  const std::uint16_t* from_a_;
  const std::uint16_t* from_b_;
  const RoundedRows& rows_;
  int row_ = -1;  ///< whose sums are in sums_
  double sums_[kMaxNr];
};

class Bf16Tile {
 public:
  Bf16Tile(const Kernels& kernels, const KcTile& tile, TileScratch& scratch)
      : kernels_(*kernels.bf16),
        tile_(tile),
        scratch_(scratch),
        writer_(*tile.tile->packed->product),
        blocks_(static_cast<int>(tile.k_block.blocks())) {}

  void compute() {
    pipeline_pairs(
        tile_, 2,
        [this](int i, int j) {
          return !tile_.a[i].residual_overflow && !tile_.b[j].residual_overflow;
        },
        [this](const PipelinedPair& pair, int step) { add(pair, step); },
        [this](const PipelinedPair& pair, int first, int end) { write(pair, first, end); });
  }

 private:
  void add(const PipelinedPair& pair, int step) {
    kernels_.add(step, blocks_, static_cast<const std::uint16_t*>(tile_.a[pair.a].data),
                 static_cast<const std::uint16_t*>(tile_.b[pair.b].data),
                 scratch_.bf16[pair.block]);
  }

  void write(const PipelinedPair& pair, int first, int end) {
    const MicroPanel& a = tile_.a[pair.a];
    const MicroPanel& b = tile_.b[pair.b];
    const auto round = [&](int begin, int end_row, RoundedRows& to) {
      kernels_.round(begin, end_row, blocks_, scratch_.bf16[pair.block], a.errors, b.errors, to);
    };
    FailedSums sums(blocks_, a, b, scratch_.rows);
    const auto sum_of = [&](int m, int n) { return sums(m, n); };
    write_rows(writer_, a, b, first, end, round, sum_of, scratch_.rows);
  }

  const Bf16Kernels& kernels_;
  const KcTile& tile_;
  TileScratch& scratch_;
  Writer writer_;
  int blocks_;
};

}  // namespace

void compute_bf16(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  if (kernels.begin != nullptr) kernels.begin();
  Bf16Tile(kernels, tile, scratch).compute();
  if (kernels.end != nullptr) kernels.end();
  compute_overflow(kernels, tile, scratch);
  finish_streams();  // before the threads join
}

}  // namespace mxo::cpu

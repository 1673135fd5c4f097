// Pairs of panels of codes as bf16: summed in f32, rounded while the next is summed, and written.
#include "emu/cpu/gemm/engines/tile_kernels.h"

#include "emu/cpu/gemm/tiles/pair_rows.h"
#include "emu/cpu/streaming.h"

namespace mxo::cpu {
namespace {

class Bf16Tile {
 public:
  Bf16Tile(const Kernels& kernels, const KcTile& tile, TileScratch& scratch)
      : kernels_(*kernels.tiles),
        tile_(tile),
        scratch_(scratch),
        writer_(tile.product()),
        blocks_(static_cast<int>(tile.k_block.blocks())),
        block_sums_(scratch.room<BlockSums>(2 * static_cast<std::size_t>(blocks_))) {}

  void compute() {
    pipeline_pairs(
        tile_, 1,
        [this](int i, int j) {
          return !tile_.a[i].residual_overflow && !tile_.b[j].residual_overflow;
        },
        [this](const PipelinedPair& pair, int) { add(pair); },
        [this](const PipelinedPair& pair, int first, int end) { write(pair, first, end); });
  }

 private:
  void add(const PipelinedPair& pair) {
    kernels_.add_bf16(blocks_, static_cast<const std::uint16_t*>(tile_.a[pair.a].data),
                      static_cast<const std::uint16_t*>(tile_.b[pair.b].data),
                      block_sums_ + pair.block * blocks_);
  }

  void write(const PipelinedPair& pair, int first, int end) {
    const MicroPanel& a = tile_.a[pair.a];
    const MicroPanel& b = tile_.b[pair.b];
    const auto round = [&](int begin, int end_row, RoundedRows& to) {
      kernels_.round_bf16(begin, end_row, blocks_, block_sums_ + pair.block * blocks_, a.errors,
                          b.errors, to);
    };
    const auto sum_of = [&](int m, int n) {
      const auto* row = static_cast<const std::uint16_t*>(a.data) + m * kBlock;
      const auto* column = static_cast<const std::uint16_t*>(b.data) + n / kTileLanes * kTileWords +
                           n % kTileLanes * 2;
      return avx512_sum_f64_of(blocks_, row, column) * a.unit[m] * b.unit[n];
    };
    write_rows(writer_, a, b, first, end, round, sum_of, scratch_.rows, scratch_.stages);
  }

  const TileKernels& kernels_;
  const KcTile& tile_;
  TileScratch& scratch_;
  Writer writer_;
  int blocks_;
  BlockSums* block_sums_;  ///< double buffer: two pairs
};

PanelBytes bytes(int step, int, const KBlock& k_block) {
  return {whole_lines(k_block.blocks() * kBlock * step * 2)};
}

void compute(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  {
    const TileRegisters registers(*kernels.tiles);
    Bf16Tile(kernels, tile, scratch).compute();
  }
  compute_overflow(kernels, tile, scratch);
  finish_streams();  // before the threads join
}

/// Codes of neighbouring K-vectors are adjacent in memory, as when rows are contracted.
bool suits(const Product& product) {
  return product.out.dtype == Dtype::bf16 && product.form == ScaleForm::mx &&
         product.depth <= kMaxBf16K && product.depth % kBlock == 0 && product.a.row_step == 1 &&
         product.b.row_step == 1;
}

}  // namespace

const Engine kBf16Engine = {suits, true, true, &Kernels::mr_integers, bytes, pack_bf16, compute};

}  // namespace mxo::cpu

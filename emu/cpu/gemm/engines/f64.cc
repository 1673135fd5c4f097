// The engine of binary64: bf16 operands widened, sums by fused steps.
#include <algorithm>
#include <cstring>

#include "emu/cpu/gemm/pack/scratch.h"
#include "emu/cpu/gemm/tiles/engine.h"

namespace mxo::cpu {
namespace {

void pack(const Kernels& kernels, const Product&, const Factor& factor, const KBlock& k_block,
          MicroPanel& panel, PackScratch& scratch) {
  const int half = panel.scale_step == kMaxNr ? panel.step / 2 : panel.step;
  double norm2[kMaxNr] = {};
  std::uint32_t min_below[kMaxNr];
  std::fill(min_below, min_below + kMaxNr, 0xFFFFFFFFu);
  for (int lane = panel.width; lane < panel.step; ++lane) {
    std::memset(scratch.k_vectors[lane], 0, sizeof(scratch.k_vectors[lane]));
  }
  for (Index run = 0; run < k_block.runs(); ++run) {
    const int count = k_block.run_count(run);
    scratch.words.fetch(kernels.isa, factor, panel.first, panel.width, k_block.start + run * kRun,
                        count);
    for (int lane = 0; lane < panel.width; ++lane) {
      auto* values = reinterpret_cast<float*>(scratch.k_vectors[lane]);
      const int max_magnitude = widen_words(scratch.words.lane(lane), values);
      if (max_magnitude >= kInfinityBf16) {
        panel.bound[lane].special = true;
        panel.bound[lane].nan = panel.bound[lane].nan || max_magnitude > kInfinityBf16;
        std::fill(values, values + kRun, 0.0f);
      }
    }
    kernels.interleave(panel.step, static_cast<int>(round_up(count, 16)), scratch.k_vectors[0],
                       kRun, scratch.columns, panel.step);
    const auto* columns = reinterpret_cast<const float*>(scratch.columns);
    for (int first = 0; first < panel.step; first += half) {
      double* out = static_cast<double*>(panel.data) + first * round_up(k_block.count, 16) +
                    run * kRun * half;
      kernels.widen(half, count, columns + first, panel.step, out, half, norm2 + first,
                    min_below + first);
    }
  }
  for (int lane = 0; lane < panel.width; ++lane) {
    KVectorBound& bound = panel.bound[lane];
    bound.norm2 += norm2[lane];
    bound.roundings += static_cast<double>(kRun + k_block.runs() + 4);
    if (min_below[lane] != 0xFFFFFFFFu) {
      const int field = static_cast<int>((min_below[lane] + 1) >> 23);
      bound.quantum = std::min(bound.quantum, std::max(field, 1) - 134);
    }
  }
}

void sum_f64(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  const int half = kernels.nr / 2;
  const Index stored = round_up(tile.k_block.count, 16);
  for (Index run = 0; run < tile.k_block.runs(); ++run) {
    const int count = tile.k_block.run_count(run);
    for (int j = 0; j < tile.wide(); ++j) {
      const auto* b = static_cast<const double*>(tile.b[j].data);
      for (int h = 0; h < 2; ++h) {
        const double* from_b = b + h * half * stored + run * kRun * half;
        for (int i = 0; i < tile.tall(); ++i) {
          const MicroPanel& a = tile.a[i];
          const double* from_a =
              static_cast<const double*>(a.data) + (tile.first_of_a + run) * kRun * a.step;
          kernels.dot_f64(a.step, count, from_a, from_b,
                          block_of(*tile.tile, scratch, i, j) + h * half);
        }
      }
    }
  }
}

PanelBytes bytes(int step, int, const KBlock& k_block) {
  return {whole_lines(round_up(k_block.count, 16) * step * 8)};
}

void compute(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  sum_and_write(kernels, tile, scratch, sum_f64);
}

bool suits(const Product& product) { return product.form == ScaleForm::none; }

}  // namespace

const Engine kF64Engine = {suits, false, false, &Kernels::mr, bytes, pack, compute};

}  // namespace mxo::cpu

// Pairs of panels with residual overflow, through f64.
#include <algorithm>
#include <cstring>

#include "emu/cpu/gemm/pack/scratch.h"
#include "emu/cpu/gemm/tiles/writer.h"
#include "emu/exact/code_tables.h"

namespace mxo::cpu {
namespace {

bool any_overflow(const MicroPanel* panels, int count) {
  return std::any_of(panels, panels + count,
                     [](const MicroPanel& p) { return p.residual_overflow; });
}

/// Lanes of A that the f64 loop takes at once; an int16 panel may have twice as many.
int lanes_of(const Kernels& kernels, const MicroPanel& a) {
  return a.step > kernels.mr ? a.step / 2 : a.step;
}

/// One run of a panel as f64 values, code times scale; a special K-vector gives zeros.
void pack_run_f64(const Kernels& kernels, const Product& product, const Factor& factor,
                  const MicroPanel& panel, Index start, int count, int half_lanes, double* out,
                  PackScratch& scratch) {
  const bool words = product.form == ScaleForm::none;
  if (words) {
    scratch.words.fetch(kernels.isa, factor, panel.first, panel.width, start, count);
  } else {
    scratch.codes.fetch(kernels.isa, factor, panel.first, panel.width, start, count);
  }
  const float* values = words ? nullptr : code_values(factor.codes.dtype);
  const bool scaled = !words && product.form != ScaleForm::rowwise;
  std::memset(out, 0, static_cast<std::size_t>(kRun * panel.step) * sizeof(double));
  for (int lane = 0; lane < panel.width; ++lane) {
    if (panel.bound[lane].special) continue;
    double* to = out + lane / half_lanes * kRun * half_lanes + lane % half_lanes;
    if (words) {
      alignas(64) float wide[kRun];
      widen_words(scratch.words.lane(lane), wide);
      for (int i = 0; i < count; ++i) to[i * half_lanes] = static_cast<double>(wide[i]);
      continue;
    }
    const std::uint8_t* codes = scratch.codes.lane(lane);
    const KVector vector = factor.k_vector(panel.first + lane);
    for (int c = 0; c < count; c += kBlock) {
      const double scale = scaled ? static_cast<double>(vector.scale(start + c)) : 1.0;
      for (int i = c; i < c + kBlock; ++i) {
        to[i * half_lanes] = static_cast<double>(values[codes[i]]) * scale;
      }
    }
  }
}

}  // namespace

void sum_overflow(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  const bool any_a = any_overflow(tile.a, tile.tall());
  if (!any_a && !any_overflow(tile.b, tile.wide())) return;
  const Product& product = tile.product();
  const int half = kernels.nr / 2;
  constexpr Index kOverflowStep = kRun * kMaxMr;
  scratch.overflow_a.resize(static_cast<std::size_t>(tile.tall() * kOverflowStep));
  for (Index run = 0; run < tile.k_block.runs(); ++run) {
    const Index start = tile.k_block.start + run * kRun;
    const int count = tile.k_block.run_count(run);
    for (int i = 0; i < tile.tall(); ++i) {
      pack_run_f64(kernels, product, product.a, tile.a[i], start, count,
                   lanes_of(kernels, tile.a[i]), scratch.overflow_a.data() + i * kOverflowStep,
                   *scratch.pack);
    }
    for (int j = 0; j < tile.wide(); ++j) {
      const MicroPanel& b = tile.b[j];
      if (!b.residual_overflow && !any_a) continue;
      pack_run_f64(kernels, product, product.b, b, start, count, half, scratch.overflow_b,
                   *scratch.pack);
      for (int i = 0; i < tile.tall(); ++i) {
        const MicroPanel& a = tile.a[i];
        if (!a.residual_overflow && !b.residual_overflow) continue;
        double* sums = block_of(*tile.tile, scratch, i, j);
        const int lanes = lanes_of(kernels, a);
        for (int m = 0; m < a.step; m += lanes) {
          const double* from = scratch.overflow_a.data() + i * kOverflowStep + kRun * m;
          double* to = sums + m * kernels.nr;
          kernels.dot_f64(lanes, count, from, scratch.overflow_b, to);
          kernels.dot_f64(lanes, count, from, scratch.overflow_b + kRun * half, to + half);
        }
      }
    }
  }
}

void compute_overflow(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  if (!any_overflow(tile.a, tile.tall()) && !any_overflow(tile.b, tile.wide())) return;
  clear_sums(tile, scratch);
  sum_overflow(kernels, tile, scratch);
  for (int j = 0; j < tile.wide(); ++j) {
    for (int i = 0; i < tile.tall(); ++i) {
      if (!tile.a[i].residual_overflow && !tile.b[j].residual_overflow) continue;
      write_exact(kernels, tile.product(), tile.a[i], tile.b[j],
                  block_of(*tile.tile, scratch, i, j), scratch.stages);
    }
  }
}

double* block_of(const MacroTile& tile, TileScratch& scratch, int i, int j) {
  const PackedBlock& packed = *tile.packed;
  if (packed.sums != nullptr) {
    const auto row = static_cast<std::size_t>(tile.a0 + i);
    return packed.sums +
           (row * packed.b.size() + static_cast<std::size_t>(tile.b0 + j)) * kBlockSums;
  }
  return scratch.sums[j * (tile.a1 - tile.a0) + i];
}

void clear_sums(const KcTile& tile, TileScratch& scratch) {
  for (int j = 0; j < tile.wide(); ++j) {
    for (int i = 0; i < tile.tall(); ++i) {
      std::memset(block_of(*tile.tile, scratch, i, j), 0, sizeof(double) * kBlockSums);
    }
  }
}

}  // namespace mxo::cpu

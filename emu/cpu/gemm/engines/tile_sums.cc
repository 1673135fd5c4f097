// Loops over the panels and runs of a tile; the order of the loops keeps a run of B in L1.
#include "emu/cpu/gemm/tiles/tile_sums.h"

#include <algorithm>
#include <cmath>

#include "emu/cpu/gemm/engines/int16/pair.h"

namespace mxo::cpu {
namespace {

constexpr Index kRunsAtOnce = 2;  // of pairs

bool any_overflow(const MicroPanel* panels, int count) {
  return std::any_of(panels, panels + count,
                     [](const MicroPanel& p) { return p.residual_overflow; });
}

/// Lanes of A that the f64 loop takes at once; an int16 panel may have twice as many.
int lanes_of(const Kernels& kernels, const MicroPanel& a) {
  return a.step > kernels.mr ? a.step / 2 : a.step;
}

void add_transposed(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  for (int j = 0; j < tile.wide(); ++j) {
    for (int i = 0; i < tile.tall(); ++i) {
      const int pair = j * tile.tall() + i;
      if (!scratch.has_transposed[pair]) continue;
      kernels.add_transposed(tile.a[i].width, scratch.transposed[pair],
                             block_of(*tile.tile, scratch, i, j));
    }
  }
}

}  // namespace

void sum_overflow(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  const Product& product = *tile.tile->packed->product;
  const int half = kernels.nr / 2;
  const bool any_a = any_overflow(tile.a, tile.tall());
  constexpr Index kOverflowStep = kRun * kMaxMr;
  scratch.overflow_a.resize(static_cast<std::size_t>(tile.tall() * kOverflowStep));
  for (Index run = 0; run < tile.k_block.runs(); ++run) {
    const Index start = tile.k_block.start + run * kRun;
    const int count = tile.k_block.run_count(run);
    for (int i = 0; i < tile.tall(); ++i) {
      pack_run_f64(product, product.a, tile.a[i], start, count, lanes_of(kernels, tile.a[i]),
                   scratch.overflow_a.data() + i * kOverflowStep, *scratch.pack);
    }
    for (int j = 0; j < tile.wide(); ++j) {
      const MicroPanel& b = tile.b[j];
      if (!b.residual_overflow && !any_a) continue;
      pack_run_f64(product, product.b, b, start, count, half, scratch.overflow_b, *scratch.pack);
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

void sum_int16(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  if (tile.first) {
    std::fill(scratch.has_transposed, scratch.has_transposed + tile.tall() * tile.wide(), false);
  }
  const Product& product = *tile.tile->packed->product;
  const Index step = kernels.slices != nullptr ? span_runs(product.form) : kRunsAtOnce;
  for (Index start = 0; start < tile.k_block.runs(); start += step) {
    const RunRange runs{start, std::min(start + step, tile.k_block.runs())};
    for (int j = 0; j < tile.wide(); ++j) {
      const MicroPanel& b = tile.b[j];
      if (b.residual_overflow) continue;
      const int shares = integer_parts(kernels);
      for (int share = 0; share < shares; ++share) {
        for (int i = 0; i < tile.tall(); ++i) {
          if (tile.a[i].residual_overflow) continue;
          const MicroPanelPair pair(kernels, tile.k_block, tile.a[i], tile.first_of_a, b);
          double* sums = block_of(*tile.tile, scratch, i, j);
          pair.add_integers(runs, share, sums);
          if (share + 1 < shares) continue;
          // Residuals now, while these runs of A are in L1.
          const int at = j * tile.tall() + i;
          pair.add_residuals_of_a(runs, sums);
          scratch.has_transposed[at] = pair.add_residuals_of_b(runs, sums, scratch.transposed[at],
                                                               scratch.has_transposed[at]);
        }
      }
    }
  }
  if (tile.last) add_transposed(kernels, tile, scratch);
  if (any_overflow(tile.a, tile.tall()) || any_overflow(tile.b, tile.wide())) {
    sum_overflow(kernels, tile, scratch);
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

namespace {

// y = fma(p * scale_a, scale_b, y) of one tile of scales, p being the chain over its codes.
void add_scaled_chain(const Kernels& kernels, const Product& product, const MicroPanel& a,
                      const MicroPanel& b, Index at, const float* p, float* y) {
  for (int m = 0; m < a.width; ++m) {
    const float scale_a = product.a.line(a.first + m).scale(at);
    for (int n = 0; n < b.width; ++n) {
      const float scale_b = product.b.line(b.first + n).scale(at);
      float& out = y[m * kernels.nr + n];
      out = std::fma(p[m * kernels.nr + n] * scale_a, scale_b, out);
    }
  }
}

}  // namespace

void sum_chain(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  const Product& product = *tile.tile->packed->product;
  for (Index run = 0; run < tile.k_block.runs(); ++run) {
    const int count = tile.k_block.run_count(run);
    for (int j = 0; j < tile.wide(); ++j) {
      const MicroPanel& b = tile.b[j];
      const auto* from_b = static_cast<const float*>(b.data) + run * kRun * b.step;
      for (int i = 0; i < tile.tall(); ++i) {
        const MicroPanel& a = tile.a[i];
        const auto* from_a =
            static_cast<const float*>(a.data) + (tile.first_of_a + run) * kRun * a.step;
        auto* sums = reinterpret_cast<float*>(block_of(*tile.tile, scratch, i, j));
        if (product.form != ScaleForm::blockwise) {
          kernels.chain_f32(a.step, count, from_a, from_b, sums);
          continue;
        }
        alignas(64) float p[kBlockSums] = {};
        kernels.chain_f32(a.step, count, from_a, from_b, p);
        add_scaled_chain(kernels, product, a, b, tile.k_block.start + run * kRun, p, sums);
      }
    }
  }
}

}  // namespace mxo::cpu

// Loops over the panels and runs of a tile; the order of the loops keeps a run of B in L1.
#include "emu/cpu/gemm/tile_sums.h"

#include <algorithm>
#include <cmath>

#include "emu/cpu/gemm/panel_pair.h"

namespace mxo::cpu {
namespace {

constexpr Index kRunsAtOnce = 2;  // of pairs

bool any_dense(const std::vector<Panel>& panels, int first, int past) {
  return std::any_of(panels.begin() + first, panels.begin() + past,
                     [](const Panel& p) { return p.dense; });
}

/// Lanes of A that the f64 loop takes at once; an int16 panel may have twice as many.
int part_of(const Kernels& kernels, const Panel& a) {
  return a.step > kernels.lanes_a ? a.step / 2 : a.step;
}

/// The pairs with a panel that has too many rests, from the operands themselves.
void sum_dense(const Kernels& kernels, const Tile& tile, TileScratch& scratch) {
  const Job& job = *tile.job;
  const int half = kernels.lanes_b / 2;
  for (Index run = 0; run < job.depth.runs(); ++run) {
    const Index start = job.depth.start + run * kRun;
    const int count = job.depth.run_count(run);
    for (int ia = tile.a0; ia < tile.a1; ++ia) {
      const Panel& a = job.a[static_cast<std::size_t>(ia)];
      pack_run_f64(*job.product, job.product->a, a, start, count, part_of(kernels, a),
                   scratch.dense_a[ia - tile.a0], *scratch.pack);
    }
    for (int ib = tile.b0; ib < tile.b1; ++ib) {
      const Panel& b = job.b[static_cast<std::size_t>(ib)];
      if (!b.dense && !any_dense(job.a, tile.a0, tile.a1)) continue;
      pack_run_f64(*job.product, job.product->b, b, start, count, half, scratch.dense_b,
                   *scratch.pack);
      for (int ia = tile.a0; ia < tile.a1; ++ia) {
        const Panel& a = job.a[static_cast<std::size_t>(ia)];
        if (!a.dense && !b.dense) continue;
        double* sums = block_of(tile, scratch, ia, ib);
        const double* from = scratch.dense_a[ia - tile.a0];
        const int part = part_of(kernels, a);
        for (int m = 0; m < a.step; m += part) {
          double* to = sums + m * kernels.lanes_b;
          kernels.dot_f64(part, count, from + kRun * m, scratch.dense_b, to);
          kernels.dot_f64(part, count, from + kRun * m, scratch.dense_b + kRun * half, to + half);
        }
      }
    }
  }
}

}  // namespace

void sum_int16(const Kernels& kernels, const Tile& tile, TileScratch& scratch) {
  const Job& job = *tile.job;
  std::fill(scratch.has_turned, scratch.has_turned + kTilePairs, false);
  const int tall = tile.a1 - tile.a0;
  const Index step = kernels.planes != nullptr ? span_runs(job.product->scaling) : kRunsAtOnce;
  for (Index start = 0; start < job.depth.runs(); start += step) {
    const RunRange runs{start, std::min(start + step, job.depth.runs())};
    for (int ib = tile.b0; ib < tile.b1; ++ib) {
      const Panel& b = job.b[static_cast<std::size_t>(ib)];
      if (b.dense) continue;
      for (int part = 0; part < integer_parts(kernels); ++part) {
        for (int ia = tile.a0; ia < tile.a1; ++ia) {
          const Panel& a = job.a[static_cast<std::size_t>(ia)];
          if (a.dense) continue;
          const PanelPair pair(kernels, job.depth, a, b);
          pair.add_integers(runs, part, block_of(tile, scratch, ia, ib));
        }
      }
      for (int ia = tile.a0; ia < tile.a1; ++ia) {
        const Panel& a = job.a[static_cast<std::size_t>(ia)];
        if (a.dense) continue;
        const int at = (ib - tile.b0) * tall + ia - tile.a0;
        const PanelPair pair(kernels, job.depth, a, b);
        pair.add_rests_of_a(runs, block_of(tile, scratch, ia, ib));
        scratch.has_turned[at] =
            pair.add_rests_of_b(runs, scratch.turned[at], scratch.has_turned[at]);
      }
    }
  }
  for (int ib = tile.b0; ib < tile.b1; ++ib) {
    for (int ia = tile.a0; ia < tile.a1; ++ia) {
      const int pair = (ib - tile.b0) * tall + ia - tile.a0;
      if (!scratch.has_turned[pair]) continue;
      kernels.add_turned(job.a[static_cast<std::size_t>(ia)].width, scratch.turned[pair],
                         block_of(tile, scratch, ia, ib));
    }
  }
  if (any_dense(job.a, tile.a0, tile.a1) || any_dense(job.b, tile.b0, tile.b1)) {
    sum_dense(kernels, tile, scratch);
  }
}

void sum_f64(const Kernels& kernels, const Tile& tile, TileScratch& scratch) {
  const Job& job = *tile.job;
  const int half = kernels.lanes_b / 2;
  const Index stored = round_up(job.depth.count, 16);
  for (Index run = 0; run < job.depth.runs(); ++run) {
    const int count = job.depth.run_count(run);
    for (int ib = tile.b0; ib < tile.b1; ++ib) {
      const auto* b = static_cast<const double*>(job.b[static_cast<std::size_t>(ib)].data);
      for (int h = 0; h < 2; ++h) {
        const double* from_b = b + h * half * stored + run * kRun * half;
        for (int ia = tile.a0; ia < tile.a1; ++ia) {
          const Panel& a = job.a[static_cast<std::size_t>(ia)];
          const double* from_a = static_cast<const double*>(a.data) + run * kRun * a.step;
          kernels.dot_f64(a.step, count, from_a, from_b,
                          block_of(tile, scratch, ia, ib) + h * half);
        }
      }
    }
  }
}

namespace {

// y = fma(p * scale_a, scale_b, y) of one tile of scales, p being the chain over its codes.
void add_scaled_chain(const Kernels& kernels, const Product& product, const Panel& a,
                      const Panel& b, Index at, const float* p, float* y) {
  for (int m = 0; m < a.width; ++m) {
    const float scale_a = product.a.line(a.first + m).scale(at);
    for (int n = 0; n < b.width; ++n) {
      const float scale_b = product.b.line(b.first + n).scale(at);
      float& out = y[m * kernels.lanes_b + n];
      out = std::fma(p[m * kernels.lanes_b + n] * scale_a, scale_b, out);
    }
  }
}

}  // namespace

void sum_chain(const Kernels& kernels, const Tile& tile, TileScratch& scratch) {
  const Job& job = *tile.job;
  const Product& product = *job.product;
  for (Index run = 0; run < job.depth.runs(); ++run) {
    const int count = job.depth.run_count(run);
    for (int ib = tile.b0; ib < tile.b1; ++ib) {
      const Panel& b = job.b[static_cast<std::size_t>(ib)];
      const auto* from_b = static_cast<const float*>(b.data) + run * kRun * b.step;
      for (int ia = tile.a0; ia < tile.a1; ++ia) {
        const Panel& a = job.a[static_cast<std::size_t>(ia)];
        const auto* from_a = static_cast<const float*>(a.data) + run * kRun * a.step;
        auto* sums = reinterpret_cast<float*>(block_of(tile, scratch, ia, ib));
        if (product.scaling != Scaling::blockwise) {
          kernels.chain_f32(a.step, count, from_a, from_b, sums);
          continue;
        }
        alignas(64) float p[kBlockSums] = {};
        kernels.chain_f32(a.step, count, from_a, from_b, p);
        add_scaled_chain(kernels, product, a, b, job.depth.start + run * kRun, p, sums);
      }
    }
  }
}

}  // namespace mxo::cpu

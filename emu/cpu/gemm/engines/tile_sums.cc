// Loops over the panels and runs of a tile; the order of the loops keeps a run of B in L1.
#include "emu/cpu/gemm/tiles/tile_sums.h"

#include <algorithm>
#include <cmath>

#include "emu/cpu/gemm/engines/int16/pair.h"

namespace mxo::cpu {
namespace {

constexpr Index kRunsAtOnce = 2;  // of pairs

bool any_dense(const Panel* panels, int count) {
  return std::any_of(panels, panels + count, [](const Panel& p) { return p.dense; });
}

/// Lanes of A that the f64 loop takes at once; an int16 panel may have twice as many.
int lanes_of(const Kernels& kernels, const Panel& a) {
  return a.step > kernels.lanes_a ? a.step / 2 : a.step;
}

void add_turned(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  for (int j = 0; j < part.wide(); ++j) {
    for (int i = 0; i < part.tall(); ++i) {
      const int pair = j * part.tall() + i;
      if (!scratch.has_turned[pair]) continue;
      kernels.add_turned(part.a[i].width, scratch.turned[pair],
                         block_of(*part.tile, scratch, i, j));
    }
  }
}

}  // namespace

void sum_dense(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  const Product& product = *part.tile->job->product;
  const int half = kernels.lanes_b / 2;
  const bool any_a = any_dense(part.a, part.tall());
  constexpr Index kDenseStep = kRun * kMaxLanesA;
  scratch.dense_a.resize(static_cast<std::size_t>(part.tall() * kDenseStep));
  for (Index run = 0; run < part.depth.runs(); ++run) {
    const Index start = part.depth.start + run * kRun;
    const int count = part.depth.run_count(run);
    for (int i = 0; i < part.tall(); ++i) {
      pack_run_f64(product, product.a, part.a[i], start, count, lanes_of(kernels, part.a[i]),
                   scratch.dense_a.data() + i * kDenseStep, *scratch.pack);
    }
    for (int j = 0; j < part.wide(); ++j) {
      const Panel& b = part.b[j];
      if (!b.dense && !any_a) continue;
      pack_run_f64(product, product.b, b, start, count, half, scratch.dense_b, *scratch.pack);
      for (int i = 0; i < part.tall(); ++i) {
        const Panel& a = part.a[i];
        if (!a.dense && !b.dense) continue;
        double* sums = block_of(*part.tile, scratch, i, j);
        const int lanes = lanes_of(kernels, a);
        for (int m = 0; m < a.step; m += lanes) {
          const double* from = scratch.dense_a.data() + i * kDenseStep + kRun * m;
          double* to = sums + m * kernels.lanes_b;
          kernels.dot_f64(lanes, count, from, scratch.dense_b, to);
          kernels.dot_f64(lanes, count, from, scratch.dense_b + kRun * half, to + half);
        }
      }
    }
  }
}

void sum_int16(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  if (part.first) {
    std::fill(scratch.has_turned, scratch.has_turned + part.tall() * part.wide(), false);
  }
  const Product& product = *part.tile->job->product;
  const Index step = kernels.planes != nullptr ? span_runs(product.scaling) : kRunsAtOnce;
  for (Index start = 0; start < part.depth.runs(); start += step) {
    const RunRange runs{start, std::min(start + step, part.depth.runs())};
    for (int j = 0; j < part.wide(); ++j) {
      const Panel& b = part.b[j];
      if (b.dense) continue;
      const int shares = integer_parts(kernels);
      for (int share = 0; share < shares; ++share) {
        for (int i = 0; i < part.tall(); ++i) {
          if (part.a[i].dense) continue;
          const PanelPair pair(kernels, part.depth, part.a[i], part.first_of_a, b);
          double* sums = block_of(*part.tile, scratch, i, j);
          pair.add_integers(runs, share, sums);
          if (share + 1 < shares) continue;
          // Rests now, while these runs of A are in the first cache.
          const int at = j * part.tall() + i;
          pair.add_rests_of_a(runs, sums);
          scratch.has_turned[at] =
              pair.add_rests_of_b(runs, sums, scratch.turned[at], scratch.has_turned[at]);
        }
      }
    }
  }
  if (part.last) add_turned(kernels, part, scratch);
  if (any_dense(part.a, part.tall()) || any_dense(part.b, part.wide())) {
    sum_dense(kernels, part, scratch);
  }
}

void sum_f64(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  const int half = kernels.lanes_b / 2;
  const Index stored = round_up(part.depth.count, 16);
  for (Index run = 0; run < part.depth.runs(); ++run) {
    const int count = part.depth.run_count(run);
    for (int j = 0; j < part.wide(); ++j) {
      const auto* b = static_cast<const double*>(part.b[j].data);
      for (int h = 0; h < 2; ++h) {
        const double* from_b = b + h * half * stored + run * kRun * half;
        for (int i = 0; i < part.tall(); ++i) {
          const Panel& a = part.a[i];
          const double* from_a =
              static_cast<const double*>(a.data) + (part.first_of_a + run) * kRun * a.step;
          kernels.dot_f64(a.step, count, from_a, from_b,
                          block_of(*part.tile, scratch, i, j) + h * half);
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

void sum_chain(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  const Product& product = *part.tile->job->product;
  for (Index run = 0; run < part.depth.runs(); ++run) {
    const int count = part.depth.run_count(run);
    for (int j = 0; j < part.wide(); ++j) {
      const Panel& b = part.b[j];
      const auto* from_b = static_cast<const float*>(b.data) + run * kRun * b.step;
      for (int i = 0; i < part.tall(); ++i) {
        const Panel& a = part.a[i];
        const auto* from_a =
            static_cast<const float*>(a.data) + (part.first_of_a + run) * kRun * a.step;
        auto* sums = reinterpret_cast<float*>(block_of(*part.tile, scratch, i, j));
        if (product.scaling != Scaling::blockwise) {
          kernels.chain_f32(a.step, count, from_a, from_b, sums);
          continue;
        }
        alignas(64) float p[kBlockSums] = {};
        kernels.chain_f32(a.step, count, from_a, from_b, p);
        add_scaled_chain(kernels, product, a, b, part.depth.start + run * kRun, p, sums);
      }
    }
  }
}

}  // namespace mxo::cpu

// Products of residuals with the other panel's integers, and of two residuals.
#include "emu/cpu/gemm/tiles/integer_pair.h"

#include <cstring>

namespace mxo::cpu {

void IntegerPair::add_products_of_residuals(const RunRange& runs, double* sums) const {
  for (Index run = runs.first; run < runs.end; ++run) {
    const std::uint64_t* in_a = a_.residual_places + 2 * (first_of_a_ + run);
    const std::uint64_t* in_b = b_.residual_places + 2 * run;
    // Few runs have a place in common, and jumps of the search are hard to predict.
    if (((in_a[0] & in_b[0]) | (in_a[1] & in_b[1])) != 0) add_products_of_residuals(run, sums);
  }
}

/// Both are sorted by element.
void IntegerPair::add_products_of_residuals(Index run, double* sums) const {
  const std::uint32_t* of_a = a_.residual_begin + first_of_a_ + run;
  std::uint32_t match = b_.residual_begin[run];
  const std::uint32_t end = b_.residual_begin[run + 1];
  for (std::uint32_t i = of_a[0]; i < of_a[1]; ++i) {
    const Residual& residual = a_.residuals[i];
    const auto at = residual.at - static_cast<std::uint32_t>(first_of_a_ * kRun);
    while (match < end && b_.residuals[match].at < at) ++match;
    double* row = sums + static_cast<int>(residual.lane) * kernels_.nr;
    for (std::uint32_t j = match; j < end && b_.residuals[j].at == at; ++j) {
      row[b_.residuals[j].lane] += residual.value * b_.residuals[j].value;
    }
  }
}

double* transposed_of(TileScratch& scratch, int at) {
  if (!scratch.has_transposed[at]) {
    std::memset(scratch.transposed[at], 0, sizeof(scratch.transposed[at]));
    scratch.has_transposed[at] = true;
  }
  return scratch.transposed[at];
}

void finish_integers(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  for (int j = 0; j < tile.wide() && tile.last; ++j) {
    for (int i = 0; i < tile.tall(); ++i) {
      const int pair = j * tile.tall() + i;
      if (!scratch.has_transposed[pair]) continue;
      kernels.add_transposed(tile.a[i].width, scratch.transposed[pair],
                             block_of(*tile.tile, scratch, i, j));
    }
  }
  sum_overflow(kernels, tile, scratch);
}

}  // namespace mxo::cpu

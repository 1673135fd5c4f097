// Products of residuals with the other panel's integers, and of two residuals.
#include "emu/cpu/gemm/tiles/integer_pair.h"

#include <cstring>

namespace mxo::cpu {

void IntegerPair::add_residuals_of_a(const RunRange& runs, double* sums) const {
  for (Index run = runs.first; run < runs.end; ++run) {
    const std::uint32_t* of_a = a_.residual_begin + first_of_a_ + run;
    const Residual* residuals = a_.residuals.data() + of_a[0];
    const auto count = static_cast<int>(of_a[1] - of_a[0]);
    if (count == 0) continue;
    kernels_.add_residuals_of_a(residuals, count, data_b(run), scales_b(run * kRunBlocks), sums);
    // Both are sorted by element.
    std::uint32_t match = b_.residual_begin[run];
    const std::uint32_t end = b_.residual_begin[run + 1];
    for (int i = 0; i < count; ++i) {
      const Residual& residual = residuals[i];
      while (match < end && b_.residuals[match].at < residual.at) ++match;
      double* row = sums + static_cast<int>(residual.lane) * kernels_.nr;
      for (std::uint32_t j = match; j < end && b_.residuals[j].at == residual.at; ++j) {
        row[b_.residuals[j].lane] += residual.value * b_.residuals[j].value;
      }
    }
  }
}

bool IntegerPair::add_residuals_of_b(const RunRange& runs, double* transposed, bool used) const {
  for (Index run = runs.first; run < runs.end; ++run) {
    const std::uint32_t* begin = b_.residual_begin + run;
    const auto count = static_cast<int>(begin[1] - begin[0]);
    if (count == 0) continue;
    if (!used) std::memset(transposed, 0, sizeof(double) * kMaxMr * kMaxNr);
    used = true;
    kernels_.add_residuals_of_b(a_.step, b_.residuals.data() + begin[0], count, data_a(run),
                                scales_a(run * kRunBlocks), transposed);
  }
  return used;
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

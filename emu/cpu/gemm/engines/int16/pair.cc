// Integer products flushed to f64 as often as units change, and the residuals one by one.
#include "emu/cpu/gemm/engines/int16/pair.h"

#include <algorithm>
#include <cstring>

namespace mxo::cpu {

void MicroPanelPair::add_integers(const RunRange& runs, int half, double* sums) const {
  if (kernels_.slices != nullptr) return add_two_slices(runs, half, sums);
  for (Index run = runs.first; run < runs.end; ++run) add_pairs(run, sums);
}

void MicroPanelPair::add_pairs(Index run, double* sums) const {
  alignas(64) std::int32_t dots[kMaxMr * kMaxNr];
  const int blocks = static_cast<int>(ceil_div(k_block_.run_count(run), kBlock));
  const int step = split(run) ? 1 : blocks;
  for (int block = 0; block < blocks; block += step) {
    const Index at = run * kRunBlocks + block;
    kernels_.dot_int16(a_.step, block, step, data_a(run), data_b(run), dots);
    kernels_.add_scaled(a_.step, dots, scales_a(at), scales_b(at), sums);
  }
}

void MicroPanelPair::add_two_slices(const RunRange& runs, int half, double* sums) const {
  const auto add = [&](Index block, const ChunkRange& range) {
    const auto* a = reinterpret_cast<const std::int8_t*>(data_a(block / kRunBlocks));
    const auto* b = reinterpret_cast<const std::int8_t*>(data_b(block / kRunBlocks));
    alignas(64) TwoSliceSums slices;
    kernels_.slices->sum(half, range, a, b, slices);
    avx512_add_recombined(slices, half, scales_a(block), scales_b(block), sums);
  };
  const Index first = runs.first * kRunBlocks;
  const Index end = std::min(runs.end * kRun, k_block_.count);
  bool any_split = false;
  for (Index run = runs.first; run < runs.end; ++run) any_split = any_split || split(run);
  if (!any_split) {
    const auto chunks = static_cast<int>(ceil_div(end - runs.first * kRun, kChunk));
    return add(first, {0, chunks, ChunkRange::both});
  }
  for (Index block = first; block * kBlock < end; ++block) {
    const auto of_run = static_cast<int>(block % kRunBlocks);
    add(block, {of_run / 2, 1, of_run % 2 == 0 ? ChunkRange::lower : ChunkRange::upper});
  }
}

void MicroPanelPair::add_residuals_of_a(const RunRange& runs, double* sums) const {
  for (Index run = runs.first; run < runs.end; ++run) {
    const std::uint32_t* of_a = a_.residual_begin + first_of_a_ + run;
    const std::span<const Residual> residuals(a_.residuals.data() + of_a[0], of_a[1] - of_a[0]);
    add_residuals_to_integers(run, residuals, sums);
    // Both are sorted by element.
    std::uint32_t match = b_.residual_begin[run];
    const std::uint32_t end = b_.residual_begin[run + 1];
    for (const Residual& residual : residuals) {
      while (match < end && b_.residuals[match].at < residual.at) ++match;
      double* row = sums + static_cast<int>(residual.lane) * kernels_.nr;
      for (std::uint32_t j = match; j < end && b_.residuals[j].at == residual.at; ++j) {
        row[b_.residuals[j].lane] += residual.value * b_.residuals[j].value;
      }
    }
  }
}

void MicroPanelPair::add_residuals_to_integers(Index run, std::span<const Residual> residuals,
                                               double* sums) const {
  if (residuals.empty()) return;
  if (kernels_.slices != nullptr) {
    return avx512_add_residuals_of_a(residuals.data(), static_cast<int>(residuals.size()),
                                     reinterpret_cast<const std::int8_t*>(data_b(run)),
                                     scales_b(run * kRunBlocks), sums);
  }
  for (const Residual& residual : residuals) {
    kernels_.add_residual_of_a(residual.value, data_b(run), static_cast<int>(residual.at),
                               scales_b(run * kRunBlocks + residual.at / kBlock),
                               sums + static_cast<int>(residual.lane) * kernels_.nr);
  }
}

void MicroPanelPair::add_residual_of_b(Index run, const Residual& residual, double* column) const {
  kernels_.add_residual_of_b(a_.step, residual.value, data_a(run), static_cast<int>(residual.at),
                             scales_a(run * kRunBlocks + residual.at / kBlock), column);
}

void MicroPanelPair::add_columns(Index run, std::span<const Residual> residuals,
                                 double* sums) const {
  for (const Residual& residual : residuals) {
    alignas(64) double column[kMaxMr] = {};
    add_residual_of_b(run, residual, column);
    for (int m = 0; m < a_.width; ++m) {
      sums[m * kernels_.nr + static_cast<int>(residual.lane)] += column[m];
    }
  }
}

bool MicroPanelPair::add_residuals_of_b(const RunRange& runs, double* sums, double* transposed,
                                        bool used) const {
  constexpr std::size_t kFew = 8;  // columns written across cost less than a transposed block
  const bool few = !used && b_.residuals.size() <= kFew;
  for (Index run = runs.first; run < runs.end; ++run) {
    const std::uint32_t* begin = b_.residual_begin + run;
    const std::span<const Residual> residuals(b_.residuals.data() + begin[0], begin[1] - begin[0]);
    if (residuals.empty()) continue;
    if (few) {
      add_columns(run, residuals, sums);
      continue;
    }
    if (!used) std::memset(transposed, 0, sizeof(double) * kMaxMr * kMaxNr);
    used = true;
    if (kernels_.slices != nullptr) {
      avx512_add_residuals_of_b(residuals.data(), static_cast<int>(residuals.size()),
                                reinterpret_cast<const std::int8_t*>(data_a(run)),
                                scales_a(run * kRunBlocks), transposed);
      continue;
    }
    for (const Residual& residual : residuals)
      add_residual_of_b(run, residual, transposed + residual.lane * kMaxMr);
  }
  return used;
}

}  // namespace mxo::cpu

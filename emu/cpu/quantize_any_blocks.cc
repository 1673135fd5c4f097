// Quantisers of blocks of any extents: bands of rows over threads, kernels over their rows.
#include "emu/cpu/quantize_any_blocks.h"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/quantize_any_blocks_band.h"

namespace mxo::cpu {
namespace {

constexpr Index kSliceRows = 16;
constexpr Index kBandsEach = 16;  // so many that threads need not share their columns

/// Some rows of a band.
struct Slices {
  const Band& band;
  Index x_bytes;
  Index count() const { return ceil_div(band.rows, kSliceRows); }
  Band operator[](Index i) const {
    Band part = band;
    const Index r = i * kSliceRows;
    part.x.data += r * band.x.stride_r * x_bytes;
    part.codes.data += r * band.codes.stride_r;
    part.rows = std::min(kSliceRows, band.rows - r);
    return part;
  }
};

/// Few blocks of many rows: threads share each block, first for its amax, then for its codes.
void quantize_in_slices(const BandQuantizer& quantize, const Band& block, Index x_bytes,
                        int threads) {
  const Slices slices{block, x_bytes};
  const Index count = slices.count();
  std::uint32_t ruled = 0;
  std::uint32_t seen = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max            \
                                                                         : ruled, seen) \
    firstprivate(ieee_thread)
  for (Index i = 0; i < count; ++i) {
    const auto amax = quantize.amax_of(slices[i], 0, block.columns);
    ruled = std::max(ruled, amax.ruled);
    seen = std::max(seen, amax.seen);
  }
  const auto chosen = quantize.choose({ruled, seen}, block, 0);
  // Backwards: what was read last is still near.
#pragma omp parallel num_threads(threads) firstprivate(ieee_thread)
  {
#pragma omp for schedule(static)
    for (Index i = 0; i < count; ++i) {
      quantize.write_block(slices[count - 1 - i], 0, block.columns, chosen);
    }
    finish_streams();
  }
}

/// The same of one scale a column, in words.  False where words do not give all codes: nothing
/// that was written is to be relied on then.
bool quantize_columns_in_slices(const BandQuantizer& quantize, const Band& band, int threads) {
  const Slices slices{band, 2};
  const Index count = slices.count();
  const Index columns = band.columns;
  const auto size = static_cast<std::size_t>(columns);
  std::vector<std::uint16_t> tops(size * static_cast<std::size_t>(threads));
#pragma omp parallel num_threads(threads) firstprivate(ieee_thread)
  {
    std::uint16_t* top = tops.data() + size * static_cast<std::size_t>(omp_get_thread_num());
#pragma omp for schedule(static)
    for (Index i = 0; i < count; ++i) quantize.join_columns(slices[i], 0, columns, top);
  }
  for (std::size_t other = size; other < tops.size(); other += size) {
    for (std::size_t k = 0; k < size; ++k) tops[k] = std::max(tops[k], tops[other + k]);
  }
  const std::size_t factors = size / 2 + kCacheLine;
  std::vector<float> even(factors);
  std::vector<float> odd(factors);
  if (!quantize.column_factors(band, 0, columns, tops.data(), even.data(), odd.data())) {
    return false;
  }
#pragma omp parallel num_threads(threads) firstprivate(ieee_thread)
  {
#pragma omp for schedule(static)
    for (Index i = 0; i < count; ++i) {
      const WordRows rows = quantize.columns_of(slices[count - 1 - i], 0, columns);
      quantize.write_columns(rows, even.data(), odd.data());
    }
    finish_streams();
  }
  return true;
}

/// Whole columns of many rows, all of each row at a time.
bool quantize_whole_columns(const BandQuantizer& quantize, BandPlan plan, int threads) {
  const auto bands = static_cast<Index>(plan.bands.size());
  if (plan.width != 1 || plan.x.extent[1] < kTallRows * bands) return false;
  plan.widen(plan.x.extent[2]);
  for (Index i = 0; i < plan.tasks(); ++i) {
    const Band band = plan.band(i);
    if (!quantize.in_words(band)) return false;
    if (!quantize_columns_in_slices(quantize, band, threads)) return false;
  }
  return true;
}

}  // namespace

void quantize_any_blocks(const Quantize& op, const EncodeKernels& codec, int threads) {
  const BandQuantizer quantize(op, codec);
  BandPlan plan(plane_of(op.x), plane_of(op.to.codes), plane_of(op.to.scales),
                op.given.given() ? plane_of(op.given) : Plane{}, op.group_ends, op.to.block);
  if (op.to.block.rows == 1) plan.widen(kRowColumns);
  const auto bands = plan.x.extent[0] * static_cast<Index>(plan.bands.size());
  if (plan.width == 1 && bands >= kBandsEach * threads) plan.widen(plan.x.extent[2]);
  const bool whole = op.to.block.rows == kWhole;
  if (whole && quantize_whole_columns(quantize, plan, threads)) return;
  const Index tasks = plan.tasks();
  if ((whole || tasks < threads) && plan.chunks == 1 && plan.chunk == plan.width &&
      plan.width > 1) {
    for (Index i = 0; i < tasks; ++i)
      quantize_in_slices(quantize, plan.band(i), plan.x.element_bytes, threads);
    return;
  }
#pragma omp parallel num_threads(team_of(tasks, threads)) firstprivate(ieee_thread)
  {
#pragma omp for schedule(static)
    for (Index i = 0; i < tasks; ++i) quantize(plan.band(i));
    finish_streams();
  }
}

}  // namespace mxo::cpu

// Quantisers of blocks of any extents: bands of rows over threads, kernels over their rows.
#include "emu/cpu/quantize_bands.h"

#include <algorithm>

#include "emu/cpu/band_quantizer.h"
#include "emu/cpu/ieee_thread.h"

namespace mxo::cpu {
namespace {

/// Few blocks of many rows: threads share each block, first for its amax, then for its codes.
void quantize_in_slices(const BandQuantizer& quantize, const Band& block, Index x_bytes,
                        int threads) {
  constexpr Index kSliceRows = 16;
  const Index slices = ceil_div(block.rows, kSliceRows);
  const auto slice = [&](Index i) {
    Band part = block;
    const Index r = i * kSliceRows;
    part.x.data += r * block.x.stride_r * x_bytes;
    part.codes.data += r * block.codes.stride_r;
    part.rows = std::min(kSliceRows, block.rows - r);
    return part;
  };
  std::uint32_t ruled = 0;
  std::uint32_t seen = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max            \
                                                                         : ruled, seen) \
    firstprivate(ieee_thread)
  for (Index i = 0; i < slices; ++i) {
    const auto amax = quantize.amax_of(slice(i), 0, block.columns);
    ruled = std::max(ruled, amax.ruled);
    seen = std::max(seen, amax.seen);
  }
  const auto chosen = quantize.choose({ruled, seen}, block, 0);
  // Backwards: what was read last is still near.
#pragma omp parallel num_threads(threads) firstprivate(ieee_thread)
  {
#pragma omp for schedule(static)
    for (Index i = 0; i < slices; ++i) {
      quantize.write_block(slice(slices - 1 - i), 0, block.columns, chosen);
    }
    finish_streams();
  }
}

}  // namespace

void quantize_bands(const Quantize& op, const EncodeKernels& codec, int threads) {
  const BandQuantizer quantize(op, codec);
  BandPlan plan(plane_of(op.x), plane_of(op.to.codes), plane_of(op.to.scales),
                op.given.given() ? plane_of(op.given) : Plane{}, op.group_ends, op.to.block);
  if (op.to.block.rows == 1) plan.widen(kRowColumns);
  const Index tasks = plan.tasks();
  const bool whole = op.to.block.rows == kWhole;
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

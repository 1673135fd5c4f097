// swiglu and swiglu_backward, bands of rows over threads.
#include "ops/swiglu.h"

#include <algorithm>
#include <cmath>

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/swiglu_tiles.h"
#include "emu/reference/swiglu.h"

namespace mxo::cpu {
namespace {
constexpr Index kBandRows = 32;

/// The definition's rows, over threads.
template <typename Row>
void each_row(Index rows, int threads, const Row& row) {
#pragma omp parallel for num_threads(threads) firstprivate(ieee_thread)
  for (Index r = 0; r < rows; ++r) row(r);
}

}  // namespace

void CpuBackend::run(const Swiglu& op) {
  if (!op.gate.plain()) {
    visit_swiglu(op, [&](auto row) { each_row(op.x.extent[0], threads_, row); });
    return;
  }
  const FloatKernels& kernels = float_kernels(isa());
  const SwigluOperands in(op.x, op.probs, op.gate.halves);
  const WriteTile y = tile_of(op.y);
  const Index rows = op.x.extent[0];
#pragma omp parallel for num_threads(threads_) firstprivate(ieee_thread)
  for (Index r = 0; r < rows; r += kBandRows) {
    gate_rectangle(kernels, in.a.from(r, 0), in.b.from(r, 0), in.probs.from(r), y.from(r, 0),
                   std::min(kBandRows, rows - r), in.width);
  }
}

void CpuBackend::run(const SwigluBackward& op) {
  if (!op.gate.plain()) {
    visit_swiglu_backward(op, [&](auto row) { each_row(op.x.extent[0], threads_, row); });
    return;
  }
  const FloatKernels& kernels = float_kernels(isa());
  const SwigluOperands in(op.x, op.probs, op.gate.halves);
  const ReadTile dy = tile_of(op.dy);
  const HalfTiles dx(tile_of(op.dx), op.gate.halves, in.width);
  const Index rows = op.x.extent[0];
#pragma omp parallel for num_threads(threads_) firstprivate(ieee_thread)
  for (Index r = 0; r < rows; r += kBandRows) {
    const Index count = std::min(kBandRows, rows - r);
    float totals[kBandRows] = {};
    gradient_rectangle(kernels, in.a.from(r, 0), in.b.from(r, 0), dy.from(r, 0), in.probs.from(r),
                       dx.a.from(r, 0), dx.b.from(r, 0), op.dprobs.given() ? totals : nullptr,
                       count, in.width);
    if (op.dprobs.given()) write_totals(totals, count, op.dprobs, r);
  }
}

}  // namespace mxo::cpu

// swiglu and swiglu_backward, bands of rows over threads.
#include "ops/swiglu.h"

#include <algorithm>
#include <cmath>

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/swiglu_tiles.h"

namespace mxo::cpu {
namespace {
constexpr Index kBandRows = 32;
}

void CpuBackend::run(const Swiglu& op) {
  const FloatKernels& kernels = float_kernels(isa());
  const SwigluOperands in(op.x, op.probs);
  const WriteTile y = tile_of(op.y);
  const Index rows = op.x.extent[0];
#pragma omp parallel for num_threads(threads_) firstprivate(ieee_thread)
  for (Index r = 0; r < rows; r += kBandRows) {
    gate_rectangle(kernels, in.a.from(r, 0), in.b.from(r, 0), in.probs.from(r), y.from(r, 0),
                   std::min(kBandRows, rows - r), in.width);
  }
}

void CpuBackend::run(const SwigluBackward& op) {
  const FloatKernels& kernels = float_kernels(isa());
  const SwigluOperands in(op.x, op.probs);
  const ReadTile dy = tile_of(op.dy);
  const WriteTile dx = tile_of(op.dx);
  const Index rows = op.x.extent[0];
#pragma omp parallel for num_threads(threads_) firstprivate(ieee_thread)
  for (Index r = 0; r < rows; r += kBandRows) {
    const Index count = std::min(kBandRows, rows - r);
    float totals[kBandRows] = {};
    gradient_rectangle(kernels, in.a.from(r, 0), in.b.from(r, 0), dy.from(r, 0), in.probs.from(r),
                       dx.from(r, 0), dx.from(r, in.width), op.dprobs.given() ? totals : nullptr,
                       count, in.width);
    if (op.dprobs.given()) write_totals(totals, count, op.dprobs, r);
  }
}

}  // namespace mxo::cpu

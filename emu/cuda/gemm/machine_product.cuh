// Products as matrix units sum them.
#pragma once

#include "emu/cuda/gemm/problem.cuh"
#include "ops/sums.h"

namespace mxo::cuda {

/// True if Hopper's wgmma itself gives the sum `how` over the operands of `p`, whole problem.
bool wgmma_gives(const Accumulation& how, const Problem& p);
/// Runs the instruction; wgmma_gives(how, p) holds.
void multiply_with_wgmma(DeviceBackend& backend, const Accumulation& how, const Problem& p);

/// The model in integers, one output to a thread.
void multiply_as_modelled(DeviceBackend& backend, const Accumulation& how, const Problem& p);

}  // namespace mxo::cuda

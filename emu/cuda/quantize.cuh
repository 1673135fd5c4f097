// The ways to quantise on a device; the fast ones say whether they took the call.
#pragma once

#include "emu/cuda/launch.cuh"
#include "formats/scale_layout.h"
#include "ops/quantize.h"

namespace mxo::cuda {

/// Contiguous tensors along the last axis, scales in order or in 128x4 tiles.
bool quantize_columns(cudaStream_t stream, const Quantize& op);
/// Contiguous x along axis -2; codes in place or transposed.
bool quantize_rows(cudaStream_t stream, const Quantize& op);
/// Any strides: one thread a block.
void quantize_any(cudaStream_t stream, const Quantize& op);

}  // namespace mxo::cuda

// Quantisers of blocks of any extents: bands of rows over threads, kernels over their rows.
#pragma once

#include "emu/cpu/codec_kernels.h"
#include "ops/quantize.h"

namespace mxo::cpu {

/// Any Quantize with row-major scales.
void quantize_any_blocks(const Quantize& op, const EncodeKernels& codec, int threads);
/// Any Dequantize.
void dequantize_any_blocks(const Dequantize& op, const DecodeKernels& codec, int threads);

}  // namespace mxo::cpu

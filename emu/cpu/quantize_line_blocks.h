// Blocks within one row or one column, with e8m0 scales: tiles over threads, kernels over tiles.
#pragma once

#include "emu/cpu/codec_kernels.h"
#include "ops/quantize.h"

namespace mxo::cpu {

/// Whole blocks of a regular rule, scales row-major.
void quantize_line_blocks(const Quantize& op, Isa isa, int threads);
/// Whole blocks, scales row-major.
void dequantize_line_blocks(const Dequantize& op, Isa isa, int threads);

}  // namespace mxo::cpu

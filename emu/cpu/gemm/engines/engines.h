// The engines that every machine has; those of tile registers are in the tables of amx.h.
#pragma once

#include "emu/cpu/gemm/tiles/engine.h"

namespace mxo::cpu {

extern const Engine kInt16Engine;  ///< 8-bit codes as int16, exact int32 sums of a run, f64 across
extern const Engine kF64Engine;    ///< bf16 operands in f64
extern const Engine kChainEngine;  ///< fma_chain in f32

}  // namespace mxo::cpu

// The engines of tile registers: AMX, or the same spelt out.
#pragma once

#include "emu/cpu/gemm/engines/bf16/bf16_tiles.h"
#include "emu/cpu/gemm/engines/three_slices/three_slices.h"
#include "emu/cpu/gemm/engines/two_slices/two_slices.h"

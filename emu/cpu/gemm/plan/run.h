// Products by one engine.
#pragma once

#include <vector>

#include "emu/cpu/gemm/tiles/engine.h"

namespace mxo::cpu {

StageCounts run(const Kernels& kernels, const Engine& engine, const std::vector<Product>& products,
                int threads);

}  // namespace mxo::cpu

// Products by one engine.
#pragma once

#include <vector>

#include "emu/cpu/gemm/tiles/engine.h"

namespace mxo::cpu {

void run(const Kernels& kernels, const Engine& engine, const std::vector<Product>& products,
         int threads);

}  // namespace mxo::cpu

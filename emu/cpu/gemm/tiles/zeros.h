// Products with K = 0, the weight gradients of groups without rows: every output is +0.
#pragma once

#include <span>

#include "emu/cpu/gemm/product.h"

namespace mxo::cpu {

void write_zeros(std::span<const Product> products, int threads);

}  // namespace mxo::cpu

// Products of matrix units on the CPU: the scalar engine's bits, vectorised over columns.
#pragma once

#include <span>

#include "emu/cpu/isa.h"
#include "ops/contraction_view.h"

namespace mxo::cpu {

void run_machine_products(std::span<const ContractionView> products, Isa isa, int threads);

}  // namespace mxo::cpu

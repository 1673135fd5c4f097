// Products of matrix units, one output at a time.
#pragma once

#include <span>

#include "emu/sums/machine_product.h"

namespace mxo {

/// The definition: every output by the scalar engine.
void run_each(std::span<const MachineProduct> products);

}  // namespace mxo

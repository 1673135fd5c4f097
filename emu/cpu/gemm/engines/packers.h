// The packers of integer panels, for pairs, byte planes and digits, and that of codes as bf16.
#pragma once

#include "emu/cpu/gemm/pack/integer_packer.h"

namespace mxo::cpu {

void pack_pairs(const Kernels& kernels, const Product& product, const Factor& factor,
                const Depth& depth, Panel& panel, PackScratch& scratch);
void pack_planes(const Kernels& kernels, const Product& product, const Factor& factor,
                 const Depth& depth, Panel& panel, PackScratch& scratch);
/// Of lines that are neighbours in memory: factor.row_step is 1.
void pack_bf16(const Product& product, const Factor& factor, const Depth& depth, Panel& panel,
               PackScratch& scratch);
void pack_digits(const Factor& factor, const Depth& depth, Panel& panel, PackScratch& scratch);

}  // namespace mxo::cpu

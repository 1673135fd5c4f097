// The packers of integer panels, for int16 pairs, two slices and three slices, and that of codes as
// bf16.
#pragma once

#include "emu/cpu/gemm/pack/integer_packer.h"

namespace mxo::cpu {

void pack_pairs(const Kernels& kernels, const Product& product, const Factor& factor,
                const KBlock& k_block, MicroPanel& panel, PackScratch& scratch);
void pack_two_slices(const Kernels& kernels, const Product& product, const Factor& factor,
                     const KBlock& k_block, MicroPanel& panel, PackScratch& scratch);
/// Of K-vectors that are neighbours in memory: factor.row_step is 1.
void pack_bf16(const Product& product, const Factor& factor, const KBlock& k_block,
               MicroPanel& panel, PackScratch& scratch);
void pack_three_slices(const Factor& factor, const KBlock& k_block, MicroPanel& panel,
                       PackScratch& scratch);

}  // namespace mxo::cpu

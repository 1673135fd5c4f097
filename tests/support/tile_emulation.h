// Products in slices without tile registers.
#pragma once

#include "emu/cpu/gemm/engines/tile_kernels.h"

namespace mxo::test {

/// The table of AMX with its tile instructions spelt out in plain C++; wants AVX-512.
const cpu::Kernels& amx_layout_kernels();
/// Codes to two slices by the values of the tables.
void encode_two_slices(const cpu::SliceTable& table, int chunks, const std::uint8_t* codes,
                       const std::uint8_t* shift, const cpu::SliceTarget& to,
                       cpu::SliceTally& tally) noexcept;

}  // namespace mxo::test

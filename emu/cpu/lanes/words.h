// Vectors of 16-bit lanes, and the magnitudes of bf16 in them.
#pragma once

#include "emu/cpu/lanes/lanes.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {

constexpr hn::Repartition<std::uint16_t, decltype(kInts)> kShorts;
using H = hn::Vec<decltype(kShorts)>;
constexpr Index kMaxShorts = 2 * kMaxLanes;

HWY_API Index shorts() { return 2 * lanes(); }
HWY_API H all_shorts(int value) { return hn::Set(kShorts, static_cast<std::uint16_t>(value)); }

/// Those of WordKernels, for every format.
void amax_blocks(const void* x, Index blocks, Index width, std::uint16_t* top) noexcept;
std::uint16_t amax_rows(const void* x, Index stride, Index rows, Index columns) noexcept;
void amax_columns(const void* x, Index stride, Index rows, Index columns,
                  std::uint16_t* top) noexcept;

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

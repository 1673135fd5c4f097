// Vectors of 16-bit lanes, and the magnitudes of bf16 in them.
#pragma once

#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/lanes/lanes.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {

constexpr hn::Repartition<std::uint16_t, decltype(kInts)> kShorts;
using H = hn::Vec<decltype(kShorts)>;
constexpr Index kMaxShorts = 2 * kMaxLanes;

HWY_API Index shorts() { return 2 * lanes(); }
HWY_API H all_shorts(int value) { return hn::Set(kShorts, static_cast<std::uint16_t>(value)); }

/// Codes of two vectors of words, one in the lower byte of each.
HWY_INLINE void store_codes(std::uint8_t* to, H first, H second, Stores stores) {
  auto bytes = hn::Zero(kBytes);
  if constexpr (HWY_TARGET == HWY_AVX2) {
    alignas(32) static constexpr std::uint8_t kUnmix[32] = {
        0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15,
        0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
    alignas(32) static constexpr std::int32_t kOrder[8] = {0, 1, 4, 5, 2, 3, 6, 7};
    const auto mixed = hn::BitCast(kBytes, hn::Or(first, hn::ShiftLeft<8>(second)));
    const auto blocks = hn::TableLookupBytes(mixed, hn::Load(kBytes, kUnmix));
    bytes = hn::BitCast(kBytes, hn::TableLookupLanes(hn::BitCast(kInts, blocks),
                                                     hn::SetTableIndices(kInts, kOrder)));
  } else {
    bytes = hn::ConcatEven(kBytes, hn::BitCast(kBytes, second), hn::BitCast(kBytes, first));
  }
  if (stores == Stores::streamed) {
    hn::Stream(bytes, kBytes, to);
  } else {
    hn::StoreU(bytes, kBytes, to);
  }
}

/// Those of WordKernels, for every format.
void amax_blocks(const void* x, Index blocks, Index width, std::uint16_t* top) noexcept;
std::uint16_t amax_rows(const void* x, Index stride, Index rows, Index columns) noexcept;
void amax_columns(const void* x, Index stride, Index rows, Index columns,
                  std::uint16_t* top) noexcept;

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

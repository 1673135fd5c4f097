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

using B = hn::Vec<decltype(kBytes)>;

/// Bytes of two vectors, in an order that in_order() rights: words below 256; the sign bits of
/// words, each above any 7 bits.
#if HWY_TARGET == HWY_AVX2
HWY_INLINE B packed(H a, H b) { return B{_mm256_packus_epi16(a.raw, b.raw)}; }
HWY_INLINE B packed_signs(H a, H b) { return B{_mm256_packs_epi16(a.raw, b.raw)}; }
HWY_INLINE B in_order(B v) { return B{_mm256_permute4x64_epi64(v.raw, 0xD8)}; }
#else
HWY_INLINE B packed(H a, H b) {
  return hn::ConcatEven(kBytes, hn::BitCast(kBytes, b), hn::BitCast(kBytes, a));
}
HWY_INLINE B packed_signs(H a, H b) {
  return hn::ConcatOdd(kBytes, hn::BitCast(kBytes, b), hn::BitCast(kBytes, a));
}
HWY_INLINE B in_order(B v) { return v; }
#endif

HWY_INLINE void store_bytes(std::uint8_t* to, B packed, Stores stores) {
  if (stores == Stores::streamed) {
    hn::Stream(in_order(packed), kBytes, to);
  } else {
    hn::StoreU(in_order(packed), kBytes, to);
  }
}

/// Codes of two vectors of words, one in the lower byte of each.
HWY_INLINE void store_codes(std::uint8_t* to, H first, H second, Stores stores) {
  store_bytes(to, packed(first, second), stores);
}

/// Those of WordKernels, for every format.
void amax_blocks(const void* x, Index blocks, Index width, std::uint16_t* top) noexcept;
std::uint16_t amax_rows(const void* x, Index stride, Index rows, Index columns) noexcept;
void amax_columns(const void* x, Index stride, Index rows, Index columns,
                  std::uint16_t* top) noexcept;

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

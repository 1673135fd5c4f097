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

/// Bytes of two vectors of words below 256, in an order that in_order() rights.  (Highway has no
/// name for these instructions of AVX2; templates, so that other machines need not know them.)
template <typename V>
HWY_INLINE B packed(V a, V b) {
  if constexpr (HWY_TARGET == HWY_AVX2) {
    return B{_mm256_packus_epi16(a.raw, b.raw)};
  } else {
    return hn::ConcatEven(kBytes, hn::BitCast(kBytes, b), hn::BitCast(kBytes, a));
  }
}
/// The same of signed words, those outside of a byte's range as its ends.
template <typename V>
HWY_INLINE B packed_saturated(V a, V b) {
  if constexpr (HWY_TARGET == HWY_AVX2) {
    return packed(a, b);
  } else {
    const auto clamped = [](V v) HWY_ATTR {
      constexpr hn::DFromV<V> tag;
      return hn::Min(hn::Max(v, hn::Zero(tag)), hn::Set(tag, std::int16_t{0xFF}));
    };
    return packed(clamped(a), clamped(b));
  }
}
/// The sign bits of words, each above any 7 bits, in that order.
template <typename V>
HWY_INLINE B packed_signs(V a, V b) {
  if constexpr (HWY_TARGET == HWY_AVX2) {
    return B{_mm256_packs_epi16(a.raw, b.raw)};
  } else {
    return hn::ConcatOdd(kBytes, hn::BitCast(kBytes, b), hn::BitCast(kBytes, a));
  }
}
template <typename V>
HWY_INLINE V in_order(V v) {
  if constexpr (HWY_TARGET == HWY_AVX2) {
    return V{_mm256_permute4x64_epi64(v.raw, 0xD8)};
  } else {
    return v;
  }
}

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

/// The largest magnitudes so far and those at x.
HWY_INLINE H joined(H top, const std::uint16_t* x) {
  return hn::Max(top, hn::And(hn::LoadU(kShorts, x), all_shorts(0x7FFF)));
}

/// Those of WordKernels, for every format.
void amax_blocks(const void* x, Index blocks, Index width, std::uint16_t* top) noexcept;
std::uint16_t amax_rows(const void* x, Index stride, Index rows, Index columns) noexcept;
void amax_columns(const void* x, Index stride, Index rows, Index columns,
                  std::uint16_t* top) noexcept;

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

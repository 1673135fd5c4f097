// Vectors of int32 and float lanes, by Highway, for the one target that CMake compiles a
// translation unit for (MXO_LANES_TARGET): each source of this folder becomes an object for each
// target, in a namespace named after it.
//
// Nothing of the shared headers may be called in this folder but in constant expressions: a copy of
// an inline function compiled for its target could be linked into code for older machines.
#pragma once

#include <cstdint>

#include <hwy/detect_targets.h>

#undef HWY_TARGET
#define HWY_TARGET MXO_LANES_TARGET
#include <hwy/highway.h>

#include "formats/tensor_view.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr Index kMaxLanes = 16;  // of an SVE as wide as it comes, 16 are used
/// Rows of a panel to fetch ahead: its pieces are too short for the hardware to foresee.
constexpr Index kRowsAhead = 8;
/// Rows whose pieces are read or coded in turn: memory feeds so many streams faster than one.
constexpr Index kRowsTogether = 8;
constexpr hn::CappedTag<std::int32_t, kMaxLanes> kInts;
constexpr hn::RebindToUnsigned<decltype(kInts)> kWords;
constexpr hn::RebindToFloat<decltype(kInts)> kFloats;
constexpr hn::Repartition<std::uint8_t, decltype(kInts)> kBytes;
constexpr hn::Rebind<std::uint16_t, decltype(kInts)> kHalves;
using I = hn::Vec<decltype(kInts)>;
using F = hn::Vec<decltype(kFloats)>;

HWY_API Index lanes() { return static_cast<Index>(hn::Lanes(kInts)); }
HWY_API I all(int value) { return hn::Set(kInts, value); }
HWY_API F floats(I a) { return hn::BitCast(kFloats, a); }
HWY_API I bits(F a) { return hn::BitCast(kInts, a); }
template <int n>
HWY_API I shift_right(I a) {
  return hn::BitCast(kInts, hn::ShiftRight<n>(hn::BitCast(kWords, a)));
}
HWY_API I magnitude_of(I word) { return hn::And(word, all(0x7FFFFFFF)); }
HWY_API I load_words(const std::uint32_t* from) {
  return hn::BitCast(kInts, hn::LoadU(kWords, from));
}
HWY_API void store_words(std::uint32_t* to, I a) { hn::StoreU(hn::BitCast(kWords, a), kWords, to); }

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

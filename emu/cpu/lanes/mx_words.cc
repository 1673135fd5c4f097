// MX quantisation of bf16 in 16-bit lanes: amax, scales, codes.  Whole blocks of normal codes need
// integers alone; others go through WordKernels, and those whose scale is NaN, as where an element
// is, through the float lanes.
#include <hwy/cache_control.h>

#include "emu/cpu/lanes/scale_lanes.h"
#include "emu/cpu/lanes/tables.h"
#include "emu/cpu/lanes/words.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {
namespace {

constexpr hn::Rebind<std::uint8_t, decltype(kInts)> kIntBytes;
constexpr hn::RebindToSigned<decltype(kShorts)> kSignedShorts;
constexpr hn::Rebind<std::uint8_t, decltype(kShorts)> kShortBytes;

template <FormatSpec S>
constexpr int kFormat = (S.mantissa_bits == 2 ? 2 : 0) +
                        (S.special == Special::nan_minus_0 ? 1 : 0);

/// The same of any block, in float lanes.
template <FormatSpec S>
const QuantizeKernels& in_float_lanes() {
  return kEncodeKernels.quantize[kFormat<S>][input_index(Dtype::bf16)];
}

constexpr std::uint8_t kNanScale = 0xFF;

/// What a block subtracts from magnitudes, as in mx_bf16_avx512.cc; kNoShift for those that hold
/// Inf or NaN and those whose subnormals the shift does not move.
constexpr int kNoShift = 0x8000;
constexpr int kZeroShift = 0x7FFF;
template <FormatSpec S>
HWY_INLINE I shift_lanes(I magnitudes, I code) {
  constexpr int least = S.bias + 1 + S.mantissa_bits;
  I shift = hn::ShiftLeft<7>(hn::Sub(code, all(S.bias + S.mantissa_bits)));
  shift = hn::IfThenElse(hn::Gt(all(least), code), all(kNoShift), shift);
  shift = hn::IfThenElse(hn::Eq(magnitudes, all(0)), all(kZeroShift), shift);
  return hn::IfThenElse(hn::Gt(magnitudes, all(0x7F7FFFFF)), all(kNoShift), shift);
}

/// Codes of two vectors by integers alone, and true; nothing, and false, if one is subnormal.
template <FormatSpec S>
HWY_INLINE bool code_normals(const std::uint16_t* x, H shift0, H shift1, std::uint8_t* to,
                             Stores stores) {
  constexpr int m = S.mantissa_bits;
  constexpr int drop = 7 - m;
  const auto moved = [](H word, H by)
                         HWY_ATTR { return hn::Sub(hn::And(word, all_shorts(0x7FFF)), by); };
  const auto rounded = [](H word, H at) HWY_ATTR {
    const auto zero = hn::Set(kSignedShorts, std::int16_t{m << 7});  // rounds to code 0
    const auto field = hn::Max(hn::BitCast(kSignedShorts, at), zero);
    const H odd = hn::And(hn::ShiftRight<drop>(word), all_shorts(1));
    const H up = hn::Add(hn::BitCast(kShorts, field), all_shorts((1 << (drop - 1)) - 1 - (m << 7)));
    return hn::ShiftRight<drop>(hn::Add(up, odd));
  };
  const H word0 = hn::LoadU(kShorts, x);
  const H word1 = hn::LoadU(kShorts, x + shorts());
  const H at0 = moved(word0, shift0);
  const H at1 = moved(word1, shift1);
  const H least = hn::Min(at0, at1);
  if (HWY_UNLIKELY(
          !hn::AllTrue(kShorts, hn::Eq(hn::Max(least, all_shorts((m + 1) << 7)), least)))) {
    return false;
  }
  const auto all_bytes = [](int value)
                             HWY_ATTR { return hn::Set(kBytes, static_cast<std::uint8_t>(value)); };
  const B code =
      hn::Min(packed(rounded(word0, at0), rounded(word1, at1)), all_bytes(S.max_finite()));
  B sign = hn::And(packed_signs(word0, word1), all_bytes(0x80));
  if constexpr (S.special == Special::nan_minus_0) {
    sign = hn::IfThenZeroElse(hn::Eq(code, all_bytes(0)), sign);
  }
  store_bytes(to, hn::Or(code, sign), stores);
  return true;
}

template <FormatSpec S>
HWY_FLATTEN void mx_run(const void* from, Index blocks, Index block, const MxRule& rule,
                        std::uint8_t* codes, std::uint8_t* scales, Stores stores) noexcept {
  constexpr Index kTogether = 128;  // blocks: fetched while as many before them are coded
  const WordKernels& words = kWordKernels[kFormat<S>];
  const auto* x = static_cast<const std::uint16_t*>(from);
  const Index pair = 2 * shorts();
  Index left = 0;  // blocks of the last group that integers left to floats
  alignas(64) std::uint16_t amax[kTogether] = {};
  alignas(64) std::uint16_t shifts[kTogether];
  alignas(64) float multipliers[kTogether];
  alignas(64) std::uint8_t bytes[kTogether];
  for (Index b = 0; b < blocks; b += kTogether) {
    const Index count = blocks - b < kTogether ? blocks - b : kTogether;
    const std::uint16_t* first = x + b * block;
    std::uint8_t* to = codes + b * block;
    words.amax(first, count, block, amax);
    for (Index i = 0; i < kTogether; i += lanes()) {
      const I magnitudes = hn::BitCast(
          kInts, hn::ShiftLeft<16>(hn::PromoteTo(kWords, hn::LoadU(kHalves, amax + i))));
      const I code = scale_lanes<S>(magnitudes, rule);
      hn::StoreU(hn::DemoteTo(kHalves, shift_lanes<S>(magnitudes, code)), kHalves, shifts + i);
      hn::StoreU(reciprocal_lanes(code), kFloats, multipliers + i);
      hn::StoreU(hn::DemoteTo(kIntBytes, code), kIntBytes, bytes + i);
    }
    __builtin_memcpy(scales + b, bytes, static_cast<std::size_t>(count));
    constexpr int multiply = static_cast<int>(WordRule::multiply);
    if (block % pair != 0 || left > kTogether / 4) {
      left = 0;
      words.blocks[multiply](first, count, block, multipliers, to, stores);
    } else {
      left = 0;
      for (Index i = 0; i < count; ++i) {
        const H shift = hn::Set(kShorts, shifts[i]);
        bool done = shifts[i] != kNoShift;
        for (Index k = i * block; done && k < (i + 1) * block; k += pair) {
          __builtin_prefetch(first + kTogether * block + k);
          __builtin_prefetch(first + kTogether * block + k + pair / 2);
          done = code_normals<S>(first + k, shift, shift, to + k, stores);
        }
        if (done) continue;
        ++left;
        words.blocks[multiply](first + i * block, 1, block, multipliers + i, to + i * block,
                               stores);
      }
    }
    for (Index i = 0; i < count; ++i) {
      if (bytes[i] != kNanScale) continue;
      in_float_lanes<S>().mx_run(first + i * block, 1, block, rule, to + i * block, scales + b + i,
                                 Stores::cached);
    }
  }
  if (stores == Stores::streamed) hwy::FlushStream();
}

template <FormatSpec S>
HWY_FLATTEN void mx_panel(const void* from, Index x_stride, Index rows, Index columns,
                          const MxRule& rule, std::uint8_t* codes, Index codes_stride,
                          std::uint8_t* scales, Stores stores, const void* next) noexcept {
  constexpr Index kStrip = 64;  // columns that go through the float lanes if one of them has to
  constexpr Index kPadded = kPanelColumns + 2 * kMaxShorts;
  const WordKernels& words = kWordKernels[kFormat<S>];
  const auto* x = static_cast<const std::uint16_t*>(from);
  alignas(64) std::uint16_t amax[kPadded] = {};
  alignas(64) float even[kPadded / 2];
  alignas(64) float odd[kPadded / 2];
  alignas(64) std::uint16_t shifts[kPadded];
  alignas(64) std::uint8_t bytes[kPadded];
  words.amax_columns(x, x_stride, rows, columns, amax);
  const Index line = 2 * shorts();
  for (Index k = 0; k < (columns + line - 1) / line * line; k += shorts()) {
    const I pairs = hn::BitCast(kInts, hn::LoadU(kShorts, amax + k));
    const I amax0 = hn::ShiftLeft<16>(pairs);
    const I amax1 = hn::And(pairs, all(static_cast<int>(0xFFFF0000u)));
    const I first = scale_lanes<S>(amax0, rule);
    const I second = scale_lanes<S>(amax1, rule);
    hn::StoreU(hn::OddEven(hn::BitCast(kShorts, hn::ShiftLeft<16>(shift_lanes<S>(amax1, second))),
                           hn::BitCast(kShorts, shift_lanes<S>(amax0, first))),
               kShorts, shifts + k);
    hn::StoreU(reciprocal_lanes(first), kFloats, even + k / 2);
    hn::StoreU(reciprocal_lanes(second), kFloats, odd + k / 2);
    const auto both = hn::BitCast(kSignedShorts, hn::Or(first, hn::ShiftLeft<16>(second)));
    hn::StoreU(hn::DemoteTo(kShortBytes, both), kShortBytes, bytes + k);
  }
  __builtin_memcpy(scales, bytes, static_cast<std::size_t>(columns));
  const auto ahead = static_cast<Index>(reinterpret_cast<std::uintptr_t>(next) -
                                        reinterpret_cast<std::uintptr_t>(from)) /
                     Index{sizeof(*x)};
  const auto by_floats = [&](Index r, Index k, Index count_r, Index count_k) {
    words.columns[static_cast<int>(WordRule::multiply)](
        {x + r * x_stride + k, x_stride, count_r, count_k, codes + r * codes_stride + k,
         codes_stride, stores, ahead},
        even + k / 2, odd + k / 2);
  };
  const Index whole = columns / line * line;
  Index r = 0;
  for (Index left = 0; r < rows && left <= whole / line;) {
    const Index end = rows - r < kRowsTogether ? rows : r + kRowsTogether;
    left = 0;  // pieces of these rows that integers left to floats
    for (Index k = 0; k < whole; k += line) {
      const H shift0 = hn::LoadU(kShorts, shifts + k);
      const H shift1 = hn::LoadU(kShorts, shifts + k + shorts());
      const H none = all_shorts(kNoShift);
      const bool shifted =
          hn::AllFalse(kShorts, hn::Or(hn::Eq(shift0, none), hn::Eq(shift1, none)));
      for (Index i = r; i < end; ++i) {
        const std::uint16_t* row = x + i * x_stride + k;
        __builtin_prefetch(row + ahead, 0, 2);
        __builtin_prefetch(row + ahead + shorts(), 0, 2);
        if (shifted && code_normals<S>(row, shift0, shift1, codes + i * codes_stride + k, stores)) {
          continue;
        }
        ++left;
        by_floats(i, k, 1, line);
      }
    }
    r = end;
  }
  if (r < rows) by_floats(r, 0, rows - r, whole);
  if (whole < columns) by_floats(0, whole, rows, columns - whole);
  for (Index k = 0; k < columns; k += kStrip) {
    const Index count = columns - k < kStrip ? columns - k : kStrip;
    bool special = false;
    for (Index i = k; i < k + count; ++i) special = special || bytes[i] == kNanScale;
    if (!special) continue;
    in_float_lanes<S>().mx_panel(x + k, x_stride, rows, count, rule, codes + k, codes_stride,
                                 scales + k, Stores::cached, x + k);
  }
  if (stores == Stores::streamed) hwy::FlushStream();
}

}  // namespace

const MxKernels kMxBF16[4] = {{mx_run<kE4M3>, mx_panel<kE4M3>},
                              {mx_run<kE4M3Fnuz>, mx_panel<kE4M3Fnuz>},
                              {mx_run<kE5M2>, mx_panel<kE5M2>},
                              {mx_run<kE5M2Fnuz>, mx_panel<kE5M2Fnuz>}};

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

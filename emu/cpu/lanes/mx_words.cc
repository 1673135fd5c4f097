// MX quantisation of bf16 in 16-bit lanes: amax, scales, codes.  Whole blocks of normal codes need
// integers alone; others go through WordKernels, and those whose scale is NaN, as where an element
// is, through the float lanes; so do strips of columns where an amax or a scale is not normal.
#include "emu/cpu/lanes/beside.h"
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

/// Codes of two vectors by integers alone; false if one of them is subnormal: then they are not
/// these.  What is dropped rounds as in mx_bf16_avx512.cc.
template <FormatSpec S>
HWY_INLINE bool code_normals(const std::uint16_t* x, H shift0, H shift1, std::uint8_t* to,
                             Stores stores) {
  constexpr int m = S.mantissa_bits;
  constexpr int drop = 7 - m;
  const auto moved = [](H word, H by)
                         HWY_ATTR { return hn::Sub(hn::And(word, all_shorts(0x7FFF)), by); };
  const auto rounded = [](H word, H at) HWY_ATTR {
    const H even =
        hn::VecFromMask(kShorts, hn::Eq(hn::And(word, all_shorts(1 << drop)), hn::Zero(kShorts)));
    return hn::MulFixedPoint15(hn::BitCast(kSignedShorts, hn::Add(at, even)),
                               hn::Set(kSignedShorts, std::int16_t{1 << (15 - drop)}));
  };
  const H word0 = hn::LoadU(kShorts, x);
  const H word1 = hn::LoadU(kShorts, x + shorts());
  const H at0 = moved(word0, shift0);
  const H at1 = moved(word1, shift1);
  const auto all_bytes = [](int value)
                             HWY_ATTR { return hn::Set(kBytes, static_cast<std::uint8_t>(value)); };
  const B counted = packed_saturated(rounded(word0, at0), rounded(word1, at1));
  const B code = hn::Min(hn::SaturatedSub(counted, all_bytes(m << m)), all_bytes(S.max_finite()));
  B sign = hn::And(packed_signs(word0, word1), all_bytes(0x80));
  if constexpr (S.special == Special::nan_minus_0) {
    sign = hn::IfThenZeroElse(hn::Eq(code, all_bytes(0)), sign);
  }
  store_bytes(to, hn::Or(code, sign), stores);
  const H least = hn::Min(at0, at1);
  return hn::AllTrue(kShorts, hn::Eq(hn::Max(least, all_shorts((m + 1) << 7)), least));
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
}

constexpr Index kStrip = 64;          // columns: a line of codes
constexpr int kLargestAmax = 0x7EFF;  // as in mx_bf16_avx512.cc

/// Scales of a strip, and what its columns subtract.
struct StripScales {
  alignas(64) std::uint16_t amax[kStrip] = {};
  alignas(64) std::uint16_t shifts[kStrip];
  alignas(64) std::uint8_t bytes[kStrip];
  bool normal = true;  ///< every column: otherwise the rest is not right
};

/// All the rest from amax, as in mx_bf16_avx512.cc.  Apart, so that its constants take no registers
/// of the loops over rows.
template <FormatSpec S>
HWY_NOINLINE void set_scales(StripScales& of, const MxRule& rule) {
  const auto all_signed = [](int value) HWY_ATTR {
    return hn::Set(kSignedShorts, static_cast<std::int16_t>(value));
  };
  constexpr int from = S.bias + S.mantissa_bits;
  for (Index k = 0; k < kStrip; k += shorts()) {
    const H amax = hn::Load(kShorts, of.amax + k);
    const H field = hn::ShiftRight<7>(hn::Add(amax, all_shorts(rule.up)));
    const auto code = hn::Max(hn::Sub(hn::BitCast(kSignedShorts, field), all_signed(rule.less)),
                              hn::Zero(kSignedShorts));
    const auto zero = hn::Eq(hn::BitCast(kSignedShorts, amax), hn::Zero(kSignedShorts));
    const auto shift = hn::ShiftLeft<7>(hn::Sub(code, all_signed(from)));
    hn::Store(hn::BitCast(kShorts, hn::IfThenElse(zero, all_signed(kZeroShift), shift)), kShorts,
              of.shifts + k);
    hn::StoreU(hn::DemoteTo(kShortBytes, code), kShortBytes, of.bytes + k);
    const auto tiny = hn::AndNot(zero, hn::Gt(all_signed(from + 1), code));
    const auto beyond = hn::Gt(hn::BitCast(kSignedShorts, amax), all_signed(kLargestAmax));
    of.normal = of.normal && hn::AllFalse(kSignedShorts, hn::Or(tiny, beyond));
  }
}

/// Codes of rows of a strip as WordKernels make them.
template <FormatSpec S>
HWY_NOINLINE void strip_by_floats(const StripScales& scale, const WordRows& of) {
  alignas(64) float even[kStrip / 2];
  alignas(64) float odd[kStrip / 2];
  for (Index i = 0; i < kStrip / 2; i += lanes()) {
    alignas(64) std::uint16_t pairs[kMaxLanes];
    __builtin_memcpy(pairs, scale.bytes + 2 * i, 2 * static_cast<std::size_t>(lanes()));
    const I both = hn::BitCast(kInts, hn::PromoteTo(kWords, hn::Load(kHalves, pairs)));
    hn::StoreU(reciprocal_lanes(hn::And(both, all(0xFF))), kFloats, even + i);
    hn::StoreU(reciprocal_lanes(shift_right<8>(both)), kFloats, odd + i);
  }
  kWordKernels[kFormat<S>].columns[static_cast<int>(WordRule::multiply)](of, even, odd);
}

template <FormatSpec S>
HWY_FLATTEN void mx_panel(const void* from, Index x_stride, Index rows, Index columns,
                          const MxRule& rule, std::uint8_t* codes, Index codes_stride,
                          std::uint8_t* scales, Stores stores, const Beside& beside) noexcept {
  const auto* x = static_cast<const std::uint16_t*>(from);
  const auto* after = static_cast<const std::uint16_t*>(beside.next);
  const Index pair = 2 * shorts();
  const Index whole = columns / kStrip * kStrip;
  for (Index k = 0; k < whole; k += kStrip, x += kStrip, after += kStrip, codes += kStrip) {
    StripScales scale;
    for (Index i = 0; i < kStrip; i += pair) {  // a line at a time: rows can share a cache set
      H top0 = hn::Zero(kShorts);
      H top1 = top0;
      for (Index r = 0; r < rows; ++r) {
        top0 = joined(top0, x + r * x_stride + i);
        top1 = joined(top1, x + r * x_stride + i + shorts());
      }
      hn::Store(top0, kShorts, scale.amax + i);
      hn::Store(top1, kShorts, scale.amax + i + shorts());
    }
    set_scales<S>(scale, rule);
    if (!scale.normal) {
      in_float_lanes<S>().mx_panel(x, x_stride, rows, kStrip, rule, codes, codes_stride, scales + k,
                                   Stores::cached, beside);
      continue;
    }
    __builtin_memcpy(scales + k, scale.bytes, kStrip);
    Index left = 0;  // rows that integers left to floats
    Index r = 0;
    for (; r < rows && left <= r / 4 + 1; ++r) {
      const std::uint16_t* row = x + r * x_stride;
      std::uint8_t* to = codes + r * codes_stride;
      // Into the second level: the first one waits for few lines at a time.
      __builtin_prefetch(after + r * x_stride, 0, 2);
      __builtin_prefetch(after + r * x_stride + kStrip / 2, 0, 2);
      send_line(beside, r);
      bool normal = true;
      for (Index i = 0; i < kStrip; i += pair) {
        const H shift0 = hn::Load(kShorts, scale.shifts + i);
        const H shift1 = hn::Load(kShorts, scale.shifts + i + shorts());
        normal &= code_normals<S>(row + i, shift0, shift1, to + i, stores);
      }
      if (HWY_LIKELY(normal)) continue;
      ++left;
      strip_by_floats<S>(scale, {row, x_stride, 1, kStrip, to, codes_stride, stores});
    }
    if (r < rows) {
      strip_by_floats<S>(scale, {x + r * x_stride, x_stride, rows - r, kStrip,
                                 codes + r * codes_stride, codes_stride, stores});
      for (; r < rows; ++r) send_line(beside, r);
    }
  }
  if (whole < columns) {
    in_float_lanes<S>().mx_panel(x, x_stride, rows, columns - whole, rule, codes, codes_stride,
                                 scales + whole, Stores::cached, {x});
  }
}

}  // namespace

const MxKernels kMxBF16[4] = {{mx_run<kE4M3>, mx_panel<kE4M3>},
                              {mx_run<kE4M3Fnuz>, mx_panel<kE4M3Fnuz>},
                              {mx_run<kE5M2>, mx_panel<kE5M2>},
                              {mx_run<kE5M2Fnuz>, mx_panel<kE5M2Fnuz>}};

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// Encoding and quantising over vectors of float lanes.
#include <hwy/cache_control.h>

#include "emu/cpu/lanes/beside.h"
#include "emu/cpu/lanes/lanes.h"
#include "emu/cpu/lanes/scale_lanes.h"
#include "emu/cpu/lanes/tables.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {
namespace {

struct FromF32 {
  using Element = float;
  static HWY_INLINE I load(const Element* x) { return bits(hn::LoadU(kFloats, x)); }
};
struct FromBF16 {
  using Element = std::uint16_t;
  static HWY_INLINE I load(const Element* x) {
    return hn::BitCast(kInts, hn::ShiftLeft<16>(hn::PromoteTo(kWords, hn::LoadU(kHalves, x))));
  }
};
struct FromF16 {
  using Element = std::uint16_t;
  static HWY_INLINE I load(const Element* x) {
    constexpr hn::Rebind<hwy::float16_t, decltype(kInts)> from;
    return bits(hn::PromoteTo(kFloats, hn::BitCast(from, hn::LoadU(kHalves, x))));
  }
};

/// One code per lane, in its low byte.  Normal results round by adding half a step less one and
/// the lowest kept bit; subnormal ones by adding the power of two whose last place is the
/// format's quantum, which leaves the rounding to the float adder.
template <FormatSpec S, Overflow overflow>
HWY_INLINE I encode_lanes(F value, I nan_sign) {
  constexpr int drop = 23 - S.mantissa_bits;
  constexpr int max = S.max_finite();
  constexpr int rebias = (127 - S.bias) << 23;
  constexpr int least_normal = (S.min_exponent() + 127) << 23;
  constexpr int magic = (23 + S.quantum_exponent() + 127) << 23;
  constexpr bool fnuz = S.special == Special::nan_minus_0;

  const I word = bits(value);
  const I magnitude = magnitude_of(word);
  const I odd = hn::And(shift_right<drop>(magnitude), all(1));
  const I normal =
      shift_right<drop>(hn::Add(hn::Add(magnitude, odd), all(((1 << (drop - 1)) - 1) - rebias)));
  const I subnormal = hn::Sub(bits(hn::Add(floats(magnitude), floats(all(magic)))), all(magic));
  I code = hn::IfThenElse(hn::Gt(all(least_normal), magnitude), subnormal, normal);
  I sign = hn::And(shift_right<24>(word), all(0x80));
  const I nan = fnuz ? all(0x80) : hn::Or(all(0x7F), hn::And(sign, nan_sign));
  if constexpr (fnuz) sign = hn::IfThenElseZero(hn::Gt(code, all(0)), sign);
  if constexpr (overflow == Overflow::saturate) {
    code = hn::Or(hn::Min(code, all(max)), sign);
  } else {
    constexpr int past = S.special == Special::ieee ? max + 1 : fnuz ? 0x80 : 0x7F;
    code = hn::Or(hn::IfThenElse(hn::Gt(code, all(max)), all(past), code), sign);
  }
  return hn::IfThenElse(hn::Gt(magnitude, all(0x7F800000)), nan, code);
}

/// How an element meets the scale of its block.
struct Multiply {
  static HWY_INLINE F apply(F x, F by) { return hn::Mul(x, by); }
};
struct Divide {
  static HWY_INLINE F apply(F x, F by) { return hn::Div(x, by); }
};

template <FormatSpec S, typename By = Multiply>
HWY_INLINE I quantize_lanes(I word, F by) {
  return encode_lanes<S, Overflow::saturate>(By::apply(floats(word), by), all(0));
}

/// The low bytes of four vectors of codes, in order.
HWY_API void store_bytes(std::uint8_t* to, I a, I b, I c, I d, Stores stores) {
  constexpr hn::Repartition<std::int16_t, decltype(kInts)> shorts;
  constexpr hn::Repartition<std::uint16_t, decltype(kInts)> halves;
  auto bytes = hn::Zero(kBytes);
  if constexpr (HWY_TARGET == HWY_AVX2) {
    // Within 16 bytes the packs put a and b, c and d side by side.
    const auto low = hn::BitCast(halves, hn::ReorderDemote2To(shorts, a, b));
    const auto high = hn::BitCast(halves, hn::ReorderDemote2To(shorts, c, d));
    const auto mixed = hn::BitCast(kBytes, hn::Or(low, hn::ShiftLeft<8>(high)));
    alignas(32) static constexpr std::uint8_t kUnmix[32] = {
        0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15,
        0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
    alignas(32) static constexpr std::int32_t kOrder[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    const auto blocks = hn::TableLookupBytes(mixed, hn::Load(kBytes, kUnmix));
    bytes = hn::BitCast(kBytes, hn::TableLookupLanes(hn::BitCast(kInts, blocks),
                                                     hn::SetTableIndices(kInts, kOrder)));
  } else {
    const auto low = hn::ConcatEven(halves, hn::BitCast(halves, b), hn::BitCast(halves, a));
    const auto high = hn::ConcatEven(halves, hn::BitCast(halves, d), hn::BitCast(halves, c));
    bytes = hn::ConcatEven(kBytes, hn::BitCast(kBytes, high), hn::BitCast(kBytes, low));
  }
  if (stores == Stores::streamed) {
    hn::Stream(bytes, kBytes, to);
  } else {
    hn::StoreU(bytes, kBytes, to);
  }
}

/// join_amax: under NanRule::ignore a magnitude above infinity counts as 0.
HWY_API I join_lanes(I amax, I word, NanRule nan) {
  I magnitude = magnitude_of(word);
  if (nan == NanRule::ignore) {
    magnitude = hn::IfThenZeroElse(hn::Gt(magnitude, all(0x7F800000)), magnitude);
  }
  return hn::Max(amax, magnitude);
}

/// Calls step(from, to, i) on whole chunks, the last one through padded copies.
template <typename X, typename Step>
HWY_INLINE void in_chunks(const X* x, Index n, std::uint8_t* codes, Step step) {
  const Index chunk = 4 * lanes();  // elements that one store of bytes takes
  Index i = 0;
  for (; i + chunk <= n; i += chunk) step(x + i, codes + i, i);
  if (i == n) return;
  alignas(64) X padded[4 * kMaxLanes] = {};
  alignas(64) std::uint8_t out[4 * kMaxLanes];
  __builtin_memcpy(padded, x + i, static_cast<std::size_t>(n - i) * sizeof(X));
  step(padded, out, i);
  __builtin_memcpy(codes + i, out, static_cast<std::size_t>(n - i));
}

/// Fetches n elements; harmless past the end of a tensor, a prefetch does not fault.
template <typename X>
HWY_INLINE void prefetch_row(const X* x, Index n) {
  constexpr Index line = 64 / static_cast<Index>(sizeof(X));
  for (Index i = 0; i < n; i += line) __builtin_prefetch(x + i);
}

template <typename From>
HWY_FLATTEN std::uint32_t amax_run(const void* from, Index n, std::uint32_t so_far,
                                   NanRule nan) noexcept {
  using X = typename From::Element;
  const auto* x = static_cast<const X*>(from);
  const Index step = lanes();
  I top = all(static_cast<int>(so_far));
  Index i = 0;
  for (; i + step <= n; i += step) top = join_lanes(top, From::load(x + i), nan);
  if (i < n) {
    alignas(64) X padded[kMaxLanes] = {};
    __builtin_memcpy(padded, x + i, static_cast<std::size_t>(n - i) * sizeof(X));
    top = join_lanes(top, From::load(padded), nan);
  }
  return static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(kInts, top)));
}

template <typename From>
HWY_FLATTEN void amax_columns(const void* from, Index n, NanRule nan,
                              std::uint32_t* amax) noexcept {
  using X = typename From::Element;
  const auto* x = static_cast<const X*>(from);
  const Index step = lanes();
  Index i = 0;
  for (; i + step <= n; i += step) {
    store_words(amax + i, join_lanes(load_words(amax + i), From::load(x + i), nan));
  }
  if (i == n) return;
  alignas(64) X padded[kMaxLanes] = {};
  alignas(64) std::uint32_t out[kMaxLanes] = {};
  __builtin_memcpy(padded, x + i, static_cast<std::size_t>(n - i) * sizeof(X));
  __builtin_memcpy(out, amax + i, static_cast<std::size_t>(n - i) * 4);
  store_words(out, join_lanes(load_words(out), From::load(padded), nan));
  __builtin_memcpy(amax + i, out, static_cast<std::size_t>(n - i) * 4);
}

template <FormatSpec S, typename From, typename By>
HWY_FLATTEN void run_by(const void* from, Index n, float factor, std::uint8_t* codes) {
  using X = typename From::Element;
  in_chunks(static_cast<const X*>(from), n, codes, [factor](const X* x, std::uint8_t* to, Index) {
    const F by = hn::Set(kFloats, factor);
    const Index step = lanes();
    store_bytes(to, quantize_lanes<S, By>(From::load(x), by),
                quantize_lanes<S, By>(From::load(x + step), by),
                quantize_lanes<S, By>(From::load(x + 2 * step), by),
                quantize_lanes<S, By>(From::load(x + 3 * step), by), Stores::cached);
  });
}

template <FormatSpec S, typename From>
void scale_run(const void* x, Index n, float multiplier, std::uint8_t* codes) noexcept {
  run_by<S, From, Multiply>(x, n, multiplier, codes);
}
template <FormatSpec S, typename From>
void divide_run(const void* x, Index n, float divisor, std::uint8_t* codes) noexcept {
  run_by<S, From, Divide>(x, n, divisor, codes);
}

template <FormatSpec S, typename From, typename By = Multiply>
HWY_FLATTEN void scale_row(const typename From::Element* row, Index n, const float* factors,
                           std::uint8_t* codes, Stores stores) {
  using X = typename From::Element;
  const Index step = lanes();
  const auto chunk = [step](const X* x, const float* by, std::uint8_t* to, Stores way) {
    const auto codes_of = [=](Index v) {
      return quantize_lanes<S, By>(From::load(x + v * step), hn::LoadU(kFloats, by + v * step));
    };
    store_bytes(to, codes_of(0), codes_of(1), codes_of(2), codes_of(3), way);
  };
  Index i = 0;
  for (; i + 4 * step <= n; i += 4 * step) chunk(row + i, factors + i, codes + i, stores);
  if (i == n) return;
  const auto rest = static_cast<std::size_t>(n - i);
  alignas(64) X padded[4 * kMaxLanes] = {};
  alignas(64) float by[4 * kMaxLanes] = {};
  alignas(64) std::uint8_t out[4 * kMaxLanes];
  __builtin_memcpy(padded, row + i, rest * sizeof(X));
  __builtin_memcpy(by, factors + i, rest * sizeof(float));
  chunk(padded, by, out, Stores::cached);
  __builtin_memcpy(codes + i, out, rest);
}

template <FormatSpec S, typename From>
void scale_columns(const void* x, Index n, const float* multipliers, std::uint8_t* codes) noexcept {
  scale_row<S, From>(static_cast<const typename From::Element*>(x), n, multipliers, codes,
                     Stores::cached);
}
template <FormatSpec S, typename From>
void divide_columns(const void* x, Index n, const float* divisors, std::uint8_t* codes) noexcept {
  scale_row<S, From, Divide>(static_cast<const typename From::Element*>(x), n, divisors, codes,
                             Stores::cached);
}

/// Scales of n columns or blocks (padded to whole vectors) from their amax.
template <FormatSpec S>
HWY_INLINE void scales_of(const std::uint32_t* amax, Index n, const MxRule& rule,
                          std::uint8_t* scales, float* multipliers) {
  const Index step = lanes();
  for (Index i = 0; i < n; i += step) {
    const I code = scale_lanes<S>(load_words(amax + i), rule);
    hn::StoreU(reciprocal_lanes(code), kFloats, multipliers + i);
    alignas(64) std::uint32_t words[kMaxLanes];
    store_words(words, code);
    const Index left = n - i < step ? n - i : step;
    for (Index j = 0; j < left; ++j) scales[i + j] = static_cast<std::uint8_t>(words[j]);
  }
}

/// As many blocks as there are lanes at once, so that one vector holds all their scales.
template <FormatSpec S, typename From>
HWY_FLATTEN void mx_run(const void* from, Index blocks, Index block, const MxRule& rule,
                        std::uint8_t* codes, std::uint8_t* scales, Stores stores) noexcept {
  using X = typename From::Element;
  const Index step = lanes();
  alignas(64) std::uint32_t amax[kMaxLanes] = {};
  alignas(64) float multipliers[kMaxLanes];
  for (Index first = 0; first < blocks; first += step) {
    const Index count = blocks - first < step ? blocks - first : step;
    const auto* x = static_cast<const X*>(from) + first * block;
    std::uint8_t* to = codes + first * block;
    prefetch_row(x + step * block, block == kMxBlock ? step * kMxBlock : 0);
    for (Index b = 0; b < count; ++b) {
      amax[b] = block == kMxBlock ? amax_run<From>(x + b * kMxBlock, kMxBlock, 0, rule.profile.nan)
                                  : amax_run<From>(x + b * block, block, 0, rule.profile.nan);
    }
    scales_of<S>(amax, count, rule, scales + first, multipliers);
    if (block == kMxBlock && count == step) {
      for (Index i = 0; i < step * kMxBlock; i += 4 * step) {
        const auto codes_of = [&](Index v) {
          const Index at = i + v * step;
          return quantize_lanes<S>(From::load(x + at),
                                   hn::Set(kFloats, multipliers[at / kMxBlock]));
        };
        store_bytes(to + i, codes_of(0), codes_of(1), codes_of(2), codes_of(3), stores);
      }
      continue;
    }
    for (Index b = 0; b < count; ++b) {
      scale_run<S, From>(x + b * block, block, multipliers[b], to + b * block);
    }
  }
}

template <FormatSpec S, typename From>
HWY_FLATTEN void mx_panel(const void* from, Index x_stride, Index rows, Index columns,
                          const MxRule& rule, std::uint8_t* codes, Index codes_stride,
                          std::uint8_t* scales, Stores stores, const Beside& beside) noexcept {
  using X = typename From::Element;
  const auto* x = static_cast<const X*>(from);
  alignas(64) std::uint32_t amax[kPanelColumns];
  alignas(64) float multipliers[kPanelColumns];
  __builtin_memset(amax, 0, static_cast<std::size_t>(columns) * sizeof(*amax));
  for (Index r = 0; r < rows; ++r) {
    prefetch_row(x + (r + kRowsAhead) * x_stride, columns);
    amax_columns<From>(x + r * x_stride, columns, rule.profile.nan, amax);
  }
  scales_of<S>(amax, columns, rule, scales, multipliers);
  for (Index r = 0; r < rows; ++r) {
    prefetch_row(static_cast<const X*>(beside.next) + r * x_stride, columns);
    scale_row<S, From>(x + r * x_stride, columns, multipliers, codes + r * codes_stride, stores);
    send_line(beside, r);
  }
}

template <FormatSpec S, typename From, Overflow overflow>
HWY_FLATTEN void encode_by(const void* from, Index n, NanSign nan, std::uint8_t* codes) {
  using X = typename From::Element;
  const int sign = nan == NanSign::of_operand ? 0x80 : 0;
  in_chunks(static_cast<const X*>(from), n, codes, [=](const X* x, std::uint8_t* to, Index) {
    const I nan_sign = all(sign);
    const auto code_of = [&](Index v) {
      return encode_lanes<S, overflow>(floats(From::load(x + v * lanes())), nan_sign);
    };
    store_bytes(to, code_of(0), code_of(1), code_of(2), code_of(3), Stores::cached);
  });
}

template <FormatSpec S, typename From>
void encode_run(const void* x, Index n, Overflow overflow, NanSign nan,
                std::uint8_t* codes) noexcept {
  overflow == Overflow::saturate ? encode_by<S, From, Overflow::saturate>(x, n, nan, codes)
                                 : encode_by<S, From, Overflow::nonfinite>(x, n, nan, codes);
}

template <typename From>
HWY_FLATTEN void encode_scales(const void* from, Index n, E8M0Rounding rounding, Overflow overflow,
                               std::uint8_t* codes) noexcept {
  using X = typename From::Element;
  // What carries into the field of the exponent; below 2^-126 the code is 0, or 1 above `least`.
  const bool down = rounding == E8M0Rounding::zero;
  const int step = down ? 0 : rounding == E8M0Rounding::up ? 0x7FFFFF : 0x400000;
  const int least = down ? 0x7FFFFF : 0x400000;
  const int top = overflow == Overflow::saturate ? 0xFE : 0xFF;
  in_chunks(static_cast<const X*>(from), n, codes, [=](const X* x, std::uint8_t* to, Index) {
    const auto code_of = [&](Index v) {
      const I magnitude = magnitude_of(From::load(x + v * lanes()));
      const I normal = shift_right<23>(hn::Add(magnitude, all(step)));
      const I subnormal = hn::IfThenElseZero(hn::Gt(magnitude, all(least)), all(1));
      const I code = hn::IfThenElse(hn::Gt(all(0x800000), magnitude), subnormal, normal);
      return hn::IfThenElse(hn::Gt(magnitude, all(0x7F800000)), all(0xFF), hn::Min(code, all(top)));
    };
    store_bytes(to, code_of(0), code_of(1), code_of(2), code_of(3), Stores::cached);
  });
}

template <typename From>
constexpr InputKernels kInput{amax_run<From>, amax_columns<From>};
template <FormatSpec S, typename From>
constexpr QuantizeKernels kQuantize{scale_run<S, From>,      divide_run<S, From>,
                                    divide_columns<S, From>, scale_columns<S, From>,
                                    mx_run<S, From>,         mx_panel<S, From>};
template <FormatSpec S, typename From>
constexpr EncodeKernel kEncode{encode_run<S, From>};

}  // namespace

const EncodeKernels kEncodeKernels{
    {kInput<FromF32>, kInput<FromBF16>, kInput<FromF16>},
    {{kQuantize<kE4M3, FromF32>, kQuantize<kE4M3, FromBF16>, kQuantize<kE4M3, FromF16>},
     {kQuantize<kE4M3Fnuz, FromF32>, kQuantize<kE4M3Fnuz, FromBF16>, kQuantize<kE4M3Fnuz, FromF16>},
     {kQuantize<kE5M2, FromF32>, kQuantize<kE5M2, FromBF16>, kQuantize<kE5M2, FromF16>},
     {kQuantize<kE5M2Fnuz, FromF32>, kQuantize<kE5M2Fnuz, FromBF16>,
      kQuantize<kE5M2Fnuz, FromF16>}},
    {{kEncode<kE4M3, FromF32>, kEncode<kE4M3, FromBF16>, kEncode<kE4M3, FromF16>},
     {kEncode<kE4M3Fnuz, FromF32>, kEncode<kE4M3Fnuz, FromBF16>, kEncode<kE4M3Fnuz, FromF16>},
     {kEncode<kE5M2, FromF32>, kEncode<kE5M2, FromBF16>, kEncode<kE5M2, FromF16>},
     {kEncode<kE5M2Fnuz, FromF32>, kEncode<kE5M2Fnuz, FromBF16>, kEncode<kE5M2Fnuz, FromF16>}},
    {{encode_scales<FromF32>}, {encode_scales<FromBF16>}, {encode_scales<FromF16>}},
    kWordKernels,
};

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

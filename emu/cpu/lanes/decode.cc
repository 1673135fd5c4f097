// Decoding over vectors of float lanes.
#include "emu/cpu/lanes/lanes.h"
#include "emu/cpu/lanes/tables.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {
namespace {

/// The value of each code: normal ones by moving the fields, subnormal ones as an integer times
/// the quantum (a subnormal float operand would cost an assist).
template <FormatSpec S>
HWY_INLINE F decode_lanes(I code) {
  constexpr int m = S.mantissa_bits;
  constexpr int quantum = (S.quantum_exponent() + 127) << 23;
  const I magnitude = hn::And(code, all(0x7F));
  const I normal = hn::Add(hn::ShiftLeft<23 - m>(magnitude), all((127 - S.bias) << 23));
  const I subnormal = bits(hn::Mul(hn::ConvertTo(kFloats, magnitude), floats(all(quantum))));
  I word = hn::IfThenElse(hn::Gt(all(1 << m), magnitude), subnormal, normal);
  const I sign = hn::ShiftLeft<24>(hn::And(code, all(0x80)));
  word = hn::Or(word, sign);
  if constexpr (S.special == Special::ieee) {
    const I infinity = hn::Or(all(0x7F800000), sign);
    word = hn::IfThenElse(hn::Gt(magnitude, all(S.max_finite())), infinity, word);
    word = hn::IfThenElse(hn::Gt(magnitude, all(S.max_finite() + 1)), all(0x7FC00000), word);
  } else if constexpr (S.special == Special::nan_all_ones) {
    word = hn::IfThenElse(hn::Gt(magnitude, all(S.max_finite())), all(0x7FC00000), word);
  } else {
    word = hn::IfThenElse(hn::Eq(code, all(0x80)), all(0x7FC00000), word);
  }
  return floats(word);
}

struct ToF32 {
  using Element = float;
  /// Of NaNs the canonical one: the processor keeps payloads, and makes another of 0 * infinity.
  static HWY_INLINE void store(Element* to, F value) {
    const auto nan = hn::Gt(magnitude_of(bits(value)), all(0x7F800000));
    hn::StoreU(floats(hn::IfThenElse(nan, all(0x7FC00000), bits(value))), kFloats, to);
  }
};
struct ToBF16 {
  using Element = std::uint16_t;
  /// Round to nearest even on the upper half; overflow carries into infinity by itself.
  static HWY_INLINE void store(Element* to, F value) {
    constexpr hn::Rebind<std::uint16_t, decltype(kInts)> halves;
    const auto word = hn::BitCast(kWords, value);
    const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(kWords, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(word, odd), hn::Set(kWords, 0x7FFF)));
    const I magnitude = magnitude_of(bits(value));
    const I half = hn::IfThenElse(hn::Gt(magnitude, all(0x7F800000)), all(0x7FC0),
                                  hn::BitCast(kInts, rounded));
    hn::StoreU(hn::DemoteTo(halves, half), halves, to);
  }
};

/// out[i] = to(decode(codes[i]) * by(i)), the last vector through copies.
template <FormatSpec S, typename To, typename By>
HWY_INLINE void decode_by(const std::uint8_t* codes, Index n, void* to, By by) {
  using X = typename To::Element;
  constexpr hn::Rebind<std::uint8_t, decltype(kInts)> bytes;
  const Index step = lanes();
  auto* out = static_cast<X*>(to);
  Index i = 0;
  for (; i + step <= n; i += step) {
    const F value = decode_lanes<S>(hn::PromoteTo(kInts, hn::LoadU(bytes, codes + i)));
    To::store(out + i, hn::Mul(value, by(i, step)));
  }
  if (i == n) return;
  alignas(64) std::uint8_t padded_codes[kMaxLanes] = {};
  alignas(64) X padded[kMaxLanes];
  __builtin_memcpy(padded_codes, codes + i, static_cast<std::size_t>(n - i));
  const F value = decode_lanes<S>(hn::PromoteTo(kInts, hn::LoadU(bytes, padded_codes)));
  To::store(padded, hn::Mul(value, by(i, n - i)));
  __builtin_memcpy(out + i, padded, static_cast<std::size_t>(n - i) * sizeof(X));
}

template <FormatSpec S, typename To>
void decode_run(const std::uint8_t* codes, Index n, float multiplier, void* to) noexcept {
  decode_by<S, To>(codes, n, to, [=](Index, Index) { return hn::Set(kFloats, multiplier); });
}

template <FormatSpec S, typename To>
void decode_columns(const std::uint8_t* codes, Index n, const float* multipliers,
                    void* to) noexcept {
  decode_by<S, To>(codes, n, to, [=](Index i, Index left) {
    if (left >= lanes()) return hn::LoadU(kFloats, multipliers + i);
    alignas(64) float padded[kMaxLanes] = {};
    __builtin_memcpy(padded, multipliers + i, static_cast<std::size_t>(left) * 4);
    return hn::LoadU(kFloats, padded);
  });
}

template <FormatSpec S, typename To>
constexpr DecodeKernel kDecode{decode_run<S, To>, decode_columns<S, To>};

}  // namespace

const DecodeKernels kDecodeKernels{{
    {kDecode<kE4M3, ToF32>, kDecode<kE4M3, ToBF16>},
    {kDecode<kE4M3Fnuz, ToF32>, kDecode<kE4M3Fnuz, ToBF16>},
    {kDecode<kE5M2, ToF32>, kDecode<kE5M2, ToBF16>},
    {kDecode<kE5M2Fnuz, ToF32>, kDecode<kE5M2Fnuz, ToBF16>},
}};

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

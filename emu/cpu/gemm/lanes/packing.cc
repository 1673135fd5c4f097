// The inner loops of packing and of rounding.
#include "emu/cpu/gemm/lanes/vectors.h"
#include "emu/exact/integer_unit.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {
namespace {

/// out[i][lane] = in[lane][i] for as many lanes as the vector has.
template <typename Tag>
HWY_API void interleave_lanes(Tag tag, int count, const std::uint32_t* in, int in_step,
                              std::uint32_t* out, int out_step) {
  for (int i = 0; i < count; i += 4) {
    transpose(tag, in + i, in_step, [=](int k, hn::Vec<Tag> column) HWY_ATTR {
      hn::StoreU(column, Tag(), out + (i + k) * out_step);
    });
  }
}

HWY_FLATTEN void interleave(int lanes, int count, const std::uint32_t* in, int in_step,
                            std::uint32_t* out, int out_step) noexcept {
  int lane = 0;
  for (; lanes - lane >= kLanes; lane += kLanes) {
    interleave_lanes(kWords, count, in + lane * in_step, in_step, out + lane, out_step);
  }
  constexpr hn::CappedTag<std::uint32_t, 4> four;
  for (; lanes - lane >= 4; lane += 4) {
    interleave_lanes(four, count, in + lane * in_step, in_step, out + lane, out_step);
  }
  for (; lane < lanes; ++lane) {
    for (int i = 0; i < count; ++i) out[i * out_step + lane] = in[lane * in_step + i];
  }
}

template <int lanes = kLanes64>
HWY_FLATTEN void widen(int width, int k_extent, const float* in, int in_step, double* out,
                       int out_step, double* norm2, std::uint32_t* min_below) noexcept {
  constexpr hn::CappedTag<double, lanes> doubles;
  constexpr hn::Rebind<float, decltype(doubles)> floats_in;
  constexpr hn::Rebind<std::uint32_t, decltype(doubles)> words_in;
  for (; width >= lanes; width -= lanes) {
    auto sum = hn::LoadU(doubles, norm2);
    auto least = hn::LoadU(words_in, min_below);
    for (int c = 0; c < k_extent; ++c) {
      const auto x = hn::LoadU(floats_in, in + c * in_step);
      const auto wide = hn::PromoteTo(doubles, x);
      const auto magnitude = hn::And(hn::BitCast(words_in, x), hn::Set(words_in, 0x7FFFFFFFu));
      sum = hn::Add(sum, hn::Mul(wide, wide));
      least = hn::Min(least, hn::Sub(magnitude, hn::Set(words_in, 1u)));
      hn::StoreU(wide, doubles, out + c * out_step);
    }
    hn::StoreU(sum, doubles, norm2);
    hn::StoreU(least, words_in, min_below);
    in += lanes;
    out += lanes;
    norm2 += lanes;
    min_below += lanes;
  }
  if constexpr (lanes > 1) {
    widen<lanes / 2>(width, k_extent, in, in_step, out, out_step, norm2, min_below);
  }
}

/// A bit for each of at most 32 lanes.
template <typename Tag, typename Mask>
HWY_API std::uint32_t bits_of_mask(Tag tag, Mask mask) {
  std::uint32_t word = 0;
  if constexpr (HWY_TARGET == HWY_EMU128) {  // without a jump for each lane
    for (std::size_t i = 0; i < hn::MaxLanes(tag); ++i) {
      word |= static_cast<std::uint32_t>(mask.bits[i] & 1u) << i;
    }
  } else {
    std::uint8_t bits[8] = {};
    hn::StoreMaskBits(tag, mask, bits);
    __builtin_memcpy(&word, bits, sizeof word);
  }
  return word;
}

/// Towards zero, of less than 2^31.
template <typename Vector>
HWY_API Vector truncated(Vector x) {
  if constexpr (HWY_TARGET == HWY_EMU128) {  // likewise
    for (float& lane : x.raw) lane = static_cast<float>(static_cast<std::int32_t>(lane));
    return x;
  } else {
    return hn::Trunc(x);
  }
}

/// The least of all bytes.
template <typename Vector>
HWY_API std::uint8_t least_byte(Vector v) {
  const hn::DFromV<Vector> tag;
  if constexpr (hn::MaxLanes(tag) > 16) {
    const hn::Half<decltype(tag)> half;
    return least_byte(hn::Min(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    v = hn::Min(v, hn::CombineShiftRightBytes<8>(tag, v, v));
    v = hn::Min(v, hn::CombineShiftRightBytes<4>(tag, v, v));
    v = hn::Min(v, hn::CombineShiftRightBytes<2>(tag, v, v));
    return hn::GetLane(hn::Min(v, hn::CombineShiftRightBytes<1>(tag, v, v)));
  }
}

/// Whether a code is NaN or infinite; the least magnitude, too.
HWY_API bool find_specials(const CodeFormat& format, const std::uint8_t* codes, EncodedRun& run) {
  const auto no_sign = hn::Set(kBytes, std::uint8_t{0x7F});
  auto below = hn::Set(kBytes, std::uint8_t{0xFF});
  auto most = hn::Zero(kBytes);
  auto nan = hn::FirstN(kBytes, 0);
  for (int c = 0; c < kRun; c += kLanes * 4) {
    const auto code = hn::LoadU(kBytes, codes + c);
    const auto magnitude = hn::And(code, no_sign);
    nan = hn::Or(nan, hn::Eq(code, hn::Set(kBytes, std::uint8_t{0x80})));
    most = hn::Max(most, magnitude);
    below = hn::Min(below, hn::Sub(magnitude, hn::Set(kBytes, std::uint8_t{1})));
  }
  run.min_magnitude = least_byte(below);
  if (format.nan_minus_0) return !hn::AllFalse(kBytes, nan);
  const auto max_finite = hn::Set(kBytes, static_cast<std::uint8_t>(format.max_finite));
  return !hn::AllFalse(kBytes, hn::Gt(most, max_finite));
}

/// The values of 2 kLanes codes by way of binary16 bits of the same exponent field: each is
/// value * 2^(bias - 15).  Not for e5m2fnuz, whose top exponent is binary16's infinity.
struct ByHalves {
  int shift;
  float unit;
  explicit ByHalves(const CodeFormat& format)
      : shift(10 - format.mantissa_bits), unit(power_f32(15 - format.bias)) {}
  HWY_INLINE void operator()(const std::uint8_t* codes, F& low, F& high) const {
    constexpr hn::Repartition<std::uint16_t, decltype(kInts)> words;
    constexpr hn::Rebind<std::uint8_t, decltype(words)> bytes;
    constexpr hn::Rebind<hwy::float16_t, decltype(kInts)> halves;
    const auto code = hn::PromoteTo(words, hn::LoadU(bytes, codes));
    const auto sign = hn::And(hn::ShiftLeft<8>(code), hn::Set(words, std::uint16_t{0x8000}));
    const auto magnitude = hn::And(code, hn::Set(words, std::uint16_t{0x7F}));
    const auto bits = hn::Or(sign, hn::ShiftLeftSame(magnitude, shift));
    low = hn::PromoteTo(kFloats, hn::BitCast(halves, hn::LowerHalf(kHalves, bits)));
    high = hn::PromoteTo(kFloats, hn::BitCast(halves, hn::UpperHalf(kHalves, bits)));
  }
};

/// The same in binary32, for every format and machine.  With its exponent field a code is
/// 2^e (1 + f) or, if its own field is 0, 1 + f in the place of 2 f.
struct ByFloats {
  int bits_of_f;
  float unit;
  explicit ByFloats(const CodeFormat& format)
      : bits_of_f(format.mantissa_bits), unit(power_f32(-format.bias)) {}
  HWY_INLINE F value(const std::uint8_t* codes) const {
    constexpr hn::Rebind<std::uint8_t, decltype(kInts)> bytes;
    const I code = hn::PromoteTo(kInts, hn::LoadU(bytes, codes));
    const I magnitude = hn::And(code, all(0x7F));
    const F power = floats(hn::Add(hn::ShiftLeftSame(magnitude, 23 - bits_of_f), all(127 << 23)));
    const F subnormal = hn::Sub(hn::Add(power, power), hn::Set(kFloats, 2.0f));
    const auto is_subnormal = hn::RebindMask(kFloats, hn::Lt(magnitude, all(1 << bits_of_f)));
    const I sign = hn::ShiftLeft<31>(hn::ShiftRight<7>(code));
    return floats(hn::Or(bits(hn::IfThenElse(is_subnormal, subnormal, power)), sign));
  }
  HWY_INLINE void operator()(const std::uint8_t* codes, F& low, F& high) const {
    low = value(codes);
    high = value(codes + kLanes);
  }
};

/// The unit of some blocks, whose squares and greatest magnitudes (bits of f32) are given by lanes.
HWY_API int unit_of(F squares, I max_magnitude, float& norm2) {
  norm2 = hn::GetLane(hn::SumOfLanes(kFloats, squares)) * kRoundedUp;
  return unit_exponent(norm2, hn::GetLane(floats(hn::MaxOfLanes(kInts, max_magnitude))));
}

template <typename Values>
HWY_FLATTEN void encode_run(const CodeFormat& format, const std::uint8_t* codes,
                            const float* factor, bool joint, std::int32_t* pairs,
                            EncodedRun& run) noexcept {
  run = {};
  run.special = find_specials(format, codes, run);
  if (run.special) {
    for (int i = 0; i < kRunPairs; ++i) pairs[i] = 0;
    return;
  }
  const Values values(format);
  constexpr int kOfBlock = kBlock / kLanes;
  F x[kRunBlocks * kOfBlock];
  F squares[kRunBlocks];
  I max_magnitude[kRunBlocks];
  for (int b = 0; b < kRunBlocks; ++b) squares[b] = hn::Zero(kFloats);
  for (int b = 0; b < kRunBlocks; ++b) max_magnitude[b] = hn::Zero(kInts);
#pragma GCC unroll 32
  for (int i = 0; i < kRunBlocks * kOfBlock; i += 2) {
    const int b = i / kOfBlock;
    const F scale = hn::Set(kFloats, factor[b] * values.unit);
    values(codes + i * kLanes, x[i], x[i + 1]);
    x[i] = hn::Mul(x[i], scale);
    x[i + 1] = hn::Mul(x[i + 1], scale);
    squares[b] = hn::Add(squares[b], hn::MulAdd(x[i], x[i], hn::Mul(x[i + 1], x[i + 1])));
    max_magnitude[b] =
        hn::Max(max_magnitude[b], hn::Max(magnitude_of(bits(x[i])), magnitude_of(bits(x[i + 1]))));
  }
  if (joint) {
    for (int b = 1; b < kRunBlocks; ++b) {
      squares[0] = hn::Add(squares[0], squares[b]);
      max_magnitude[0] = hn::Max(max_magnitude[0], max_magnitude[b]);
    }
    run.exponent[0] = unit_of(squares[0], max_magnitude[0], run.norm2[0]);
    for (int b = 1; b < kRunBlocks; ++b) run.exponent[b] = run.exponent[0];
  } else {
    for (int b = 0; b < kRunBlocks; ++b) {
      run.exponent[b] = unit_of(squares[b], max_magnitude[b], run.norm2[b]);
    }
  }
  constexpr hn::Repartition<std::int16_t, decltype(kInts)> words;
  auto* to = reinterpret_cast<std::int16_t*>(pairs);
  std::uint64_t residual[kRunBlocks] = {};
#pragma GCC unroll 32
  for (int i = 0; i < kRunBlocks * kOfBlock; i += 2) {
    const int b = i / kOfBlock;
    const F inverse = hn::Set(kFloats, power_f32(-run.exponent[b]));
    // The integer plus 1.5 * 2^23 has it in its low bits.
    const auto integer = [&](F unscaled, int first) HWY_ATTR {
      const F in_units = hn::Mul(unscaled, inverse);
      const F cut = truncated(in_units);
      residual[b] |= std::uint64_t{bits_of_mask(kFloats, hn::Ne(cut, in_units))}
                     << (first * kLanes % kBlock);
      return hn::BitCast(words, hn::Add(cut, hn::Set(kFloats, 0x1.8p23f)));
    };
    const auto low = integer(x[i], i);
    const auto high = integer(x[i + 1], i + 1);
    hn::StoreU(hn::ConcatEven(words, high, low), words, to + i * kLanes);
  }
  run.residual[0] = residual[0] | residual[1] << kBlock;
  run.residual[1] = residual[2] | residual[3] << kBlock;
}

void encode_int16(const CodeFormat& format, const std::uint8_t* codes, const float* factor,
                  bool joint, std::int32_t* pairs, EncodedRun& run) noexcept {
  const bool e5m2fnuz = format.mantissa_bits == 2 && format.nan_minus_0;
  if (HWY_TARGET == HWY_EMU128 || e5m2fnuz) {
    encode_run<ByFloats>(format, codes, factor, joint, pairs, run);
  } else {
    encode_run<ByHalves>(format, codes, factor, joint, pairs, run);
  }
}

/// To the nearest f32.  (Highway's plain C++ gives the largest number in place of infinity.)
HWY_API hn::Vec<decltype(kFloatsOfDoubles)> nearest_f32(D x) {
  if constexpr (HWY_TARGET == HWY_EMU128) {
    HWY_ALIGN double wide[kLanes64];
    HWY_ALIGN float narrow[kLanes64];
    hn::Store(x, kDoubles, wide);
    for (int i = 0; i < kLanes64; ++i) narrow[i] = static_cast<float>(wide[i]);
    return hn::Load(kFloatsOfDoubles, narrow);
  } else {
    return hn::DemoteTo(kFloatsOfDoubles, x);
  }
}

/// To the nearest bf16, ties to even, as f32.  Adding 1.5 * 2^52 last places rounds to them: x is
/// below 2^(e + 1), and the sum stays in the binade of 2^(e + 45).
HWY_API hn::Vec<decltype(kFloatsOfDoubles)> nearest_bf16(D x) {
  const D power = hn::And(x, hn::BitCast(kDoubles, hn::Set(kLongs, 0x7FF0000000000000)));
  const D many = hn::Mul(hn::Min(power, hn::Set(kDoubles, 0x1p200)), hn::Set(kDoubles, 0x1.8p45));
  const D places = hn::Max(many, hn::Set(kDoubles, 0x1.8p-81));  // the last place is 2^-133 or more
  const D rounded = hn::Sub(hn::Add(x, places), places);
  return nearest_f32(hn::CopySign(rounded, x));
}

/// f64 to f32 or bf16, each rounded once, as the bits of f32.
HWY_API hn::Vec<decltype(kIntsOfDoubles)> bits_of(D x, bool wide) {
  return hn::BitCast(kIntsOfDoubles, wide ? nearest_f32(x) : nearest_bf16(x));
}

HWY_API void put(hn::Vec<decltype(kIntsOfDoubles)> bits, int i, bool wide, void* out) {
  if (wide) {
    hn::StoreU(bits, kIntsOfDoubles, static_cast<std::int32_t*>(out) + i);
  } else {
    constexpr hn::Rebind<std::uint32_t, decltype(kIntsOfDoubles)> words;
    constexpr hn::Rebind<std::uint16_t, decltype(kIntsOfDoubles)> halves;
    const auto upper = hn::ShiftRight<16>(hn::BitCast(words, bits));
    hn::StoreU(hn::DemoteTo(halves, hn::BitCast(kIntsOfDoubles, upper)), halves,
               static_cast<std::uint16_t*>(out) + i);
  }
}

/// emu/exact/rounding_test.h, a vector of sums at a time.
HWY_FLATTEN std::uint32_t round(const RowEnd& row, const ColumnEnds& columns, const double* sums,
                                int n, Dtype out_dtype, void* out) noexcept {
  const bool wide = out_dtype == Dtype::f32;
  const auto set = [](double x) HWY_ATTR { return hn::Set(kDoubles, x); };
  const D zero = hn::Zero(kDoubles);
  std::uint64_t failed = 0;
  for (int i = 0; i < n; i += kLanes64) {
    const D sum = hn::LoadU(kDoubles, sums + i);
    const D scale = hn::Mul(set(row.scale), hn::LoadU(kDoubles, columns.scale + i));
    const D value = hn::Add(hn::Mul(sum, scale), zero);  // an exact zero is +0
    const D norms = hn::Mul(set(row.norm), hn::LoadU(kDoubles, columns.norm + i));
    const D roundings = hn::Add(set(row.roundings), hn::LoadU(kDoubles, columns.roundings + i));
    const D reach = hn::Mul(set(row.reach), hn::LoadU(kDoubles, columns.reach + i));
    const D off = hn::IfThenZeroElse(hn::Le(reach, set(0x1p53)),
                                     hn::Mul(hn::Mul(norms, roundings), set(0x1p-53)));
    const D lost = hn::Abs(fused(sum, scale, hn::Neg(value)));
    const D least = hn::Add(hn::Mul(off, hn::Abs(scale)), lost);
    const D raised =
        hn::Add(hn::Mul(least, set(1.0 + 0x1p-20)), hn::Mul(hn::Abs(value), set(0x1p-51)));
    const D slack = hn::IfThenZeroElse(hn::Eq(least, zero), raised);
    const auto low = bits_of(hn::Sub(value, slack), wide);
    const auto high = bits_of(hn::Add(value, slack), wide);
    const std::uint32_t fails =
        bits_of_mask(kIntsOfDoubles, hn::Ne(low, high)) |
        bits_of_mask(kDoubles, hn::Not(hn::Lt(slack, set(__builtin_inf()))));
    failed |= std::uint64_t{fails} << i;
    put(low, i, wide, out);
  }
  return static_cast<std::uint32_t>(failed) & (0xFFFFFFFFu >> (32 - n));
}

HWY_FLATTEN void round_exact(const double* sums, int n, Dtype out_dtype, void* out) noexcept {
  const bool wide = out_dtype == Dtype::f32;
  for (int i = 0; i < n; i += kLanes64) {
    const D value = hn::Add(hn::LoadU(kDoubles, sums + i), hn::Zero(kDoubles));
    put(bits_of(value, wide), i, wide, out);
  }
}

}  // namespace

void set_packing(Kernels& k) {
  k.encode_int16 = encode_int16;
  k.interleave = interleave;
  k.widen = widen<>;
  k.round = round;
  k.round_exact = round_exact;
}

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

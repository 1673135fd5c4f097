// Codes of bf16 under any finite factor, in 16-bit lanes: a product keeps its upper 16 bits and, in
// the last of them, whether any lower one is set.  What rounding to 5 bits or fewer asks of a float
// is all there, and half as many vectors hold it.
#include <hwy/cache_control.h>

#include "emu/cpu/lanes/tables.h"
#include "emu/cpu/lanes/words.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {
namespace {

constexpr hn::RebindToSigned<decltype(kShorts)> kSigned;
HWY_API H shorts_of(I a) { return hn::BitCast(kShorts, a); }
HWY_API I shift_left_half(I a) { return hn::ShiftLeft<16>(a); }

/// Elements 0, 2, 4, ... of a vector of bf16, and 1, 3, 5, ...
HWY_API F even_of(H x) { return floats(shift_left_half(hn::BitCast(kInts, x))); }
HWY_API F odd_of(H x) {
  return floats(hn::And(hn::BitCast(kInts, x), all(static_cast<int>(0xFFFF0000u))));
}
/// Even elements and odd ones from the lower halves of lanes.
HWY_API H interleave_lower(I even, I odd) {
  return hn::OddEven(shorts_of(shift_left_half(odd)), shorts_of(even));
}

/// x * by or x / by.
template <WordRule rule>
HWY_INLINE F scaled(F x, F by) {
  return rule == WordRule::divide ? hn::Div(x, by) : hn::Mul(x, by);
}

/// Whether elements whose codes are subnormal are so rare that a jump around them pays.
enum class Subnormals : std::uint8_t { rare, common };

/// One code per 16-bit lane of scaled elements that are no NaN.  With ties away from zero the last
/// bit of each counts as set: what was a tie is none, and nothing else changes, since no code and
/// no tie has that bit.
template <FormatSpec S, WordRule rule, Subnormals subnormals>
HWY_INLINE H codes_of(F even, F odd) {
  constexpr bool away = rule >= WordRule::ties_away;
  constexpr int drop = 7 - S.mantissa_bits;
  constexpr int rebias = (127 - S.bias) << 7;
  constexpr int least_normal = (S.min_exponent() + 127) << 7;
  constexpr int half_quantum = (S.quantum_exponent() - 1 + 127) << 7;
  constexpr int magic = (23 + S.quantum_exponent() + 127) << 23;

  const H high = hn::OddEven(shorts_of(bits(odd)), shorts_of(shift_right<16>(bits(even))));
  const H low = interleave_lower(bits(even), bits(odd));
  H below = all_shorts(1);
  if constexpr (!away) below = hn::Min(low, below);
  const H magnitude = hn::And(hn::Or(high, below), all_shorts(0x7FFF));
  const H last = hn::And(hn::ShiftRight<drop>(magnitude), all_shorts(1));
  const H above = hn::SaturatedSub(magnitude, all_shorts(rebias - ((1 << (drop - 1)) - 1)));
  H code = hn::ShiftRight<drop>(hn::Add(above, last));
  // Subnormal codes, where there are any: the float adder rounds to the format's quantum.  Below
  // half of that `code` is 0 already.
  const auto from_half =
      hn::BitCast(kSigned, hn::Sub(magnitude, all_shorts(half_quantum - 0x8000)));
  const auto subnormal = hn::Gt(
      hn::Set(kSigned, static_cast<std::int16_t>(least_normal - half_quantum - 0x8000)), from_half);
  if (subnormals == Subnormals::common || HWY_UNLIKELY(!hn::AllFalse(kSigned, subnormal))) {
    const auto rounded = [](F v) HWY_ATTR {
      I word = magnitude_of(bits(v));
      if constexpr (away) word = hn::Or(word, all(1));
      return hn::Sub(bits(hn::Add(floats(word), floats(all(magic)))), all(magic));
    };
    const H steps = interleave_lower(rounded(even), rounded(odd));
    code = hn::IfThenElse(hn::RebindMask(kShorts, subnormal), steps, code);
  }
  code = hn::Min(code, all_shorts(S.max_finite()));
  H sign = hn::And(hn::ShiftRight<8>(high), all_shorts(0x80));
  if constexpr (rule == WordRule::ties_away_unsigned_zero) {
    const H zero = hn::Or(hn::Add(high, high), low);
    sign = hn::IfThenZeroElse(hn::Eq(zero, all_shorts(0)), sign);
  }
  if constexpr (S.special == Special::nan_minus_0) {
    sign = hn::IfThenZeroElse(hn::Eq(code, all_shorts(0)), sign);
  }
  return hn::Or(code, sign);
}

template <FormatSpec S, WordRule rule, Subnormals subnormals = Subnormals::rare>
HWY_INLINE H scaled_codes(H x, F even, F odd) {
  return codes_of<S, rule, subnormals>(scaled<rule>(even_of(x), even),
                                       scaled<rule>(odd_of(x), odd));
}

/// Codes of two vectors of a block.
template <FormatSpec S, WordRule rule, Subnormals subnormals = Subnormals::rare>
HWY_INLINE void code_pair(const std::uint16_t* x, F first, F second, std::uint8_t* codes,
                          Stores stores) {
  const H a = hn::LoadU(kShorts, x);
  const H b = hn::LoadU(kShorts, x + shorts());
  store_codes(codes, scaled_codes<S, rule, subnormals>(a, first, first),
              scaled_codes<S, rule, subnormals>(b, second, second), stores);
}

/// The same of n elements, fewer than two vectors.
template <FormatSpec S, WordRule rule>
HWY_INLINE void code_rest(const std::uint16_t* x, Index n, F by, std::uint8_t* codes) {
  alignas(64) std::uint16_t padded[2 * kMaxShorts] = {};
  alignas(64) std::uint8_t out[2 * kMaxShorts];
  __builtin_memcpy(padded, x, static_cast<std::size_t>(n) * 2);
  code_pair<S, rule>(padded, by, by, out, Stores::cached);
  __builtin_memcpy(codes, out, static_cast<std::size_t>(n));
}

template <FormatSpec S, WordRule rule, Subnormals subnormals>
HWY_INLINE void code_blocks_by(const std::uint16_t* x, Index blocks, Index width,
                               const float* factors, std::uint8_t* codes, Stores stores) {
  const Index step = shorts();
  const Index ahead = blocks * width;  // the next row, or what follows in this one
  Index b = 0;
  if (width == step) {
    for (; b + 2 <= blocks; b += 2, x += 2 * step, codes += 2 * step) {
      __builtin_prefetch(x + ahead);
      __builtin_prefetch(x + ahead + step);
      const F first = hn::Set(kFloats, factors[b]);
      const F second = hn::Set(kFloats, factors[b + 1]);
      code_pair<S, rule, subnormals>(x, first, second, codes, stores);
    }
  }
  const Stores way = width % (2 * step) == 0 ? stores : Stores::cached;
  for (; b < blocks; ++b, x += width, codes += width) {
    const F by = hn::Set(kFloats, factors[b]);
    Index i = 0;
    for (; i + 2 * step <= width; i += 2 * step) {
      __builtin_prefetch(x + i + ahead);
      __builtin_prefetch(x + i + ahead + step);
      code_pair<S, rule, subnormals>(x + i, by, by, codes + i, way);
    }
    if (i < width) code_rest<S, rule>(x + i, width - i, by, codes + i);
  }
}

/// Looks at a few pieces of many blocks.
template <FormatSpec S, WordRule rule>
HWY_INLINE Subnormals subnormals_of(const std::uint16_t* x, Index blocks, Index width,
                                    const float* factors) {
  constexpr Index kPieces = 16;
  constexpr Index kFew = 2;  // of them; a jump that is taken more often costs more than it saves
  constexpr int least_normal = (S.min_exponent() + 127) << 23;
  constexpr int half_quantum = (S.quantum_exponent() - 1 + 127) << 23;
  const Index n = blocks * width;
  const Index apart = n / kPieces;
  if (apart < 4 * shorts()) return Subnormals::rare;
  Index found = 0;
  for (Index i = 0; i + apart <= n; i += apart) {
    const F by = hn::Set(kFloats, factors[i / width]);
    const I v = magnitude_of(bits(scaled<rule>(even_of(hn::LoadU(kShorts, x + i)), by)));
    const auto some = hn::And(hn::Gt(v, all(half_quantum)), hn::Gt(all(least_normal), v));
    found += hn::AllFalse(kInts, some) ? 0 : 1;
  }
  return found > kFew ? Subnormals::common : Subnormals::rare;
}

template <FormatSpec S, WordRule rule>
HWY_FLATTEN void code_blocks(const void* from, Index blocks, Index width, const float* factors,
                             std::uint8_t* codes, Stores stores) noexcept {
  const auto* x = static_cast<const std::uint16_t*>(from);
  if (subnormals_of<S, rule>(x, blocks, width, factors) == Subnormals::rare) {
    code_blocks_by<S, rule, Subnormals::rare>(x, blocks, width, factors, codes, stores);
  } else {
    code_blocks_by<S, rule, Subnormals::common>(x, blocks, width, factors, codes, stores);
  }
}

/// Factors of the columns from i on, those of every other one apart: one for all, or each its own.
struct OneFactor {
  float factor;
  HWY_INLINE F even(Index) const { return hn::Set(kFloats, factor); }
  HWY_INLINE F odd(Index) const { return hn::Set(kFloats, factor); }
};
struct ColumnFactors {
  const float* of_even;
  const float* of_odd;
  HWY_INLINE F even(Index i) const { return hn::LoadU(kFloats, of_even + i / 2); }
  HWY_INLINE F odd(Index i) const { return hn::LoadU(kFloats, of_odd + i / 2); }
};

/// Codes of the columns from i on that one store takes.
template <FormatSpec S, WordRule rule, Subnormals subnormals, typename Factors>
HWY_INLINE void code_columns_at(const std::uint16_t* x, Index i, Factors by, std::uint8_t* codes,
                                Stores stores) {
  const Index step = shorts();
  const H a = hn::LoadU(kShorts, x);
  const H b = hn::LoadU(kShorts, x + step);
  store_codes(codes, scaled_codes<S, rule, subnormals>(a, by.even(i), by.odd(i)),
              scaled_codes<S, rule, subnormals>(b, by.even(i + step), by.odd(i + step)), stores);
}

/// Codes of rows, so many side by side.
template <FormatSpec S, WordRule rule, Subnormals subnormals, typename Factors>
HWY_INLINE void code_rows_by(const WordRows& of, Factors by) {
  const Index pair = 2 * shorts();
  const Index x_stride = of.x_stride;
  const Index codes_stride = of.codes_stride;
  const Stores stores = of.stores;
  const Index columns = of.columns;
  const Index ahead = of.ahead;
  for (Index r = 0; r < of.rows; r += kRowsTogether) {
    const Index count = of.rows - r < kRowsTogether ? of.rows - r : kRowsTogether;
    const std::uint16_t* x = static_cast<const std::uint16_t*>(of.x) + r * x_stride;
    std::uint8_t* codes = of.codes + r * codes_stride;
    Index i = 0;
    for (; i + pair <= columns; i += pair) {
      for (Index q = 0; q < count; ++q) {
        const std::uint16_t* from = x + q * x_stride + i;
        __builtin_prefetch(from + ahead);
        __builtin_prefetch(from + ahead + pair / 2);
        code_columns_at<S, rule, subnormals>(from, i, by, codes + q * codes_stride + i, stores);
      }
    }
    if (i == columns) continue;
    const auto n = static_cast<std::size_t>(columns - i);
    for (Index q = 0; q < count; ++q) {
      alignas(64) std::uint16_t padded[2 * kMaxShorts] = {};
      alignas(64) std::uint8_t out[2 * kMaxShorts];
      __builtin_memcpy(padded, x + q * x_stride + i, n * 2);
      code_columns_at<S, rule, subnormals>(padded, i, by, out, Stores::cached);
      __builtin_memcpy(codes + q * codes_stride + i, out, n);
    }
  }
}

template <FormatSpec S, WordRule rule>
HWY_FLATTEN void code_rows(const WordRows& of, float factor) noexcept {
  if (of.rows == 0) return;  // there is nothing to look at
  const auto* x = static_cast<const std::uint16_t*>(of.x);
  if (subnormals_of<S, rule>(x, 1, of.columns, &factor) == Subnormals::rare) {
    code_rows_by<S, rule, Subnormals::rare>(of, OneFactor{factor});
  } else {
    code_rows_by<S, rule, Subnormals::common>(of, OneFactor{factor});
  }
}

template <FormatSpec S, WordRule rule>
HWY_FLATTEN void code_columns(const WordRows& of, const float* even, const float* odd) noexcept {
  code_rows_by<S, rule, Subnormals::rare>(of, ColumnFactors{even, odd});
}

template <FormatSpec S>
constexpr WordKernels kTable{
    amax_blocks,
    amax_rows,
    amax_columns,
    {code_blocks<S, WordRule::multiply>, code_blocks<S, WordRule::divide>,
     code_blocks<S, WordRule::ties_away>, code_blocks<S, WordRule::ties_away_unsigned_zero>},
    {code_rows<S, WordRule::multiply>, code_rows<S, WordRule::divide>,
     code_rows<S, WordRule::ties_away>, code_rows<S, WordRule::ties_away_unsigned_zero>},
    {code_columns<S, WordRule::multiply>, code_columns<S, WordRule::divide>,
     code_columns<S, WordRule::ties_away>, code_columns<S, WordRule::ties_away_unsigned_zero>}};

}  // namespace

const WordKernels kWordKernels[4] = {kTable<kE4M3>, kTable<kE4M3Fnuz>, kTable<kE5M2>,
                                     kTable<kE5M2Fnuz>};

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

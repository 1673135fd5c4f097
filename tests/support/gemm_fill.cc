// The numbers of the hard cases.
#include "tests/support/gemm_fill.h"

#include <cmath>

#include "tests/support/gemm_cases.h"
#include "tests/support/plain_values.h"

namespace mxo::test {
namespace {

/// One operand of the product, line by line.
struct Side {
  Strided& codes;
  Strided& scales;
  Dtype dtype;
  const SideScales& how;
};

class Filler {
 public:
  explicit Filler(GemmCase& gemm)
      : gemm_(gemm),
        a_{gemm.a, gemm.a_scales, gemm.a_dtype, gemm.a_side},
        b_{gemm.b, gemm.b_scales, gemm.b_dtype, gemm.b_side},
        random_(gemm.spec().seed) {}

  void fill(Index g) {
    const Index length = gemm_.length(g);
    for (Index i = 0; i < gemm_.lines_a(g); ++i) base_line(g, true, i, length);
    for (Index j = 0; j < gemm_.lines_b(); ++j) base_line(g, false, j, length);
    switch (gemm_.spec().fill) {
      case CaseFill::moderate:
      case CaseFill::wide: break;
      case CaseFill::cancelling: cancel(g, length); break;
      case CaseFill::giant: raise_one(g, length); break;
      case CaseFill::special: sprinkle(g, length); break;
      case CaseFill::ties: tie(g, length); break;
    }
  }

 private:
  std::uint32_t draw(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  Index below(Index bound) {
    return static_cast<Index>(random_() % static_cast<std::uint64_t>(bound));
  }
  bool one_in(std::uint32_t n) { return draw(n) == 0; }

  Side& side(bool first) { return first ? a_ : b_; }
  GemmCase::Place place(bool first, Index g, Index line, Index c) const {
    return first ? gemm_.place_a(g, line, c) : gemm_.place_b(g, line, c);
  }
  std::uint32_t code(bool first, Index g, Index line, Index c) {
    return side(first).codes.bits(place(first, g, line, c).code);
  }
  void set_code(bool first, Index g, Index line, Index c, std::uint32_t bits) {
    side(first).codes.set_bits(place(first, g, line, c).code, bits);
  }
  std::uint32_t scale(bool first, Index g, Index line, Index c) {
    return side(first).how.scaled() ? side(first).scales.bits(place(first, g, line, c).scale) : 0;
  }
  void set_scale(bool first, Index g, Index line, Index c, std::uint32_t bits) {
    if (side(first).how.scaled()) side(first).scales.set_bits(place(first, g, line, c).scale, bits);
  }

  std::uint32_t finite_code(Dtype dtype) {
    const bool wide = gemm_.spec().fill == CaseFill::wide;
    if (dtype == Dtype::f16) {
      const std::uint32_t field = wide ? draw(31) : 8 + draw(15);
      return draw(2) << 15 | field << 10 | draw(1u << 10);
    }
    const std::uint32_t field = wide ? draw(255) : 120 + draw(15);
    if (dtype == Dtype::bf16) return draw(2) << 15 | field << 7 | draw(128);
    if (dtype == Dtype::f32) return draw(2) << 31 | field << 23 | draw(1u << 23);
    for (;;) {
      const std::uint32_t bits = draw(256);
      if (std::isfinite(plain_value(dtype, bits))) return bits;
    }
  }

  std::uint32_t finite_scale(Dtype dtype) {
    const bool wide = gemm_.spec().fill == CaseFill::wide;
    if (dtype == Dtype::e8m0) {
      constexpr std::uint32_t extremes[] = {0, 1, 254, 127};
      if (!wide) return 120 + draw(14);
      return one_in(2) ? extremes[draw(4)] : draw(255);
    }
    const std::uint32_t field = wide ? draw(255) : 115 + draw(20);
    const std::uint32_t sign = wide ? draw(2) : 0;
    return sign << 31 | field << 23 | draw(1u << 23);
  }

  void base_line(Index g, bool first, Index line, Index length) {
    for (Index c = 0; c < length; ++c) {
      set_code(first, g, line, c, finite_code(side(first).dtype));
      const bool head =
          c == 0 || place(first, g, line, c).scale != place(first, g, line, c - 1).scale;
      if (head) set_scale(first, g, line, c, finite_scale(side(first).how.type));
    }
  }

  std::uint32_t negated(Dtype dtype, std::uint32_t bits) {
    return code_of(dtype, -plain_value(dtype, bits));
  }

  /// Element c and its partner contribute opposite terms; one line in three keeps one odd term.
  void cancel(Index g, Index length) {
    const Index block = gemm_.spec().scales == Scales::mx ? 32 : 128;
    const Index far = length >= 2 * block ? length / 2 / block * block : length / 2;
    for (const bool first : {true, false}) {
      const Index lines = first ? gemm_.lines_a(g) : gemm_.lines_b();
      for (Index line = 0; line < lines; ++line) {
        for (Index c = far; c < 2 * far; ++c) {
          const std::uint32_t bits = code(first, g, line, c - far);
          set_code(first, g, line, c, first ? bits : negated(b_.dtype, bits));
          set_scale(first, g, line, c, scale(first, g, line, c - far));
        }
        for (Index c = 2 * far; c < length; ++c) set_code(first, g, line, c, 0);
        if (length > 0 && one_in(3))
          set_code(first, g, line, below(length), finite_code(side(first).dtype));
      }
    }
  }

  /// The largest codes and scales meet at one or two places, often with opposite signs.
  void raise_one(Index g, Index length) {
    if (length == 0) return;
    const Index at = below(length);
    const Index opposite = below(length);
    for (const bool first : {true, false}) {
      const Side& s = side(first);
      const double top = s.dtype == Dtype::bf16 || s.dtype == Dtype::f32 ? 0x1p60 : 128.0;
      const Index lines = first ? gemm_.lines_a(g) : gemm_.lines_b();
      for (Index line = 0; line < lines; ++line) {
        set_code(first, g, line, at, code_of(s.dtype, top));
        set_code(first, g, line, opposite, code_of(s.dtype, first || one_in(3) ? top : -top));
        if (s.how.scaled() && s.how.type == Dtype::e8m0) {
          set_scale(first, g, line, at, 160);
          set_scale(first, g, line, opposite, 160);
        }
      }
    }
  }

  /// One line in eight gets something that is not an ordinary number.
  void sprinkle(Index g, Index length) {
    for (const bool first : {true, false}) {
      const Side& s = side(first);
      const Index lines = first ? gemm_.lines_a(g) : gemm_.lines_b();
      for (Index line = 0; length > 0 && line < lines; ++line) {
        if (one_in(4)) set_code(first, g, line, below(length), 0);
        if (!one_in(8)) continue;
        const Index c = below(length);
        if (s.dtype == Dtype::f32) {
          constexpr std::uint32_t odd[] = {0x7F800000, 0xFF800000, 0x7FC00001, 1u << 31, 1};
          set_code(first, g, line, c, odd[draw(5)]);
        } else if (s.dtype == Dtype::f16) {
          constexpr std::uint32_t odd[] = {0x7C00, 0xFC00, 0x7E01, 0x8000, 0x0001};
          set_code(first, g, line, c, odd[draw(5)]);
        } else if (s.dtype == Dtype::bf16) {
          constexpr std::uint32_t odd[] = {0x7F80, 0xFF80, 0x7FC1, 0x8000, 0x0001, 0xFFFF};
          set_code(first, g, line, c, odd[draw(6)]);
        } else {
          constexpr std::uint32_t odd[] = {0x7F, 0xFF, 0x80, 0x7C, 0xFC, 0x7D};
          set_code(first, g, line, c, odd[draw(6)]);
        }
        if (!one_in(3)) continue;
        constexpr std::uint32_t e8m0[] = {0xFF, 0x00, 0xFE};
        constexpr std::uint32_t f32[] = {0x7F800000, 0xFF800000, 0x7FC00001, 0,
                                         0x80000000, 0x00000001, 0xBF800000};
        set_scale(first, g, line, c, s.how.type == Dtype::e8m0 ? e8m0[draw(3)] : f32[draw(7)]);
      }
    }
  }

  void set_power_scale(bool first, Index g, Index line, Index length, int exponent) {
    for (Index c = 0; c < length; ++c) {
      set_scale(first, g, line, c,
                side(first).how.type == Dtype::e8m0
                    ? static_cast<std::uint32_t>(exponent + 127)
                    : code_of(Dtype::f32, std::ldexp(1.0, exponent)));
    }
  }

  /// Term c of every sum weighs 2^(14 - c): lines of b are +-2^j(c), lines of a hold the bits of
  /// a significand times 2^i(c), i + j = 14 - c.  The last bit is the half beyond the last place
  /// kept; a term of weight 2^-16 puts the sum one quantum beside the midpoint.
  void tie(Index g, Index length) {
    constexpr Index kMost = 26;
    const int kept = gemm_.spec().out == Dtype::f32 ? 24 : 8;
    const int quantum = -125 - kept - 1;  // half of the least subnormal is 2^quantum
    const bool high = one_in(2);
    const int b_exponent = high ? 40 : -40;
    const auto j_of = [](Index c) { return static_cast<int>(7 - c / 2); };
    const auto i_of = [&](Index c) { return static_cast<int>(14 - c) - j_of(c); };
    for (Index j = 0; j < gemm_.lines_b(); ++j) {
      const double sign = one_in(2) ? -1.0 : 1.0;
      for (Index c = 0; c < length; ++c) {
        double weight = c < kMost ? std::ldexp(sign, j_of(c)) : c == kMost ? sign / 256 : 0;
        if (!b_.how.scaled()) weight = std::ldexp(weight, b_exponent);
        set_code(false, g, j, c, code_of(b_.dtype, weight));
      }
      set_power_scale(false, g, j, length, b_exponent);
    }
    for (Index i = 0; i < gemm_.lines_a(g); ++i) {
      int bits = kept + 1;                          // significant bits of the midpoint
      int a_exponent = static_cast<int>(draw(40));  // weight of the whole line
      const bool at_the_edge = one_in(2);
      if (at_the_edge && !high) {  // subnormal: the last bit is worth half the quantum
        bits = 1 + static_cast<int>(draw(static_cast<std::uint32_t>(kept)));
        a_exponent = quantum - (14 - (bits - 1)) - b_exponent;
      }
      if (at_the_edge && high) a_exponent = 127 - 14 - b_exponent;  // the highest binade
      const bool all_ones = one_in(2);
      for (Index c = 0; c < length; ++c) {
        const bool on = c < bits && (c == 0 || c == bits - 1 || all_ones || one_in(2));
        const double beside = static_cast<double>(below(Index{3}) - 1) / 256;
        double value = on ? std::ldexp(1.0, i_of(c)) : c == kMost ? beside : 0.0;
        if (!a_.how.scaled()) value = std::ldexp(value, a_exponent);
        set_code(true, g, i, c, code_of(a_.dtype, value));
      }
      set_power_scale(true, g, i, length, a_exponent);
    }
  }

  GemmCase& gemm_;
  Side a_;
  Side b_;
  std::mt19937_64 random_;
};

}  // namespace

void fill_operands(GemmCase& gemm) {
  Filler filler(gemm);
  const auto groups = static_cast<Index>(gemm.spec().groups.size());
  for (Index g = 0; g < groups; ++g) filler.fill(g);
}

}  // namespace mxo::test

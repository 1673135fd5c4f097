// Operands that separate one model of a matrix unit from another.
#include "tools/capture/operand_styles.h"

#include "formats/philox.h"

namespace mxo::capture {
namespace {

/// A stream of 32-bit words: the counter of Philox runs up from 0 under one seed.
class Stream {
 public:
  explicit Stream(std::uint64_t seed) : seed_(seed) {}
  std::uint32_t word() {
    if (next_ % 4 == 0) block_ = philox(next_ / 4, 0, seed_);
    return block_.word[next_++ % 4];
  }
  int below(int n) { return static_cast<int>(word() % static_cast<std::uint32_t>(n)); }

 private:
  std::uint64_t seed_;
  std::uint64_t next_ = 0;
  PhiloxWords block_;
};

std::uint32_t compose(Bits f, std::uint32_t sign, int exponent, std::uint32_t fraction) {
  const int top = (1 << f.exponent) - 1;
  const int field = exponent < 0 ? 0 : exponent > top ? top : exponent;
  return sign << (f.exponent + f.fraction) | static_cast<std::uint32_t>(field) << f.fraction |
         (fraction & ((1u << f.fraction) - 1));
}

/// Any pattern with a random sign whose exponent field lies in [low, high].
std::uint32_t between(Stream& s, Bits f, int low, int high) {
  return compose(f, s.word() & 1, low + s.below(high - low + 1), s.word());
}

std::uint32_t operand(Stream& s, Bits f, int style) {
  const int top = (1 << f.exponent) - 1;
  const int finite = f.exponent == 4 ? top : top - 1;  // e4m3 has finite codes in the top binade
  const int one = top / 2;
  switch (style) {
    case 0: return s.word() & ((1u << f.width()) - 1);
    case 1: return between(s, f, 0, finite - (f.exponent == 4 ? 1 : 0));
    case 2: return between(s, f, one - (s.below(8) == 0 ? 6 : 2), one + 1);
    case 3: return between(s, f, one / 2, one + one / 2);
    case 4: return between(s, f, one - 1, one + 2);
    case 5: {
      const int pick = s.below(4);
      if (pick == 0) return compose(f, s.word() & 1, 0, 0);
      if (pick == 1) return between(s, f, finite - 2, finite - 1);
      return between(s, f, pick == 2 ? 0 : one - 2, pick == 2 ? 2 : one + 2);
    }
    case 6: return between(s, f, 0, f.exponent == 8 ? one / 2 + 4 : 3);
    default:
      return f.exponent <= 5 ? compose(f, s.word() & 1, 0, 0)
                             : compose(f, 0, one / 2 - 16 + s.below(20), s.word());
  }
}

std::uint32_t accumulator(Stream& s, Bits f, int style) {
  const int top = (1 << f.exponent) - 1;
  const int one = top / 2;
  switch (s.below(style == 0 ? 6 : 5)) {
    case 0: return compose(f, s.word() & 1, 0, 0);
    case 1: return between(s, f, one - 4, one + 6);
    case 2: return between(s, f, one - 14 > 0 ? one - 14 : 0, one + 12 < top ? one + 12 : top - 1);
    case 3: return between(s, f, 0, 2);
    case 4: return style >= 5 ? between(s, f, top - 3, top - 1) : between(s, f, one - 2, one + 2);
    default: return between(s, f, top, top);
  }
}

}  // namespace

Operands operands_of_style(int style, std::uint64_t seed, int rows, int k, Bits a, Bits b, Bits c) {
  Stream s(seed);
  Operands o;
  for (int i = 0; i < rows * k; ++i) o.a.push_back(operand(s, a, style));
  for (int i = 0; i < 8 * k; ++i) o.b.push_back(operand(s, b, style));
  for (int i = 0; i < rows * 8; ++i) o.c.push_back(accumulator(s, c, style));
  if (style == 4) {  // a's odd elements repeat the even ones negated, b's repeat them
    for (std::size_t i = 1; i < o.a.size(); i += 2) {
      if (s.below(8) != 0) o.a[i] = o.a[i - 1] ^ 1u << (a.width() - 1);
    }
    for (std::size_t i = 1; i < o.b.size(); i += 2) o.b[i] = o.b[i - 1];
  }
  return o;
}

}  // namespace mxo::capture

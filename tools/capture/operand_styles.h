// Operands that separate one model of a matrix unit from another.
#pragma once

#include <cstdint>
#include <vector>

namespace mxo::capture {

inline constexpr int kStyles = 8;

/// Bit patterns of one instruction's operands, row-major: a [rows, k], b [8, k], c [rows, 8].
struct Operands {
  std::vector<std::uint32_t> a, b, c;
};

/// How the bits of an operand are cut: sign, exponent, fraction.
struct Bits {
  int exponent;
  int fraction;
  int width() const { return 1 + exponent + fraction; }
};

/// Style 0 every code, NaN and infinity included; 1 finite codes; 2 a scaled block (values of one
/// size, a few small); 3 wide exponents; 4 pairs that cancel; 5 zeros beside extremes; 6 near the
/// smallest normal; 7 rows of zeros or of the smallest values under any C.
Operands operands_of_style(int style, std::uint64_t seed, int rows, int k, Bits a, Bits b, Bits c);

}  // namespace mxo::capture

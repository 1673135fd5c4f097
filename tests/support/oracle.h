// Slow twins of the codecs and of the scale rules, by another route: MPFR's own rounding, and
// comparisons of values where the library works on bits.
#pragma once

#include "formats/minifloat.h"
#include "tests/support/captures.h"

namespace mxo::test {

/// The code nearest to `value`, ties to even; NaN is make_nan's positive one.
unsigned nearest_code(FormatSpec format, float value, Overflow overflow);

/// The value of a finite code, from the definition (-1)^s * 2^e * (1 + f / 2^m).
double code_value(FormatSpec format, unsigned code);

/// The scale of a block by the words of its rule, every quotient exact; `amax` is not negative.
unsigned exact_scale(FormatSpec format, float amax, ScaleMode mode);

/// The table of a function that changes at few inputs and never returns to a code it has left:
/// the runs from `first` to `last`, found by bisection.
template <typename CodeOf>
void append_runs(RunTable& table, std::uint64_t first, std::uint64_t last, CodeOf code_of) {
  while (true) {
    const unsigned code = code_of(first);
    table.append(first, code);
    if (code_of(last) == code) return;
    std::uint64_t same = first;
    std::uint64_t other = last;
    while (other - same > 1) {
      const std::uint64_t middle = same + (other - same) / 2;
      (code_of(middle) == code ? same : other) = middle;
    }
    first = other;
  }
}

/// append_runs over all floats: the positive ones, their NaNs, the negative ones, their NaNs.
template <typename CodeOf>
RunTable table_of_floats(CodeOf code_of) {
  RunTable table;
  table.inputs = std::uint64_t{1} << 32;
  append_runs(table, 0, 0x7F800000, code_of);
  append_runs(table, 0x7F800001, 0x7FFFFFFF, code_of);
  append_runs(table, 0x80000000, 0xFF800000, code_of);
  append_runs(table, 0xFF800001, 0xFFFFFFFF, code_of);
  return table;
}

}  // namespace mxo::test

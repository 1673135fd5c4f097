// The one rounding of an integer times a power of two.
#pragma once

#include <cstdint>

namespace mxo::cuda {

__device__ inline int bit_width(std::uint64_t x) { return 64 - __clzll(static_cast<long long>(x)); }
__device__ inline int bit_width(unsigned __int128 x) {
  const auto high = static_cast<std::uint64_t>(x >> 64);
  return high != 0 ? 64 + bit_width(high) : bit_width(static_cast<std::uint64_t>(x));
}

/// The bits of the value nearest to +-magnitude * 2^exponent, ties to even, with `m` stored
/// mantissa bits and the exponent range of binary32 (IEEE 754-2019, 4.3.1).  Zero is +0.
template <typename Unsigned>
__device__ std::uint32_t round_integer(Unsigned magnitude, bool negative, int exponent, int m) {
  if (magnitude == 0) return 0;
  const std::uint32_t sign = negative ? 1u << (m + 8) : 0u;
  const std::uint32_t infinity = 0xFFu << m;
  const int top = bit_width(magnitude) - 1 + exponent;  // place of the leading one
  const int quantum = -126 - m;
  const int last = top - m > quantum ? top - m : quantum;
  const int drop = last - exponent;
  std::uint32_t kept = 0;
  if (drop <= 0) {
    kept = static_cast<std::uint32_t>(magnitude) << -drop;
  } else if (top >= last - 1) {  // below that, less than half a step remains
    const Unsigned half = Unsigned{1} << (drop - 1);
    const Unsigned rest = magnitude & (2 * half - 1);
    kept = top >= last ? static_cast<std::uint32_t>(magnitude >> drop) : 0u;
    kept += rest > half || (rest == half && (kept & 1u) != 0) ? 1u : 0u;
  }
  // `kept` carries the implicit bit: a carry out of the rounding moves to the next exponent.
  const int base = last - quantum;
  if (base >= 0xFF) return infinity | sign;
  const std::uint32_t code = (static_cast<std::uint32_t>(base) << m) + kept;
  return (code < infinity ? code : infinity) | sign;
}

}  // namespace mxo::cuda

// How a dot product is summed.  Part of the question, not of the answer.
#pragma once

#include <cstdint>
#include <string_view>

namespace mxo {

enum class SumFamily : std::uint8_t {
  exact,       ///< the real number, rounded once to the output type
  fma_chain,   ///< acc = fma(a_k, b_k, acc), k ascending, in f32
  fused_dot,   ///< NVIDIA matrix units: align to the largest term, truncate, add
  cdna3_dot,   ///< AMD CDNA3 matrix units: parity split, floors, drop rule
};

/// One model of a K-long sum of products.  Two equal values promise equal bits; the name and
/// the evidence take no part in the comparison.
struct Accumulation {
  std::string_view name = "exact";
  SumFamily family = SumFamily::exact;

  friend constexpr bool operator==(const Accumulation& a, const Accumulation& b) {
    return a.family == b.family;
  }
};

inline constexpr Accumulation kExact{};
inline constexpr Accumulation kFmaChain{"fma_chain", SumFamily::fma_chain};

/// The sum of that name.  Throws Error(argument) naming the sums there are.
Accumulation sum_named(std::string_view name);

}  // namespace mxo

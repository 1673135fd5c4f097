// One output by the bound of binary64.
#include "emu/cpu/gemm/tiles/pair_rows.h"

#include <cmath>

#include "emu/exact/rounding.h"
#include "emu/exact/rounding_test.h"

namespace mxo::cpu {

namespace {

constexpr int kDropped = 45;  // bits of binary64 that bf16 lacks
constexpr std::uint64_t kTie = std::uint64_t{1} << (kDropped - 1);

/// Far from the ends of bf16's exponents.
bool is_normal(std::uint64_t word) {
  return std::abs(static_cast<int>(word >> 52 & 0x7FF) - 1023) <= 120;
}
std::uint16_t upper_bits(std::uint64_t rounded) {
  const auto magnitude = static_cast<std::uint32_t>(rounded >> kDropped) & 0x3FFFFu;
  return static_cast<std::uint16_t>((magnitude - ((1023 - 127) << 7)) | (rounded >> 63) << 15);
}

/// The bf16 of a sum that is off by less than 2^12 of its last places and not so near to a tie; a
/// branch, where portable_round has many.
bool round_far_from_ties(std::uint64_t sum, std::uint16_t& bits) {
  const auto from_tie = static_cast<std::int64_t>((sum & (2 * kTie - 1)) - kTie);
  if (std::abs(from_tie) <= 1 << 12) return false;
  bits = upper_bits(sum + kTie);
  return true;
}

}  // namespace

bool round_one(const MicroPanel& a, const MicroPanel& b, int m, int n, double sum,
               std::uint16_t& bits) {
  const auto word = bit_cast<std::uint64_t>(sum);
  if (a.ends.reach[m] * b.ends.reach[n] <= 0x1p53 && is_normal(word)) {  // the sum is exact
    bits = upper_bits(word + kTie - 1 + (word >> kDropped & 1));
    return true;
  }
  const double off =
      bound_of_sum(a.ends.norm[m] * b.ends.norm[n], a.ends.reach[m] * b.ends.reach[n],
                   a.ends.roundings[m] + b.ends.roundings[n]);
  if (off <= 0x1p-42 * std::abs(sum) && is_normal(word) && round_far_from_ties(word, bits)) {
    return true;
  }
  const RoundingTest test = test_rounding(sum, off, 1.0, bf16_bits);
  bits = static_cast<std::uint16_t>(test.bits);
  return test.passed;
}

}  // namespace mxo::cpu

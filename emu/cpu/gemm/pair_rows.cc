// One output by the bound of binary64.
#include "emu/cpu/gemm/pair_rows.h"

#include <cmath>

#include "emu/cpu/gemm/portable.h"

namespace mxo::cpu {

namespace {

/// The bf16 of a sum that is off by less than 2^12 of its last places and not so near to a tie, nor
/// to the ends of bf16's exponents; a branch, where portable_round has many.
bool round_far_from_ties(double sum, std::uint16_t& bits) {
  constexpr int kDropped = 45;
  constexpr std::uint64_t kTie = std::uint64_t{1} << (kDropped - 1);
  const auto word = bit_cast<std::uint64_t>(sum);
  const auto from_tie = static_cast<std::int64_t>((word & (2 * kTie - 1)) - kTie);
  const int exponent = static_cast<int>(word >> 52 & 0x7FF) - 1023;
  if (std::abs(from_tie) <= 1 << 12 || std::abs(exponent) > 120) return false;
  const auto magnitude = static_cast<std::uint32_t>((word + kTie) >> kDropped) & 0x3FFFFu;
  bits = static_cast<std::uint16_t>((magnitude - ((1023 - 127) << 7)) | (word >> 63) << 15);
  return true;
}

}  // namespace

bool round_one(const Panel& a, const Panel& b, int m, int n, double sum, std::uint16_t& bits) {
  const double slack = a.ends.norm[m] * b.ends.norm[n] *
                       (a.ends.roundings[m] + b.ends.roundings[n]);  // in 0x1.01p-53
  if (slack <= 0x1p11 * std::abs(sum) && round_far_from_ties(sum, bits)) return true;
  ColumnEnds column;
  column.reach[0] = b.ends.reach[n];
  column.norm[0] = b.ends.norm[n];
  column.roundings[0] = b.ends.roundings[n];
  column.scale[0] = 1.0;
  return portable_round(a.row_end(m), column, &sum, 1, Dtype::bf16, &bits) == 0;
}

}  // namespace mxo::cpu

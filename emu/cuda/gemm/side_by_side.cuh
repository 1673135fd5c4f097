// K-vectors side by side: what belongs to one place along k lies in a line, tiles of 128 K-vectors
// one after the other.
#pragma once

#include "emu/cuda/gemm/problem.cuh"

namespace mxo::cuda {

inline constexpr int kSide = 128;  ///< K-vectors of a tile

/// Bytes of K-vectors in such lines; tiles restart in each group.
struct SideBySide {
  std::uint8_t* data;
  Index line_bytes;
};
/// Where a tile is: its number, its first K-vector in memory, how many there are.
struct Side {
  Index number;
  Index first;
  int count;
};
/// K-vectors from `at` of a group on, of the factor whose K-vectors are rows of x or dy.
__device__ inline Side side_a(const Problem& p, Index group, Index at) {
  const auto count = static_cast<int>(min(Index{kSide}, p.rows_of(group) - at));
  if (p.contracts_rows()) return {at / kSide, at, count};
  const GroupSpan& span = p.span[group];
  return {span.row_tile + at / kSide, span.start + at, count};
}
__device__ inline Side side_b(const Problem& p, Index group, Index at) {
  const auto count = static_cast<int>(min(Index{kSide}, p.b.rows - at));
  const Index across = (p.b.rows + kSide - 1) / kSide;
  if (p.contracts_rows()) return {at / kSide, at, count};
  return {group * across + at / kSide, group * p.b.rows + at, count};
}
/// The tile of that number.
template <bool OfA>
__device__ Side side_number(const Problem& p, Index number) {
  if (OfA && !p.contracts_rows()) {
    const Index group = group_at(p, number, &GroupSpan::row_tile);
    return side_a(p, group, (number - p.span[group].row_tile) * kSide);
  }
  if (OfA) return side_a(p, 0, number * kSide);
  const Index across = (p.b.rows + kSide - 1) / kSide;
  return side_b(p, number / across, number % across * kSide);
}
/// How many tiles there may be.
inline Index sides_a(const Problem& p) {
  return ceil_div(p.a.rows, kSide) + (p.contracts_rows() ? 0 : p.groups);
}
inline Index sides_b(const Problem& p) {
  return ceil_div(p.b.rows, kSide) * (p.contracts_rows() ? 1 : p.groups);
}

}  // namespace mxo::cuda

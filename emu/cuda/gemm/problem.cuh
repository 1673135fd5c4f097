// A grouped product as the device sees it: strided factors, and groups that only the device knows.
#pragma once

#include <cstdint>

#include "emu/cuda/device_backend.cuh"
#include "ops/fused_dot.h"
#include "ops/grouped_matmul.h"

namespace mxo::cuda {

/// One group, from group_ends.
struct GroupSpan {
  std::int32_t start;  ///< its first row
  std::int32_t rows;
  std::int32_t row_tile;    ///< 128-row tiles of the groups before
  std::int32_t packed;      ///< 128-k chunks of the groups before, where the rows are contracted
  std::int32_t scale_tile;  ///< the same where block-wise scales are counted
};

/// One factor.  Element (g, i, c) is line i of group g at place c of the contracted axis.
struct Factor {
  const void* codes = nullptr;
  Dtype dtype = Dtype::bf16;
  Index group = 0;  ///< strides in elements
  Index line = 0;
  Index k = 0;
  const void* scales = nullptr;  ///< e8m0 under mx, f32 row- and block-wise; null: 1
  Index scale_group = 0;
  Index scale_line = 0;
  Index scale_k = 0;
  Index lines_per_scale = 1;
  bool lines_are_rows = false;  ///< lines are counted from row 0, not from the group's first
  bool k_is_rows = false;       ///< so are places along k
};

/// out[g, i, j] = sum over c of a(g, i, c) * b(g, j, c).  Forward products have group.rows lines
/// of a and k places; weight gradients m lines and group.rows places.
struct Problem {
  Factor a;
  Factor b;
  Scaling scaling = Scaling::none;
  bool wgrad = false;
  Index groups = 0;
  Index m = 0;  ///< lines of a in a group; forward: rows of all groups at most
  Index n = 0;
  Index k = 0;              ///< places; wgrad: rows of all groups at most
  const void* c = nullptr;  ///< f32 [groups, m, n] that the sums start from; null: zero
  Index c_group = 0;
  Index c_row = 0;
  Index c_column = 0;
  void* out = nullptr;
  Dtype out_dtype = Dtype::f32;
  Index out_group = 0;
  Index out_row = 0;
  Index out_column = 0;
  const GroupSpan* span =
      nullptr;  ///< [groups + 1]; the last holds totals in start, row_tile, packed

  __host__ __device__ Index lines_a() const { return wgrad ? groups * m : m; }
  __host__ __device__ Index lines_b() const { return groups * n; }
  /// Base 2 logarithm of the neighbours along k that share a scale.
  __host__ __device__ int block_shift() const {
    return scaling == Scaling::mx ? 5 : scaling == Scaling::blockwise ? 7 : 62;
  }
  __device__ Index rows_of(Index g) const { return wgrad ? m : span[g].rows; }
  __device__ Index length_of(Index g) const { return wgrad ? span[g].rows : k; }
  __device__ Index out_at(Index g, Index i, Index j) const {
    const Index row = wgrad ? i : span[g].start + i;
    return g * out_group + row * out_row + j * out_column;
  }
  __device__ Index code_at(const Factor& f, Index g, Index i, Index at) const {
    const Index start = span[g].start;
    return g * f.group + (i + (f.lines_are_rows ? start : 0)) * f.line +
           (at + (f.k_is_rows ? start : 0)) * f.k;
  }
  __device__ Index scale_at(const Factor& f, Index g, Index i, Index at) const {
    const GroupSpan& s = span[g];
    Index first = 0;
    if (f.k_is_rows && scaling == Scaling::mx) first = s.start / 32;
    if (f.k_is_rows && scaling == Scaling::blockwise) first = s.scale_tile;
    return g * f.scale_group +
           (i + (f.lines_are_rows ? s.start : 0)) / f.lines_per_scale * f.scale_line +
           (first + (at >> block_shift())) * f.scale_k;
  }
};

/// The group that holds position `at`, by the prefix sums `prefix` of the spans.
__device__ inline Index group_at(const Problem& p, Index at, std::int32_t GroupSpan::*prefix) {
  Index low = 0;
  Index high = p.groups;
  while (high - low > 1) {
    const Index middle = (low + high) / 2;
    (p.span[middle].*prefix <= at ? low : high) = middle;
  }
  return low;
}

/// A product without its spans.
Problem problem_of(const GroupedMatmul& op);
Problem problem_of(const GroupedMatmulWgrad& op);
Problem problem_of(const FusedDot& op);

/// Fills span[0..groups] from group_ends; a fault leaves every group empty.  `scale_rows` is what
/// block-wise scales have rows for.
void plan_groups(DeviceBackend& backend, const Operand& ends, Index rows, Index multiple_of,
                 Index scale_rows, GroupSpan* span);
/// Groups of `rows` rows each: the batch of fused_dot.
void plan_batch(DeviceBackend& backend, Index groups, Index rows, GroupSpan* span);

}  // namespace mxo::cuda

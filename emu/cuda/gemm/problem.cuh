// A grouped product as the device sees it: strided factors, and groups that only the device knows.
#pragma once

#include <cstdint>

#include "emu/cuda/device_backend.cuh"
#include "ops/contraction_view.h"

namespace mxo::cuda {

/// One group, from group_ends.
struct GroupSpan {
  std::int32_t start;  ///< its first row
  std::int32_t rows;
  std::int32_t row_tile;       ///< 128-row tiles of the groups before
  std::int32_t packed;         ///< 128-k chunks of the groups before, where the rows are contracted
  std::int32_t scale_block_a;  ///< blocks of scales of the groups before, where rows are
  std::int32_t scale_block_b;  ///< contracted
};

/// The product of all groups, which only the device knows: spans say where they lie.
struct Problem : ContractionView {
  const GroupSpan* span =
      nullptr;  ///< [groups + 1]; the last holds totals in start, row_tile, packed

  __host__ __device__ Index lines_a() const { return contracts_rows() ? groups * a.rows : a.rows; }
  __host__ __device__ Index lines_b() const { return groups * b.rows; }
  /// Base 2 logarithm of the K indices that share a scale, in the forms of the fast kernels.
  __host__ __device__ int block_shift() const {
    return form == ScaleForm::mx ? 5 : form == ScaleForm::blockwise ? 7 : 62;
  }
  __device__ Index rows_of(Index g) const { return contracts_rows() ? a.rows : span[g].rows; }
  __device__ Index length_of(Index g) const { return contracts_rows() ? span[g].rows : depth; }
  __device__ GroupPlace place(const Factor& f, Index g) const {
    return {g, span[g].start, f.block == a.block ? span[g].scale_block_a : span[g].scale_block_b};
  }
  __device__ Index out_at(Index g, Index i, Index j) const {
    return ContractionView::out_at({g, span[g].start, 0}, i, j);
  }
  __device__ Index code_at(const Factor& f, Index g, Index i, Index at) const {
    return f.code_at({g, span[g].start, 0}, i, at);
  }
  __device__ Index scale_at(const Factor& f, Index g, Index i, Index at) const {
    if (form == ScaleForm::other) return f.scale_at(place(f, g), i, at);
    return f.scale_at(place(f, g), i, 0) + (at >> block_shift()) * f.scales_step;
  }
};

/// The last group g with before(g) <= at.
template <typename Before>
__device__ Index last_group_before(const Problem& p, Index at, const Before& before) {
  Index low = 0;
  Index high = p.groups;
  while (high - low > 1) {
    const Index middle = (low + high) / 2;
    (before(middle) <= at ? low : high) = middle;
  }
  return low;
}
/// The group that holds position `at`, by the prefix sums `prefix` of the spans.
__device__ inline Index group_at(const Problem& p, Index at, std::int32_t GroupSpan::*prefix) {
  return last_group_before(p, at, [&](Index g) { return Index{p.span[g].*prefix}; });
}

/// Fills span[0..groups] from group_ends; a fault leaves every group empty.
void plan_groups(DeviceBackend& backend, const ContractionView& view, const Operand& ends,
                 GroupSpan* span);
/// Groups of `rows` rows each: the batch of fused_dot.
void plan_batch(DeviceBackend& backend, Index groups, Index rows, GroupSpan* span);

}  // namespace mxo::cuda

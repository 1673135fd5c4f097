// Rows of groups as other stacks name them, to group_ends and back.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "formats/any_view.h"

namespace mxo {

class Backend;

/// A row's group to ends of groups:
///   group_ends[e] = the first row r with m_indices[r] > e; where there is none, one past the last
///   row that names a group, 0 if no row does.
/// Rows of -1 belong to the group before them, those behind the last group to none.
///
///   m_indices   i32 [M]  each -1 or a group; groups never decrease
///   group_ends  i32 [E]
///
/// M may be 0.  Errors, before any byte is written: Error(shape), also on a group out of range or
/// out of order; Error(dtype).
/// Source: DeepGEMM 54e2261, m_indices of m_grouped_fp8_gemm_nt_contiguous.
struct RowsToGroups {
  Operand m_indices;
  Result group_ends;
};

/// The inverse: m_indices[r] = e for the rows r of group e, the first counts[e] of them where
/// counts are given; -1 elsewhere.
///
///   group_ends  i32 [E]
///   counts      i32 [E], optional: rows that are no padding, at most those of the group
///   m_indices   i32 [M], M at least the last end
///
/// Errors, before any byte is written: Error(shape), also on ends that decrease and counts out of
/// range; Error(dtype).  Source as RowsToGroups.
struct GroupsToRows {
  Operand group_ends;
  Operand counts;
  Result m_indices;
};

/// Every group in a matrix of its own: counts[e] = rows of group e, and
///   y[e, i, :] = x[group_ends[e - 1] + i, :]  for i < counts[e], zeros below.
///
///   x           [R, D]     any element type, any strides
///   group_ends  i32 [E]
///   y           [E, M, D]  the type of x; M at least the rows of the longest group
///   counts      i32 [E]
///
/// R, M, D may be 0.  Errors, before any byte is written: Error(shape), also on a group of more
/// than M rows; Error(dtype). Source: DeepGEMM 54e2261, fp8_m_grouped_gemm_nt_masked (masked_m).
struct GroupsToMasked {
  Operand x;
  Operand group_ends;
  Result y;
  Result counts;
};

/// The inverse, rows one after another: with group_ends[e] = counts[0] + .. + counts[e],
///   x[group_ends[e - 1] + i, :] = y[e, i, :]  for i < counts[e], zeros in rows past the last end.
///
///   y           [E, M, D]  any element type, any strides
///   counts      i32 [E]    0 to M each
///   x           [R, D]     the type of y; R at least the last end
///   group_ends  i32 [E]
///
/// Errors, before any byte is written: Error(shape), also on a count out of range; Error(dtype).
/// Source as GroupsToMasked.
struct MaskedToGroups {
  Operand y;
  Operand counts;
  Result x;
  Result group_ends;
};

void rows_to_groups(Backend& backend, const RowsToGroups& op);
void groups_to_rows(Backend& backend, const GroupsToRows& op);
void groups_to_masked(Backend& backend, const GroupsToMasked& op);
void masked_to_groups(Backend& backend, const MaskedToGroups& op);

}  // namespace mxo

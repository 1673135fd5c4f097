// Scale bytes into the 128x4 tiles that block-scaled matrix units read, and back.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include <vector>

#include "formats/any_view.h"
#include "formats/scale_layout.h"

namespace mxo {

class Backend;

/// blocked[base + blocked_offset(r, c, tiles)] = scales[first row + r, first column + c] for each
/// self-contained matrix of the layout; every other byte of `blocked` is 0.
///
///   blocked       scales [R, C]     one matrix at base 0
///                 blocked [ceil(R/128) * ceil(C/4) * 512]
///   m_groups      scales [R, C], group_ends [G] of rows; a group's matrix starts at row
///                 start_g = sum of its predecessors' rows, each rounded up to 128, so at
///                 base start_g * rup(C, 4)
///                 blocked [R + 128 G, rup(C, 4)]
///   k_groups      scales [R, C], group_ends [G] of scale columns; a group's matrix starts at
///                 base start_g * rup(R, 128), start_g the columns before it, each group's
///                 rounded up to 4.  Addressed flat: the two extents only size the buffer.
///                 blocked [rup(R, 128), C + 4 G]
///   per_group_3d  scales [E, R, C], one matrix per expert
///                 blocked [E, rup(R, 128) * rup(C, 4)]
///
/// scales and blocked are e8m0 or u8; scales may have any strides, blocked is contiguous.
/// Scales past the last end are not read.  Any extent may be 0; an empty group takes no space.
/// Errors, before any byte is written: Error(shape), Error(dtype).
/// Source: pytorch/ao 36027d8, to_blocked and mx_block_rearrange_2d_{M,K}_groups,
/// .._per_group_3d (captured); where columns are no multiple of 4 in m_groups its kernels, not
/// its torch reference, are followed.
struct SwizzleScales {
  Operand scales;
  Operand group_ends;
  Result blocked;
  ScaleLayout layout = ScaleLayout::blocked;
};

/// The inverse: scales[..] = blocked[..] under the same map.  Rows (m_groups) or columns
/// (k_groups) of scales past the last end are left untouched; padding bytes are not read.
/// Operands, errors and source as SwizzleScales.
struct UnswizzleScales {
  Operand blocked;
  Operand group_ends;
  Result scales;
  ScaleLayout layout = ScaleLayout::blocked;
};

/// The shape of `blocked` for scales of shape `scales`; `groups` counts group_ends.
std::vector<Index> blocked_shape(ScaleLayout layout, const std::vector<Index>& scales,
                                 Index groups);

void swizzle_scales(Backend& backend, const SwizzleScales& op);
void unswizzle_scales(Backend& backend, const UnswizzleScales& op);

}  // namespace mxo

// Groups of rows moved apart so that each starts on a multiple, and moved back.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "formats/any_view.h"

namespace mxo {

class Backend;

/// Rows enough for T rows in E groups however they are cut: T + E*alignment rounded up to
/// `alignment`, known from shapes alone.  Throws Error(argument) if `alignment` is not positive,
/// Error(shape) if the rows do not fit 32 bits.
Index padded_rows(Index rows, Index groups, Index alignment);

/// With size_g = group_ends[g] - group_ends[g-1] and taken_g = size_g rounded up to `alignment`:
///   padded_ends[g] = sum_{h <= g} taken_h,   padded_starts[g] = padded_ends[g] - taken_g,
///   y[padded_starts[g] + i, :] = x[group_ends[g-1] + i, :] for i < size_g, and 0 elsewhere.
///
///   x              [T, D]   any element type, any strides
///   group_ends     i32 [E]
///   y              [padded_rows(T, E, alignment), D], the type of x; every row is written
///   padded_starts  i32 [E]
///   padded_ends    i32 [E]
///
/// An empty group takes no rows; rows of x past the last end are not read.  T, E and D may be 0.
/// Errors, before any byte is written: Error(shape), Error(dtype); Error(argument) if
/// `alignment` is not positive.
/// Source: pytorch/ao 36027d8, torch_pad_token_groups.
struct PadGroups {
  Operand x;
  Operand group_ends;
  Result y;
  Result padded_starts;
  Result padded_ends;
  Index alignment = 32;
};

/// x[group_ends[g-1] + i, :] = y[padded_starts[g] + i, :]: the inverse of PadGroups.
///
///   y              [P, D]   any element type, any strides
///   group_ends     i32 [E]  of x
///   padded_starts  i32 [E]  each group's rows lie within P
///   x              [T, D]   the type of y; rows past the last end stay untouched
///
/// Errors, before any byte is written: Error(shape), also for a group that does not lie within P;
/// Error(dtype).
struct UnpadGroups {
  Operand y;
  Operand group_ends;
  Operand padded_starts;
  Result x;
};

void pad_groups(Backend& backend, const PadGroups& op);
void unpad_groups(Backend& backend, const UnpadGroups& op);

}  // namespace mxo

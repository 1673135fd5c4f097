// Rows into expert order, groups padded, and back.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "formats/any_view.h"

namespace mxo {

class Backend;

/// Which received row belongs where, once rows that came rank by rank lie expert by expert.
/// With c[p, e] = tokens_per_expert[p*E + e], first[p, e] its exclusive running sum in that
/// order, and total_e = sum_p c[p, e]:
///   sizes[e] = max(total_e, 1) rounded up to `alignment`,  ends[e] = sum_{f <= e} sizes[f],
///   indices[ends[e-1] ..] = first[p, e], first[p, e] + 1, .. for p ascending; -1 elsewhere.
///
///   tokens_per_expert  i32 [P*E], rank-major, none negative
///   indices            i32 [max_len]; all of it is written
///   sizes, ends        i32 [E]
///
/// An expert without tokens still takes `alignment` rows, all -1 (unlike PadGroups).
/// Errors, before any byte is written: Error(shape), also if max_len is below ends[E-1];
/// Error(dtype); Error(argument) if `alignment`, `experts` or `ranks` is not positive.
/// Source: pytorch/ao 36027d8, generate_permute_indices.
struct PermuteIndices {
  Operand tokens_per_expert;
  Result indices;
  Result sizes;
  Result ends;
  Index experts = 1;
  Index ranks = 1;
  Index alignment = 32;
};

/// y[i, :] = x[indices[i], :], and zeros where indices[i] is -1.
///
///   x        [T, D]    any element type, any strides
///   indices  i32 [len] each -1 or a row of x
///   y        [len, D]  the type of x
///
/// T, len and D may be 0.  Errors: Error(shape), Error(dtype).
/// Source: pytorch/ao 36027d8, permute_and_pad.
struct Permute {
  Operand x;
  Operand indices;
  Result y;
};

/// x[indices[i], :] = y[i, :] where indices[i] is not -1, and zeros in rows no index names.
///
///   y        [len, D]  any element type, any strides
///   indices  i32 [len] each -1 or a row of x; no row is named twice
///   x        [T, D]    the type of y; every row is written
///
/// Errors: Error(shape), also on a row named twice; Error(dtype).
struct Unpermute {
  Operand y;
  Operand indices;
  Result x;
};

void permute_indices(Backend& backend, const PermuteIndices& op);
void permute(Backend& backend, const Permute& op);
void unpermute(Backend& backend, const Unpermute& op);

}  // namespace mxo

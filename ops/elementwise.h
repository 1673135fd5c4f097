// The small operators a layer needs between its products.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "formats/any_view.h"

namespace mxo {

class Backend;

/// y[i] = x[i] in another wide type, rounded to nearest even; NaN becomes the canonical NaN.
///
///   x  any shape, f32, bf16 or f16, any strides
///   y  the shape of x, f32, bf16 or f16
///
/// Any extent may be 0.  Errors, before any byte is written: Error(shape), Error(dtype).
/// Source: IEEE 754-2019, 4.3.1 and 5.4.2.
struct Cast {
  Operand x;
  Result y;
};

/// out[r, n] = round(f32(y[r, n]) + f32(bias[g(r), n])), one f32 addition, then rounded to the
/// type of out; g(r) is the group of row r.
///
///   y           [R, N]  f32 or bf16
///   bias        [N], the same for every group, or [E, N]; f32 or bf16
///   group_ends  i32 [E]; may be absent with a bias [N], then every row takes part
///   out         [R, N]  f32 or bf16; may be y itself
///
/// Rows past the last end stay untouched.  Any extent may be 0.
/// Errors, before any byte is written: Error(shape), Error(dtype).
/// Source: the bias of a linear layer; that it is one addition in f32 is ours.
struct AddBias {
  Operand y;
  Operand bias;
  Operand group_ends;
  Result out;
};

/// sum[g, n] = sum over the rows r of group g, ascending, of f32(x[r, n]): each step one f32
/// addition to an accumulator that starts at +0, the last one rounded to the type of sum.
/// With sum [N] the rows of all groups are one group.  The gradient of a bias.
///
///   x           [R, N]  f32 or bf16
///   group_ends  i32 [E]; may be absent with a sum [N], then every row takes part
///   sum         [N] or [E, N], f32 or bf16; an empty group gives +0
///
/// Rows past the last end are not read.  Any extent may be 0.
/// Errors, before any byte is written: Error(shape), Error(dtype).
/// Source: the derivative of AddBias; the order of the sum is ours.
struct ColumnSum {
  Operand x;
  Operand group_ends;
  Result sum;
};

void cast(Backend& backend, const Cast& op);
void add_bias(Backend& backend, const AddBias& op);
void column_sum(Backend& backend, const ColumnSum& op);

}  // namespace mxo

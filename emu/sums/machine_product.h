// What a machine makes of the elements and results of a product.
#pragma once

#include "emu/sums/dot_operand.h"
#include "ops/contraction_view.h"

namespace mxo {

/// True where a machine multiplies elements that are already code times e8m0 scale.
MXO_HD inline bool scales_in_terms(const ContractionView& v, const Factor& f) {
  return f.scaled() && v.sum.fold == Fold::term;
}

/// The type of what is multiplied: bf16 where block scales are folded into the operands.
MXO_HD inline Dtype operand_type(const ContractionView& v, const Factor& f) {
  const bool folded = scales_in_terms(v, f) && v.sum.scales == ScalePlace::operand;
  return folded ? Dtype::bf16 : f.codes.dtype;
}

/// Element (i, k) of one group's factor as the machine multiplies it.
DotOperand machine_operand(const ContractionView& product, const Factor& f, Index i, Index k);

/// What follows the sum v of output (i, j): scales that multiply after it; +0 for an empty sum.
float machine_epilogue(const ContractionView& product, Index i, Index j, float v);

/// Writes one output, rounded to its type.
inline void store_output(const ContractionView& product, Index i, Index j, float v) {
  const Index at = product.out_at({}, i, j);
  if (product.out.dtype == Dtype::f32) {
    static_cast<float*>(product.out.data)[at] = v;
  } else {
    static_cast<BF16*>(product.out.data)[at] = from_float<BF16>(v);
  }
}

}  // namespace mxo

// One output of a matrix product, by the sums `exact` and `fma_chain`.
#pragma once

#include "emu/exact/exact_sum.h"
#include "ops/contraction_view.h"

namespace mxo {

/// Sum over c below `length` of a(c) * b(c), as a real number.
ExactSum exact_dot(const KVector& a, const KVector& b, Index length);

/// The chain of fused multiply-adds in f32, c ascending from +0; `sum` is settled.
///   term    acc = fma(fl32(code*scale) of a, of b, acc)
///   after   acc over codes, then (acc * scale_a) * scale_b
///   others  p over the codes of each block, joined as ops/sums.h says
/// NaN is 7FC00000.
float fma_chain_dot(const Accumulation& sum, const KVector& a, const KVector& b, Index length);

/// Computes and writes output (i, j) of one group's product by the definition of `exact` or
/// `fma_chain`.
void write_dot(const ContractionView& product, Index i, Index j);

}  // namespace mxo

// One output of a matrix product, by the sums that are no machine's.
#pragma once

#include "emu/exact/exact_sum.h"
#include "emu/reference/scaled_line.h"
#include "ops/grouped_matmul.h"

namespace mxo {

/// Sum over c below `length` of a(c) * b(c), as a real number.
ExactSum exact_dot(const ScaledLine& a, const ScaledLine& b, Index length);

/// The chain of fused multiply-adds in f32, c ascending from +0:
///   mx, none    acc = fma(fl32(code*scale) of a, of b, acc)
///   rowwise     acc over codes, then (acc * scale_a) * scale_b
///   blockwise   p over the codes of a tile of 128; y = fma(fl32(p * scale_a), scale_b, y)
/// NaN is 7FC00000.
float fma_chain_dot(Scaling scaling, const ScaledLine& a, const ScaledLine& b, Index length);

}  // namespace mxo

// Certified bounds of operators that sum nothing: a gate activation, a cast to codes.
#pragma once

#include <optional>

#include "golden/judge/comparator.h"
#include "ops/catalogue.h"

namespace mxo {

/// For y = ((a * sigma(a)) * b) * p of swiglu, of element type `out`:
///
///   |out - exact| <= g |exact| + 2^-125 |a b p| + 4 * 2^-149 + half a step of the output,  g = 12
///   u
///
/// u = 2^-24: an exp with 4 u (two units in the last place), one addition, one division and three
/// products, each rounded to nearest in any order, and a margin for terms of second order.  The
/// second term is what a sigma below f32's normal numbers may lose.  `exact` is computed in double,
/// whose own error the margin covers.
ErrorBound swiglu_bound(const NamedTensors& inputs, Dtype out);

/// For codes of quantize, as the values that they stand for at their own scales (which are held to
/// bits): no further from x than the nearest code is, but for 4 u |x|, which a quotient or
/// reciprocal in f32 may move x.  So a tie may go either way, and nothing else may.
/// Nothing where x is no matrix of the shape of the codes.
std::optional<ErrorBound> quantize_bound(const NamedTensors& inputs, const Parameters& set,
                                         const Owed& codes, const Tensor& actual);

}  // namespace mxo

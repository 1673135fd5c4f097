// The certified bound: how far a product may be from the real number, element by element.
#pragma once

#include <optional>
#include <string_view>

#include "golden/judge/comparator.h"
#include "ops/catalogue.h"

namespace mxo {

/// For output `output` of operator `op` called on `inputs`, of element type `out`:
///
///   |out - exact| <= gamma_K * sum_k |x_k w_k| + K * 2^-149 + half a step of the output
///
/// gamma_K = K u / (1 - K u), u = 2^-24: any order of f32 additions, each rounded to nearest
/// (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 3.1 and 4.2).  `exact` is a
/// double within gamma_K (u = 2^-53) * sum|x w| of the real sum, which `allowed` includes; every
/// step of `allowed` is rounded upward.  With `sum` = "exact" the first two terms are absent.
///
/// y of swiglu has the bound of golden/judge/element_bounds.h, whatever `sum`.
///
/// `exact` is NaN where an operand of the row or column is not finite: there the expected class
/// holds.  Nothing for an operator or output that sums nothing: it is held to bits.
/// Throws Error(argument) for a `sum` without a bound; empty means an unknown kernel.  Throws what
/// the operator would for operands that it does not take.
std::optional<ErrorBound> certified_bound(std::string_view op, std::string_view output,
                                          const NamedTensors& inputs, const Parameters& parameters,
                                          Dtype out, std::string_view sum);

}  // namespace mxo

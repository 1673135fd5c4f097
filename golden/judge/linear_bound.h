// How far the results of a layer of products may be from those expected, whatever its recipe.
#pragma once

#include <optional>
#include <string_view>

#include "golden/judge/error_bound.h"
#include "ops/catalogue.h"

namespace mxo {

/// For y, dx or dw of grouped_linear: a right kernel multiplies the codes of the recipe, adds in
/// any order of f32 and rounds to the type of the output, as `expected` was made.  docs/gates.md
/// derives it.  For gate sqnr=auto alone: it takes `expected` for right. Nothing with pre-quantised
/// x, a main_grad, or a sum that is not one of f32. `inputs` and `expected` must
/// outlive it.
std::optional<ErrorBound> linear_bound(std::string_view output, const NamedTensors& inputs,
                                       const Parameters& set, const Tensor& expected);

}  // namespace mxo

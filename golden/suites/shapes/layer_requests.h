// The calls of one expert layer of a model, at a recipe.
// Thread safety: functions of their arguments; any threads at once.
#pragma once

#include "golden/suites/models.h"
#include "golden/suites/shapes/generate_shapes.h"

namespace mxo {

/// Every operator of an expert layer, forward and backward, that runs on one rank with `tokens`
/// rows and `groups` experts; `recipe` and `format`, of codes, are two of grouped_linear's.  Throws
/// Error(argument).
std::vector<ShapeRequest> layer_requests(const Model& model, Index tokens, Index groups,
                                         std::string_view recipe, std::string_view format,
                                         const ShapeOptions& options);

}  // namespace mxo

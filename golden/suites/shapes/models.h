// Expert layers of public models, and the calls of one at a recipe.
// Thread safety: functions of their arguments; any threads at once.
#pragma once

#include <span>

#include "golden/suites/shapes/generate_shapes.h"

namespace mxo {

/// One published configuration.
struct ModelShape {
  std::string_view name;
  std::string_view repository;  ///< on Hugging Face, whose config.json says these numbers
  Index hidden;
  Index intermediate;  ///< of one expert
  Index experts;
  Index top_k;
  Index groups;  ///< experts of one rank here, unless asked for otherwise
  std::string_view score;
};
std::span<const ModelShape> models();
/// Throws Error(argument) with the nearest.
const ModelShape& model_named(std::string_view name);

/// Every operator of an expert layer, forward and backward, that runs on one rank with `tokens`
/// rows and `groups` experts; `recipe` is one of grouped_linear's.  Throws Error(argument).
std::vector<ShapeRequest> layer_requests(const ModelShape& model, Index tokens, Index groups,
                                         std::string_view recipe, const ShapeOptions& options);

}  // namespace mxo

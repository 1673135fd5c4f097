// The named ways to run the experts of a training run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ops/moe_layer.h"
#include "tools/train/options.h"

namespace mxo::tools {

struct TrainRecipe {
  std::string name;
  LinearRecipe linear = kLinearRecipes[0];
  Dtype format = Dtype::e4m3;
  MoePipeline pipeline = MoePipeline::quantize_after;
};

/// A recipe of grouped_linear ("mxfp8_rceil"); "e4m3fnuz": mxfp8_rceil with that format; or "flow":
/// the pipeline of that name, in blocks of 128.  Tokens of the others travel in bf16; with ":mxfp8"
/// behind a name of the mxfp8 ones they travel quantised.  Codes are of `format`.
/// Throws Error(argument) naming the recipes there are, or where the recipe has no such codes.
TrainRecipe train_recipe_named(std::string_view name, std::string_view format = "e4m3");

/// Pipeline, recipe, format and sums of a layer of experts.  Throws as sum_named.
void set_recipe(MoeLayer& layer, const TrainRecipe& recipe, std::string_view sum);

/// How the products of attention compute: recipe, format, padding and sums of
/// TrainOptions::linears; none for "f32".  Throws Error(argument), and as sum_named.
std::optional<GroupedLinear> linears_call(const TrainOptions& options, const TrainRecipe& recipe);

/// Throws what a model of these would throw.
void check(const TrainOptions& options, const TrainRecipe& recipe);

}  // namespace mxo::tools

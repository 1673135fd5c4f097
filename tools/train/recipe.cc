// Names to recipes.
#include "tools/train/recipe.h"

#include "formats/error.h"

namespace mxo::tools {

TrainRecipe train_recipe_named(std::string_view name, std::string_view format) {
  constexpr std::string_view kTravels = ":mxfp8";
  constexpr std::string_view kFnuz = "e4m3fnuz";
  constexpr std::string_view kFlow = "flow";
  TrainRecipe found;
  std::string_view base = name;
  if (base.ends_with(kTravels)) {
    base.remove_suffix(kTravels.size());
    found.pipeline = MoePipeline::mxfp8;
  }
  found.linear = linear_recipe_named(base == kFnuz   ? "mxfp8_rceil"
                                     : base == kFlow ? "fp8_blockwise"
                                                     : base);
  found.name = base == kFnuz || base == kFlow ? base : found.linear.name;
  if (found.pipeline == MoePipeline::mxfp8) found.name += kTravels;
  if (found.linear.scaled()) {
    found.format = dtype_named(format);
    if (base == kFnuz) found.format = Dtype::e4m3fnuz;
    if (!is_minifloat8(found.format) || (base == kFlow && found.format != Dtype::e4m3)) {
      throw Error(Fault::argument,
                  "format: found " + std::string(format) + ", needs " +
                      (base == kFlow ? "e4m3 with recipe flow" : "an 8-bit float"));
    }
    require_recipe_takes("recipe", found.linear, found.format);
  }
  if (found.pipeline == MoePipeline::mxfp8 && !found.linear.mx()) {
    throw Error(Fault::argument, "recipe: found '" + std::string(name) +
                                     "', only mxfp8 recipes and e4m3fnuz can travel as mxfp8");
  }
  if (base == kFlow) found.pipeline = MoePipeline::flow;
  if (!found.linear.scaled()) found.pipeline = MoePipeline::bf16;
  return found;
}

void set_recipe(MoeLayer& layer, const TrainRecipe& recipe, std::string_view sum) {
  layer.pipeline = recipe.pipeline;
  layer.recipe = recipe.linear;
  layer.format = recipe.format;
  layer.sum = sum_named(sum, product_kind(moe_recipe(layer), layer.format));
  layer.wgrad_sum = sum_named(sum, moe_wgrad_kind(layer));
}

LinearRecipe linears_recipe(const TrainOptions& options, Dtype format) {
  const LinearRecipe& recipe = linear_recipe_named(options.linears);
  if (recipe.scaled()) require_recipe_takes("linears", recipe, format);
  return recipe;
}

}  // namespace mxo::tools

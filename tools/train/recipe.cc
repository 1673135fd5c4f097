// Names to recipes.
#include "tools/train/recipe.h"

#include "formats/error.h"

namespace mxo::tools {

namespace {

constexpr std::string_view kFnuz = "e4m3fnuz";
constexpr std::string_view kFlow = "flow";

/// The recipe of grouped_linear under that name; an error lists those of the trainer, too.
const LinearRecipe& linear_or_refused(std::string_view name) {
  try {
    return linear_recipe_named(name);
  } catch (const Error& error) {
    throw Error(error.fault(),
                std::string(error.what()) + ", " + std::string(kFnuz) + ", " + std::string(kFlow));
  }
}

}  // namespace

TrainRecipe train_recipe_named(std::string_view name, std::string_view format) {
  constexpr std::string_view kTravels = ":mxfp8";
  TrainRecipe found;
  std::string_view base = name;
  if (base.ends_with(kTravels)) {
    base.remove_suffix(kTravels.size());
    found.pipeline = MoePipeline::mxfp8;
  }
  found.linear = linear_or_refused(base == kFnuz   ? "mxfp8_rceil"
                                   : base == kFlow ? "fp8_blockwise"
                                                   : base);
  found.name = base == kFnuz || base == kFlow ? base : found.linear.name;
  if (found.pipeline == MoePipeline::mxfp8) found.name += kTravels;
  found.format = base == kFnuz ? Dtype::e4m3fnuz : dtype_named(format);
  if (!is_minifloat8(found.format) ||
      (base == kFlow && found.format != Dtype::e4m3 && found.format != Dtype::e4m3fnuz)) {
    throw Error(Fault::argument,
                "format: found " + std::string(format) + ", needs " +
                    (base == kFlow ? "e4m3 or e4m3fnuz with recipe flow" : "an 8-bit float"));
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

std::optional<GroupedLinear> linears_call(const TrainOptions& options, const TrainRecipe& recipe) {
  if (options.linears == "f32") return {};
  GroupedLinear op;
  op.recipe = linear_recipe_named(options.linears);
  op.format = recipe.format;
  op.padding = GroupPadding::alignment;
  op.sum = sum_named(options.sum, product_kind(op.recipe, op.format));
  op.wgrad_sum = sum_named(options.sum, wgrad_kind(op));
  return op;
}

void check(const TrainOptions& options, const TrainRecipe& recipe) {
  MoeLayer layer;
  set_recipe(layer, recipe, options.sum);
  linears_call(options, recipe);
}

}  // namespace mxo::tools

// Names to recipes.
#include "tools/train/recipe.h"

#include <algorithm>

#include "formats/error.h"
#include "formats/nearest_name.h"
#include "tools/terminal.h"

namespace mxo::tools {

TrainRecipe train_recipe_named(std::string_view name) {
  constexpr std::string_view kTravels = ":mxfp8";
  constexpr std::string_view kFnuz = "e4m3fnuz";
  constexpr std::string_view kFlow = "flow";
  TrainRecipe found;
  found.name = name;
  std::string_view base = name;
  if (base.ends_with(kTravels)) {
    base.remove_suffix(kTravels.size());
    found.pipeline = MoePipeline::mxfp8;
  }
  std::vector<std::string_view> names;
  for (const LinearRecipe& recipe : kLinearRecipes) names.emplace_back(recipe.name);
  names.emplace_back(kFnuz);
  names.emplace_back(kFlow);
  if (std::find(names.begin(), names.end(), base) == names.end()) {
    throw Error(Fault::argument, unknown_name("recipe", base, names));
  }
  found.linear = linear_recipe_named(base == kFnuz   ? "mxfp8_rceil"
                                     : base == kFlow ? "fp8_blockwise"
                                                     : base);
  if (base == kFnuz) found.format = Dtype::e4m3fnuz;
  if (found.pipeline == MoePipeline::mxfp8 && !found.linear.mx()) {
    throw Error(Fault::argument, "recipe: found '" + std::string(name) +
                                     "', only mxfp8 recipes and e4m3fnuz can travel as mxfp8");
  }
  if (base == kFlow) found.pipeline = MoePipeline::flow;
  if (!found.linear.scaled()) found.pipeline = MoePipeline::bf16;
  return found;
}

}  // namespace mxo::tools

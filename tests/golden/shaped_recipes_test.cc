// A layer in every pipeline, recipe and format of codes, forward and backward.
#include <cstring>

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "formats/error.h"
#include "golden/suites/shapes/slices.h"
#include "ops/catalogue.h"
#include "ops/linear_recipe.h"
#include "tests/golden/ranks.h"

namespace mxo {
namespace {

NamedTensors layer(Backend& backend, const std::string& pipeline, const LinearRecipe& recipe,
                   const std::string& format) {
  Parameters set;
  set.set("pipeline", pipeline);
  set.set("recipe", recipe.name);
  set.set("format", format);
  const ShapedCall call = shaped_call(
      "moe_layer", set,
      parse_dimensions("ranks=2,rows=24,columns=128,features=128,experts=4,top_k=2"), {});
  return call_operator(backend, call.op, Slicer(call).inputs({}), call.set, &ranks());
}

bool same(const NamedTensors& a, const NamedTensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.shape() == y.second.shape() &&
           std::memcmp(x.second.data(), y.second.data(), x.second.bytes()) == 0;
  });
}

/// Why a pipeline cannot have a recipe: rows that travel have one block, which its products read.
std::string refusal(const std::string& pipeline, const LinearRecipe& recipe) {
  if (pipeline == "mxfp8" && !recipe.mx()) return "pipeline mxfp8 needs one of the mxfp8 recipes";
  if (pipeline == "fp8_blockwise" && recipe.tokens != kRowBlock) {
    return "pipeline fp8_blockwise needs fp8_blockwise, vllm or vllm_up";
  }
  return "";
}

TEST(LayerRecipes, RunInEveryFormat) {
  const auto reference = make_reference_backend();
  const auto cpu = make_cpu_backend();
  for (const std::string pipeline : {"mxfp8", "bf16", "quantize_after", "flow", "fp8_blockwise"}) {
    for (const LinearRecipe& recipe : kLinearRecipes) {
      SCOPED_TRACE(pipeline + " " + std::string(recipe.name));
      const std::string says = refusal(pipeline, recipe);
      std::map<std::string, NamedTensors> found;
      for (const std::string format : {"e4m3", "e4m3fnuz"}) {
        try {
          found[format] = layer(*cpu, pipeline, recipe, format);
          EXPECT_EQ(says, "");
          EXPECT_EQ(found[format].size(), 7u);  // y and dx of two ranks, drouter, dw1, dw2
          EXPECT_TRUE(same(found[format], layer(*reference, pipeline, recipe, format))) << format;
        } catch (const Error& error) {
          ASSERT_NE(says, "") << error.what();
          EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
        }
      }
      if (found.size() < 2) continue;
      // vLLM's e4m3fnuz is its e4m3 at half the value under twice the scale: the same numbers.
      const bool others = pipeline == "flow" || (pipeline != "bf16" && recipe.scaled() &&
                                                 !recipe.weight_rule.has_value());
      EXPECT_NE(same(found["e4m3"], found["e4m3fnuz"]), others);
    }
  }
}

}  // namespace
}  // namespace mxo

// Expert layers of public models, as rows of data.
#include "golden/suites/shapes/models.h"

#include <algorithm>

#include "formats/error.h"
#include "formats/nearest_name.h"
#include "ops/linear_recipe.h"

namespace mxo {
namespace {

constexpr ModelShape kModels[] = {
    {"dsv3", "deepseek-ai/DeepSeek-V3", 7168, 2048, 256, 8, 8, "sigmoid"},
    {"llama4", "meta-llama/Llama-4-Scout-17B-16E", 5120, 8192, 16, 1, 16, "sigmoid"},
    {"qwen3", "Qwen/Qwen3-235B-A22B", 4096, 1536, 128, 8, 8, "softmax"},
    {"gpt_oss", "openai/gpt-oss-120b", 2880, 2880, 128, 4, 8, "softmax_of_chosen"},
    {"mixtral", "mistralai/Mixtral-8x7B-v0.1", 4096, 14336, 8, 2, 8, "softmax"},
};

/// In a shape: T tokens, H hidden, F intermediate, 2F both halves, G groups, X experts, S top_k;
/// "A/32" a blocked extent.  Settings "%mode" stands for the recipe's scale mode, "%recipe" for it.
struct LayerRow {
  std::string_view id, op, shape, set;
  std::string_view recipes = "";  ///< a beginning of the recipe's name; empty: all
};
constexpr LayerRow kLayer[] = {
    {"route", "route", "rows=T,experts=X,top_k=S", "score=%score"},
    {"permute", "permute", "rows=T,columns=H", ""},
    {"unpermute", "unpermute", "rows=T,columns=H", ""},
    {"pad_groups", "pad_groups", "rows=T,columns=H,groups=G", ""},
    {"quantize.x", "quantize", "rows=T,columns=H", "block=1x32 scale_mode=%mode", "mxfp8"},
    {"quantize.act", "quantize", "rows=T,columns=F", "block=1x32 scale_mode=%mode", "mxfp8"},
    {"quantize.dh", "quantize", "rows=T,columns=2F", "block=1x32 scale_mode=%mode", "mxfp8"},
    {"quantize.w1", "quantize", "matrices=G,rows=2F,columns=H", "block=1x32 scale_mode=%mode",
     "mxfp8"},
    {"quantize.w2", "quantize", "matrices=G,rows=H,columns=F", "block=1x32 scale_mode=%mode",
     "mxfp8"},
    {"quantize.w1_t", "quantize", "matrices=G,rows=2F,columns=H",
     "block=32x1 transpose=true scale_mode=%mode", "mxfp8"},
    {"quantize.w2_t", "quantize", "matrices=G,rows=H,columns=F",
     "block=32x1 transpose=true scale_mode=%mode", "mxfp8"},
    {"quantize.x_t", "quantize", "rows=T,columns=H,groups=G",
     "block=32x1 transpose=true scale_mode=%mode", "mxfp8"},
    {"quantize.act_t", "quantize", "rows=T,columns=F,groups=G",
     "block=32x1 transpose=true scale_mode=%mode", "mxfp8"},
    {"quantize.dh_t", "quantize", "rows=T,columns=2F,groups=G",
     "block=32x1 transpose=true scale_mode=%mode", "mxfp8"},
    {"dequantize.x", "dequantize", "rows=T,columns=H", "block=1x32", "mxfp8"},
    {"swizzle.x", "swizzle_scales", "rows=T,columns=H/32,groups=G", "layout=m_groups", "mxfp8"},
    {"swizzle.w1", "swizzle_scales", "matrices=G,rows=2F,columns=H/32", "layout=per_group_3d",
     "mxfp8"},
    {"swizzle.x_t", "swizzle_scales", "rows=H,columns=T/32,groups=G", "layout=k_groups", "mxfp8"},
    {"swizzle.dh_t", "swizzle_scales", "rows=2F,columns=T/32,groups=G", "layout=k_groups", "mxfp8"},
    {"quantize.x", "quantize", "rows=T,columns=H", "block=1x128 scale=f32", "fp8_blockwise"},
    {"quantize.w1", "quantize", "matrices=G,rows=2F,columns=H", "block=128x128 scale=f32",
     "fp8_blockwise"},
    {"quantize.x_t", "quantize", "rows=T,columns=H,groups=G",
     "block=128x1 transpose=true scale=f32", "fp8_blockwise"},
    {"scaling_aware_transpose", "scaling_aware_transpose", "rows=T,columns=H,groups=G", "",
     "fp8_blockwise"},
    {"quantize.x", "quantize", "rows=T,columns=H", "block=1xK scale=f32", "fp8_rowwise"},
    {"product.up", "grouped_matmul", "rows=T,features=2F,columns=H,groups=G",
     "format_x=e4m3 format_w=e4m3", "mxfp8"},
    {"product.down", "grouped_matmul", "rows=T,features=H,columns=F,groups=G",
     "format_x=e4m3 format_w=e4m3", "mxfp8"},
    {"product.dx", "grouped_matmul", "rows=T,features=H,columns=2F,groups=G",
     "format_x=e4m3 format_w=e4m3", "mxfp8"},
    {"product.dw1", "grouped_matmul_wgrad", "rows=T,features=2F,columns=H,groups=G",
     "format_dy=e4m3 format_x=e4m3", "mxfp8"},
    {"product.dw2", "grouped_matmul_wgrad", "rows=T,features=H,columns=F,groups=G",
     "format_dy=e4m3 format_x=e4m3", "mxfp8"},
    {"linear1.y", "grouped_linear", "rows=T,features=2F,columns=H,groups=G",
     "recipe=%recipe only=y"},
    {"linear1.dx", "grouped_linear", "rows=T,features=2F,columns=H,groups=G",
     "recipe=%recipe only=dx"},
    {"linear1.dw", "grouped_linear", "rows=T,features=2F,columns=H,groups=G",
     "recipe=%recipe only=dw"},
    {"linear2.y", "grouped_linear", "rows=T,features=H,columns=F,groups=G",
     "recipe=%recipe only=y"},
    {"linear2.dx", "grouped_linear", "rows=T,features=H,columns=F,groups=G",
     "recipe=%recipe only=dx"},
    {"linear2.dw", "grouped_linear", "rows=T,features=H,columns=F,groups=G",
     "recipe=%recipe only=dw"},
    {"swiglu", "swiglu", "rows=T,features=F", "rounding=bf16"},
    {"swiglu_backward", "swiglu_backward", "rows=T,features=F", "rounding=bf16"},
    {"swiglu_quantize", "swiglu_quantize", "rows=T,features=F", "scale_mode=%mode", "mxfp8"},
    {"swiglu_quantize_backward", "swiglu_quantize_backward", "rows=T,features=F",
     "scale_mode=%mode", "mxfp8"},
};

/// Extents by the letters of kLayer.
Index extent_of(std::string_view text, const ModelShape& model, Index tokens, Index groups) {
  Index times = 1;
  if (text.starts_with('2')) {
    times = 2;
    text.remove_prefix(1);
  }
  constexpr Index kBlock = 32;
  const Index block = text.ends_with("/32") ? kBlock : 1;
  const Index extent = text[0] == 'T'   ? tokens
                       : text[0] == 'H' ? model.hidden
                       : text[0] == 'F' ? model.intermediate
                       : text[0] == 'G' ? groups
                       : text[0] == 'X' ? model.experts
                                        : model.top_k;
  return ceil_div(times * extent, block);
}

/// `text` as parts between `separator`s.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t at = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, at));
    text.remove_prefix(std::min(at + 1, text.size()));
  }
  return parts;
}

Parameters settings_of(const LayerRow& row, const ModelShape& model, std::string_view recipe) {
  Parameters set;
  for (const std::string_view setting : split(row.set, ' ')) {
    const std::size_t equals = setting.find('=');
    std::string_view value = setting.substr(equals + 1);
    if (value == "%score") value = model.score;
    if (value == "%recipe") value = recipe;
    if (value == "%mode") value = recipe.find("floor") == recipe.npos ? "rceil" : "floor";
    set.set(setting.substr(0, equals), value);
  }
  return set;
}

}  // namespace

std::span<const ModelShape> models() { return kModels; }

const ModelShape& model_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ModelShape& model : kModels) {
    if (model.name == name) return model;
    names.push_back(model.name);
  }
  throw Error(Fault::argument, unknown_name("model", name, names));
}

std::vector<ShapeRequest> layer_requests(const ModelShape& model, Index tokens, Index groups,
                                         std::string_view recipe, const ShapeOptions& options) {
  std::vector<std::string_view> names;
  for (const LinearRecipe& known : kLinearRecipes) names.push_back(known.name);
  if (std::find(names.begin(), names.end(), recipe) == names.end()) {
    throw Error(Fault::argument, unknown_name("recipe", recipe, names));
  }
  std::vector<ShapeRequest> requests;
  for (const LayerRow& row : kLayer) {
    if (!recipe.starts_with(row.recipes)) continue;
    ShapeRequest request{std::string(model.name) + "." + std::string(row.id),
                         std::string(row.op),
                         settings_of(row, model, recipe),
                         {},
                         options};
    std::string shape;
    for (const std::string_view part : split(row.shape, ',')) {
      const std::size_t equals = part.find('=');
      shape += (shape.empty() ? "" : ",") + std::string(part.substr(0, equals + 1)) +
               std::to_string(extent_of(part.substr(equals + 1), model, tokens, groups));
    }
    request.dimensions = parse_dimensions(shape);
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace mxo

// The operators of an expert layer, as rows of data.
#include "golden/suites/shapes/layer_requests.h"

#include <algorithm>
#include <charconv>

#include "formats/error.h"
#include "ops/catalogue.h"
#include "ops/linear_recipe.h"

namespace mxo {
namespace {

/// In a shape: T rows of this rank's experts, H hidden, F intermediate, 2F both halves, G groups, X
/// experts, S top_k, P ranks that exchange rows, R tokens of each, whose rows are T on average, C
/// experts of a token among G, Q ranks that share G; "A/32" a part, rounded up.  Settings "%mode"
/// stands for the recipe's scale mode, "%recipe" for it, "%format" for its codes, "%wire" for what
/// rows travel as, "%pipeline" for how a layer does.
struct LayerRow {
  std::string_view id, op, shape, set;
  std::string_view recipes = "";  ///< a beginning of the recipe's name; empty: all
};
constexpr LayerRow kLayer[] = {
    {"route", "route", "rows=T,experts=X,top_k=S", "score=%score"},
    {"permute", "permute", "rows=T,columns=H", ""},
    {"unpermute", "unpermute", "rows=T,columns=H", ""},
    {"permute_indices", "permute_indices", "rows=T,groups=G,ranks=P", ""},
    {"pad_groups", "pad_groups", "rows=T,columns=H,groups=G", ""},
    {"unpad_groups", "unpad_groups", "rows=T,columns=H,groups=G", ""},
    {"dispatch", "dispatch", "ranks=P,rows=R,columns=H,experts=X,top_k=S",
     "precision=%wire layout=expert_major_padded"},
    {"dispatch_backward", "dispatch_backward", "ranks=P,rows=R,columns=H,experts=X,top_k=S",
     "layout=expert_major_padded"},
    {"combine", "combine", "ranks=P,rows=R,columns=H,experts=X,top_k=S",
     "layout=expert_major_padded"},
    // Gradients of weights are sums over whole rows, so that it is not cut: an eighth of them.
    {"combine_backward", "combine_backward", "ranks=P,rows=R/8,columns=H,experts=X,top_k=S",
     "precision=%wire layout=expert_major_padded"},
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
     "format_x=%format format_w=%format", "mxfp8"},
    {"product.down", "grouped_matmul", "rows=T,features=H,columns=F,groups=G",
     "format_x=%format format_w=%format", "mxfp8"},
    {"product.dx", "grouped_matmul", "rows=T,features=H,columns=2F,groups=G",
     "format_x=%format format_w=%format", "mxfp8"},
    {"product.dw1", "grouped_matmul_wgrad", "rows=T,features=2F,columns=H,groups=G",
     "format_dy=%format format_x=%format", "mxfp8"},
    {"product.dw2", "grouped_matmul_wgrad", "rows=T,features=H,columns=F,groups=G",
     "format_dy=%format format_x=%format", "mxfp8"},
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
    // Not cut, since a gradient is a sum over all tokens: a sixteenth of them, in all.
    {"moe_layer", "moe_layer", "ranks=Q,rows=T/32,columns=H,features=F,experts=G,top_k=C",
     "score=%score pipeline=%pipeline recipe=%recipe"},
};

/// What operators take where no format is set.
constexpr std::string_view kUsualFormat = "e4m3";

/// Extents by the letters of kLayer.
Index extent_of(std::string_view text, const Model& model, Index tokens, Index groups) {
  Index times = 1;
  if (text.starts_with('2')) {
    times = 2;
    text.remove_prefix(1);
  }
  constexpr Index kRanks = 2;
  const std::size_t slash = text.find('/');
  Index part = 1;
  if (slash != text.npos) {
    std::from_chars(text.data() + slash + 1, text.data() + text.size(), part);
  }
  const Index extent = [&] {
    switch (text[0]) {
      case 'T': return tokens;
      case 'H': return model.hidden;
      case 'F': return model.intermediate;
      case 'G': return groups;
      case 'X': return model.experts;
      case 'P': return kRanks;
      case 'Q': return groups % kRanks == 0 ? kRanks : 1;
      case 'R': return ceil_div(tokens, model.top_k);
      case 'C': return ceil_div(model.top_k * groups, model.experts);
      default: return model.top_k;
    }
  }();
  return ceil_div(times * extent, part);
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

/// What rows travel as, by a parameter of dispatch.
std::string_view wire_of(std::string_view recipe) {
  if (recipe.starts_with("mxfp8")) return "mxfp8";
  return recipe == "fp8_blockwise" ? "fp8_blockwise" : "bf16";
}

std::string_view pipeline_of(std::string_view recipe) {
  if (recipe.starts_with("vllm")) return "fp8_blockwise";
  return recipe == "fp8_rowwise" ? "quantize_after" : recipe == "bf16" ? "bf16" : wire_of(recipe);
}

Parameters settings_of(const LayerRow& row, const Model& model, std::string_view recipe,
                       std::string_view format) {
  Parameters set;
  for (const ParameterSpec& spec : catalogue_entry(row.op).parameters) {
    if (spec.key == "format" && format != kUsualFormat) set.set("format", format);
  }
  for (const std::string_view setting : split(row.set, ' ')) {
    const std::size_t equals = setting.find('=');
    std::string_view value = setting.substr(equals + 1);
    if (value == "%score") value = model.score;
    if (value == "%recipe") value = recipe;
    if (value == "%format") value = format;
    if (value == "%wire") value = wire_of(recipe);
    if (value == "%pipeline") value = pipeline_of(recipe);
    if (value == "%mode") value = recipe.find("floor") == recipe.npos ? "rceil" : "floor";
    set.set(setting.substr(0, equals), value);
  }
  return set;
}

}  // namespace

std::vector<ShapeRequest> layer_requests(const Model& model, Index tokens, Index groups,
                                         std::string_view recipe, std::string_view format,
                                         const ShapeOptions& options) {
  const LinearRecipe& row_of = linear_recipe_named(recipe);
  recipe = row_of.name;
  Parameters asked;
  asked.set("format", format);
  asked.check("grouped_linear", catalogue_entry("grouped_linear").parameters);
  if (row_of.mx() && tokens % kMxBlock != 0) {
    throw Error(Fault::argument, "tokens: found " + std::to_string(tokens) +
                                     ", needs a multiple of 32, the blocks that " +
                                     std::string(recipe) + " has along them");
  }
  std::vector<ShapeRequest> requests;
  for (const LayerRow& row : kLayer) {
    if (!recipe.starts_with(row.recipes)) continue;
    ShapeRequest request{std::string(model.name) + "." + std::string(row.id),
                         std::string(row.op),
                         settings_of(row, model, recipe, format),
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

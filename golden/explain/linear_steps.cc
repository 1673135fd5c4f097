// A linear layer of experts as casts and products.
#include <cstring>

#include "formats/error.h"
#include "golden/explain/steps.h"

namespace mxo {
namespace {

/// Blocks as --set block has them.
std::string name_of_block(const BlockExtents& block, bool down) {
  const auto extent = [](Index n, const char* whole) {
    return n == kWhole ? std::string(whole) : std::to_string(n);
  };
  const std::string rows = extent(block.rows, down ? "K" : "R");
  const std::string columns = extent(block.columns, down ? "R" : "K");
  return down ? columns + "x" + rows : rows + "x" + columns;
}

/// The row of a recipe's rule for f32 scales, and how it raises them, as --set has them.
void name_rule(Call& quantize, const F32ScaleRule& rule, const BlockExtents& block) {
  const auto of_other_power = [&](const ScaleRuleRow& row) {
    F32ScaleRule same = row.rule.f32;
    same.power_of_2 = rule.power_of_2;
    return same == rule;
  };
  for (const ScaleRuleRow& row : kScaleRules) {
    const bool has_block = row.blocks.find(name_of(block)) != std::string_view::npos;
    if (row.scale != ScaleType::f32 || !(has_block || row.blocks.empty())) continue;
    if (!of_other_power(row)) continue;
    quantize.set.set("rule", std::string(row.name));
    if (rule.power_of_2 == row.rule.f32.power_of_2) return;
    quantize.set.set("power_of_2", rule.power_of_2 == PowerOfTwo::none   ? "none"
                                   : rule.power_of_2 == PowerOfTwo::down ? "down"
                                                                         : "up");
    return;
  }
}

/// Adds operand `name` to a product: cast by the recipe, blocks along the last axis or down.
void put(Backend& backend, Call& product, const std::string& name, Tensor x, const Call& linear,
         const LinearRecipe& recipe, LinearSide side, bool down) {
  if (!recipe.scaled()) {
    if (x.dtype() == Dtype::f32) {
      Call cast{"cast", {}, {}, nullptr};
      cast.replace("x", std::move(x));
      NamedTensors made = run_call(backend, cast);
      x = std::move(made.begin()->second);
    }
    product.replace(name, std::move(x));
    return;
  }
  Call quantize = cast_call(recipe, side, down);
  quantize.set.set("format", std::string(linear.set.text("format", "e4m3")));
  if (down && !recipe.mx()) quantize.replace("group_ends", linear.input("group_ends"));
  quantize.replace("x", std::move(x));
  NamedTensors made = run_call(backend, quantize);
  product.replace(name + ".codes", std::move(made.at("codes")));
  product.replace(name + ".scales", std::move(made.at("scales")));
}

Call product_call(const Call& linear, const char* op, bool wgrad) {
  Call product{op, {}, {}, linear.world};
  product.replace("group_ends", linear.input("group_ends"));
  product.set.set("out", std::string(linear.set.text("out", "bf16")));
  if (linear.set.has("format")) {
    const std::string format(linear.set.text("format", "e4m3"));
    product.set.set("format_x", format);
    product.set.set(wgrad ? "format_dy" : "format_w", format);
  }
  for (const auto& [key, value] : linear.set.all()) {
    if (key == "sum" || key.starts_with("sum.")) product.set.set(key, value);
  }
  return product;
}

/// y = q(rows) q(weights)^T.
Call forward(Backend& backend, const Call& linear, const LinearRecipe& recipe, Tensor rows,
             Tensor weights) {
  Call product = product_call(linear, "grouped_matmul", false);
  put(backend, product, "x", std::move(rows), linear, recipe, LinearSide::tokens, false);
  put(backend, product, "w", std::move(weights), linear, recipe, LinearSide::weight, false);
  return product;
}

}  // namespace

Call cast_call(const LinearRecipe& recipe, LinearSide side, bool down) {
  const bool weight = side == LinearSide::weight;
  const BlockExtents& block = weight ? recipe.weight : recipe.tokens;
  Call quantize{"quantize", {}, {}, nullptr};
  quantize.set.set("block", name_of_block(block, down));
  if (!recipe.mx()) {
    name_rule(quantize, weight ? recipe.rule_of_weight().f32 : recipe.rule.f32, block);
  } else {
    const bool floor = recipe.name.find("floor") != std::string_view::npos;
    quantize.set.set("scale_mode", floor ? "floor" : "rceil");
  }
  return quantize;
}

Tensor transposed(const Tensor& tensor) {
  std::vector<Index> shape = tensor.shape();
  const Index columns = shape.back();
  const Index rows = shape[shape.size() - 2];
  std::swap(shape.back(), shape[shape.size() - 2]);
  Tensor out(tensor.dtype(), shape);
  const std::size_t size = size_of(tensor.dtype());
  for (Index i = 0; i < tensor.elements(); ++i) {
    const Index within = i % (rows * columns);
    const Index to = i - within + within % columns * rows + within / columns;
    std::memcpy(out.data() + static_cast<std::size_t>(to) * size,
                tensor.data() + static_cast<std::size_t>(i) * size, size);
  }
  return out;
}

std::vector<StepCall> linear_steps(Backend& backend, const Call& call, const std::string& name) {
  const LinearRecipe& recipe = linear_recipe_named(call.set.text("recipe", "mxfp8_rceil"));
  const auto one = [&](Call made, const char* inner) {
    return std::vector<StepCall>{{std::move(made), {{name, inner}}}};
  };
  if (name == "y" && !call.has("bias")) {
    if (call.has("x.codes")) {
      Call product = product_call(call, "grouped_matmul", false);
      product.replace("x.codes", call.input("x.codes"));
      product.replace("x.scales", call.input("x.scales"));
      put(backend, product, "w", call.input("w"), call, recipe, LinearSide::weight, false);
      return one(std::move(product), "y");
    }
    return one(forward(backend, call, recipe, call.input("x"), call.input("w")), "y");
  }
  if (name == "dx" && call.has("dy")) {
    return one(forward(backend, call, recipe, call.input("dy"), transposed(call.input("w"))), "y");
  }
  if (name == "dw" && call.has("dy") && call.has("x") && !call.set.flag("pad", false)) {
    LinearRecipe of_tokens = recipe;
    if (recipe.wgrad == WgradPrecision::high) of_tokens.scale = Dtype::bf16;
    Call product = product_call(call, "grouped_matmul_wgrad", true);
    for (const char* side : {"dy", "x"}) {
      put(backend, product, side, call.input(side), call, of_tokens, LinearSide::tokens, true);
    }
    return one(std::move(product), "dw");
  }
  if (name == "dbias" && call.has("dy")) {
    Call sum{"column_sum", {}, {}, nullptr};
    sum.set.set("out", std::string(call.set.text("out", "bf16")));
    sum.replace("x", call.input("dy"));
    sum.replace("group_ends", call.input("group_ends"));
    sum.set.set("over", call.input("bias").rank() == 2 ? "groups" : "rows");
    return one(std::move(sum), "sum");
  }
  return {};
}

std::vector<StepAlternative> step_alternatives(Backend& backend, const Call& call,
                                               const std::string& name) {
  std::vector<StepAlternative> list;
  if (call.op != "grouped_linear") return list;
  const std::string now(call.set.text("recipe", "mxfp8_rceil"));
  for (const LinearRecipe& recipe : kLinearRecipes) {
    const std::string other(recipe.name);
    if (other == now) continue;
    Call altered = call;
    altered.set.set("recipe", other);
    try {
      for (StepCall& step : linear_steps(backend, altered, name)) {
        list.push_back({"recipe=" + other,
                        "operands are cast as recipe " + other + " rather than " + now,
                        std::move(step)});
      }
    } catch (const Error&) {
      continue;  // a recipe that does not take these operands
    }
  }
  return list;
}

std::vector<StepCall> step_calls(Backend& backend, const Call& call, const NamedTensors& expected,
                                 const std::string& name) {
  if (call.op == "grouped_linear") return linear_steps(backend, call, name);
  if (call.op.starts_with("swiglu_quantize") && name != "dprobs") {
    return fused_quantiser_steps(backend, call);
  }
  if (call.op == "moe_layer") return layer_steps(backend, call, expected, name);
  return {};
}

}  // namespace mxo

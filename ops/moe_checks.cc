// What a layer of experts and its gradients refuse, before any step.
#include "ops/moe_checks.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ops/checked.h"
#include "ops/moe_steps.h"
#include "ops/swiglu.h"

namespace mxo {
namespace {

void check_halves(const Check& check, const MoeLayer& op, std::string_view name,
                  std::string_view axis, Index rows) {
  if (halves_of(op.gate) == 2) check.multiple(name, axis, rows, 2);
}

/// `written` shares no byte with an operand of the call: backward reads them all again.
void check_apart(const Check& check, std::string_view name, const Result& written,
                 const MoeLayer& op) {
  const std::pair<std::string_view, const Operand&> operands[] = {{"x", op.x},
                                                                  {"router", op.router},
                                                                  {"router.bias", op.router_bias},
                                                                  {"logits.bias", op.logits_bias},
                                                                  {"w1", op.w1},
                                                                  {"w2", op.w2},
                                                                  {"w1.bias", op.w1_bias},
                                                                  {"w2.bias", op.w2_bias},
                                                                  {"shared.w1", op.shared_w1},
                                                                  {"shared.w2", op.shared_w2}};
  for (const auto& [other, operand] : operands) {
    if (operand.given()) check.apart(name, written, other, operand);
  }
}

void check_biases(const Check& check, const MoeLayer& call, const MoeLayerBackward& op) {
  const bool biased = call.w1_bias.given() || call.w2_bias.given();
  const bool casts = call.pipeline == MoePipeline::quantize_after &&
                     call.recipe.wgrad == WgradPrecision::quantized && call.recipe.scaled();
  if (biased && casts) {
    check.fail(Fault::argument, "recipe: found " + std::string(call.recipe.name) +
                                    ", gradients with w1.bias or w2.bias need one whose weight "
                                    "gradients are in high precision");
  }
  const std::pair<const char*, std::pair<const Result&, const Operand&>> sums[] = {
      {"w1.dbias", {op.dw1_bias, call.w1_bias}},
      {"w2.dbias", {op.dw2_bias, call.w2_bias}},
      {"logits.dbias", {op.dlogits_bias, call.logits_bias}}};
  for (const auto& [name, pair] : sums) {
    const auto& [sum, bias] = pair;
    if (!sum.given()) continue;
    check.that(bias.given(), std::string(name) + ": needs a call with the bias");
    check.dtype(name, sum, {Dtype::bf16, Dtype::f32});
    check.shape(name, sum, std::vector<Index>(bias.extent, bias.extent + bias.rank));
  }
}

/// All of it before the first step writes: steps read dy and the operands to the last.
void check_results(const Check& check, const MoeLayer& call, const MoeLayerBackward& op) {
  struct Gradient {
    std::string_view name;
    const Result& of;
    std::string_view weight_name;
    const Operand& weight;
  };
  const Gradient gradients[] = {{"dw1", op.dw1, "w1", call.w1},
                                {"dw2", op.dw2, "w2", call.w2},
                                {"shared.dw1", op.dshared_w1, "shared.w1", call.shared_w1},
                                {"shared.dw2", op.dshared_w2, "shared.w2", call.shared_w2}};
  for (const auto& [name, of, weight_name, weight] : gradients) {
    if (!of.given()) continue;
    check.that(weight.given(),
               std::string(name) + ": needs a call with " + std::string(weight_name));
    check.dtype(name, of, {Dtype::bf16, Dtype::f32});
    check.shape(name, of, std::vector<Index>(weight.extent, weight.extent + weight.rank));
  }
  const std::pair<std::string_view, const Result&> all[] = {{"dx", op.dx},
                                                            {"drouter", op.drouter},
                                                            {"logits.dbias", op.dlogits_bias},
                                                            {"dw1", op.dw1},
                                                            {"dw2", op.dw2},
                                                            {"w1.dbias", op.dw1_bias},
                                                            {"w2.dbias", op.dw2_bias},
                                                            {"shared.dw1", op.dshared_w1},
                                                            {"shared.dw2", op.dshared_w2}};
  for (const auto& [name, result] : all) {
    if (!result.given()) continue;
    check_apart(check, name, result, call);
    check.apart(name, result, "dy", op.dy);
    for (const auto& [other, also] : all) {
      if (other == name) break;
      if (also.given()) check.apart(name, result, other, also);
    }
  }
}

}  // namespace

void check_call(const MoeLayer& op, int ranks) {
  const Check check("moe_layer");
  check.rank("x", op.x, 2);
  check.dtype("x", op.x, {Dtype::bf16});
  check.that(op.x.contiguous(), "x: needs contiguous rows");
  check.dtype("router", op.router, {Dtype::bf16});
  check.shape("router", op.router, {op.experts, op.x.extent[1]});
  if (op.logits_bias.given()) {
    check.dtype("logits.bias", op.logits_bias, {Dtype::bf16, Dtype::f32});
    check.shape("logits.bias", op.logits_bias, {op.experts});
  }
  check.rank("w1", op.w1, 3);
  check.rank("w2", op.w2, 3);
  check.dtype("w1", op.w1, {Dtype::bf16, Dtype::f32});
  check.dtype("w2", op.w2, {Dtype::bf16, Dtype::f32});
  check_gate(check, op.gate);
  check_halves(check, op, "w1", "the number of rows, 2F,", op.w1.extent[1]);
  const Index local = op.experts / std::max(ranks, 1);
  check.shape("w1", op.w1, {local, op.w1.extent[1], op.x.extent[1]});
  check.shape("w2", op.w2, {local, op.x.extent[1], features_of(op, op.w1)});
  const std::pair<const char*, std::pair<const Operand&, const Operand&>> biases[] = {
      {"w1.bias", {op.w1_bias, op.w1}}, {"w2.bias", {op.w2_bias, op.w2}}};
  for (const auto& [name, pair] : biases) {
    const auto& [bias, w] = pair;
    if (!bias.given()) continue;
    check.dtype(name, bias, {Dtype::bf16, Dtype::f32});
    check.shape(name, bias, {local, w.extent[1]});
    if (op.pipeline == MoePipeline::flow) {
      check.fail(Fault::argument, std::string(name) + ": found with pipeline flow, which has none");
    }
  }
  check.that(op.shared_w1.given() == op.shared_w2.given(),
             "shared.w2: needs to be given exactly when shared.w1 is");
  if (op.shared_w1.given()) {
    check.rank("shared.w1", op.shared_w1, 2);
    check.dtype("shared.w1", op.shared_w1, {Dtype::bf16, Dtype::f32});
    check.dtype("shared.w2", op.shared_w2, {Dtype::bf16, Dtype::f32});
    check_halves(check, op, "shared.w1", "the number of rows, 2S,", op.shared_w1.extent[0]);
    check.shape("shared.w1", op.shared_w1, {op.shared_w1.extent[0], op.x.extent[1]});
    check.shape("shared.w2", op.shared_w2, {op.x.extent[1], features_of(op, op.shared_w1)});
  }
  check.dtype("y", op.y, {Dtype::bf16});
  check.shape("y", op.y, {op.x.extent[0], op.x.extent[1]});
  check_apart(check, "y", op.y, op);
  const auto refuse_recipe = [&](const char* needs) {
    throw Error(Fault::argument,
                "moe_layer: recipe: found " + std::string(op.recipe.name) + ", " + needs);
  };
  if (op.pipeline == MoePipeline::mxfp8 && !op.recipe.mx()) {
    refuse_recipe("pipeline mxfp8 needs one of the mxfp8 recipes");
  }
  if (op.pipeline == MoePipeline::fp8_blockwise && op.recipe.tokens != kRowBlock) {
    refuse_recipe("pipeline fp8_blockwise needs fp8_blockwise, vllm or vllm_up");
  }
  if (op.pipeline == MoePipeline::flow && weighs_product(op)) {
    check.fail(Fault::argument,
               "scores: found those of a product, pipeline flow has combine, swiglu and input");
  }
  if (op.alignment < 1) {
    throw Error(Fault::argument, "moe_layer: alignment: found " + std::to_string(op.alignment) +
                                     ", needs a positive number");
  }
  if (op.pipeline == MoePipeline::flow && op.format != Dtype::e4m3 &&
      op.format != Dtype::e4m3fnuz) {
    check.fail(Fault::argument, "format: found " + std::string(name_of(op.format)) +
                                    ", pipeline flow needs e4m3 or e4m3fnuz");
  }
  if (op.top_k < 1 || op.top_k > op.experts) {
    throw Error(Fault::argument, "moe_layer: top_k: found " + std::to_string(op.top_k) +
                                     ", needs 1 to " + std::to_string(op.experts));
  }
}

void check_gradients(const MoeLayer& call, const MoeLayerBackward& op) {
  const Check check("moe_layer");
  check_gradients_gate(check, call.gate);
  if (weighs_product(call)) {
    check.fail(Fault::argument,
               "scores: found those of a product, gradients need combine, swiglu, input or "
               "input_bf16");
  }
  check_biases(check, call, op);
  check.rank("dy", op.dy, 2);
  check.dtype("dy", op.dy, {Dtype::bf16});
  check.shape("dy", op.dy, {call.x.extent[0], call.x.extent[1]});
  check.that(op.dy.contiguous(), "dy: needs contiguous rows");
  check.rank("dx", op.dx, 2);
  check.dtype("dx", op.dx, {Dtype::bf16});
  check.shape("dx", op.dx, {call.x.extent[0], call.x.extent[1]});
  if (op.drouter.given()) {
    check.dtype("drouter", op.drouter, {Dtype::f32});
    check.shape("drouter", op.drouter, {call.experts, call.x.extent[1]});
  }
  check_results(check, call, op);
}

}  // namespace mxo

// The forward pass of a mixture-of-experts layer.
#include "ops/moe_layer.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/grouped_matmul.h"
#include "ops/linear_factor.h"
#include "ops/moe_checks.h"
#include "ops/moe_flow.h"
#include "ops/moe_steps.h"
#include "ops/permute.h"

namespace mxo {
namespace {

void see(const MoeLayer& op, std::string_view stage, const Operand& tensor) {
  if (op.observe) op.observe(stage, tensor);
}

/// A bias is added to sums in f32, so that bf16 logits are rounded once more, at the end.
BackendTensor logits_of(Backend& backend, const MoeLayer& op) {
  const Index tokens = op.x.extent[0];
  BackendTensor logits(backend, op.router_logits, {tokens, op.experts});
  BackendTensor sums;
  if (op.logits_bias.given()) sums = BackendTensor(backend, Dtype::f32, {tokens, op.experts});
  const BackendTensor ends = one_group(backend, tokens);
  grouped_matmul(backend, {unscaled(op.x), unscaled(as_one_group(op.router)), ends.operand(),
                           kExact, sums.given() ? sums.result() : logits.result()});
  if (sums.given()) add_bias(backend, {sums.operand(), op.logits_bias, {}, logits.result()});
  return logits;
}

void route_tokens(Backend& backend, SavedMoeLayer& saved) {
  const MoeLayer& op = saved.call;
  const Index tokens = op.x.extent[0];
  saved.logits = logits_of(backend, op);
  see(op, "logits", saved.logits.operand());
  saved.chosen = BackendTensor(backend, Dtype::i32, {tokens, op.top_k});
  saved.weights = BackendTensor(backend, Dtype::f32, {tokens, op.top_k});
  BackendTensor counts(backend, Dtype::i32, {op.experts});
  route(backend, {saved.logits.operand(), op.router_bias, saved.chosen.result(),
                  saved.weights.result(), counts.result(), op.score, op.groups, op.limited_groups,
                  op.normalize, op.scale, op.group_score, op.other_groups});
  see(op, "experts", saved.chosen.operand());
  see(op, "weights", saved.weights.operand());
}

void see_scaled(const MoeLayer& op, const std::string& stage, const OwnedScaledTensor& tensor) {
  see(op, stage + ".codes", tensor.codes());
  see(op, stage + ".scales", tensor.scales());
}

/// Codes of rows before they travel, as the recipe casts tokens.
OwnedScaledTensor quantized(Backend& backend, const SavedMoeLayer& saved, const Operand& rows) {
  OwnedScaledTensor codes =
      scaled_along_columns(backend, saved.recipe, saved.call.format, rows, LinearSide::tokens);
  see_scaled(saved.call, "quantized", codes);
  return codes;
}

/// The weights that multiply x, as they do.
BackendTensor input_weights(Backend& backend, const SavedMoeLayer& saved) {
  const Operand weights = saved.weights.operand();
  BackendTensor rounded(backend, Dtype::bf16, {weights.extent[0], weights.extent[1]});
  BackendTensor used(backend, Dtype::f32, {weights.extent[0], weights.extent[1]});
  const bool rounds = saved.call.scores == MoeScores::input_bf16;
  if (rounds) cast(backend, {weights, rounded.result()});
  cast(backend, {rounds ? rounded.operand() : weights, used.result()});
  return used;
}

/// The rows of the experts: u.
OwnedScaledTensor dispatched(Backend& backend, Communicator& communicator,
                             const SavedMoeLayer& saved) {
  const MoeLayer& op = saved.call;
  const bool weighs = saved.input_weights.given();
  const Operand weights = weighs ? saved.input_weights.operand() : Operand{};
  const Wire wire = wire_of(op, saved.recipe);
  if (op.pipeline != MoePipeline::fp8_blockwise) {
    return dispatch(backend, communicator, saved.plan, unscaled(op.x), wire, weights);
  }
  if (!weighs) {
    const OwnedScaledTensor x = quantized(backend, saved, op.x);
    return dispatch(backend, communicator, saved.plan, x.view(), wire);
  }
  const BackendTensor rows = weighed_rows(backend, saved.plan, op.x, weights);
  const OwnedScaledTensor sent = quantized(backend, saved, rows.operand());
  return dispatch_sent(backend, communicator, saved.plan, sent.view(), op.placement);
}

/// The weight of every row, at the expert.
void send_weights(Backend& backend, Communicator& communicator, SavedMoeLayer& saved) {
  const Index sent = saved.plan.order.elements();
  Operand flat = saved.weights.operand();
  flat.extent[0] = sent;
  flat.extent[1] = flat.stride[0] = 1;
  Operand slots = saved.plan.slots.operand();
  slots.rank = 1;
  slots.extent[0] = sent;
  slots.stride[0] = 1;
  BackendTensor in_order(backend, Dtype::f32, {sent, 1});
  unpermute(backend, {flat, slots, in_order.result()});
  saved.row_weights =
      dispatch_sent(backend, communicator, saved.plan, in_order.operand(), saved.call.placement);
}

/// Rows as they came, rank by rank, and as the experts see them.
void see_rows(Backend& backend, const MoeLayer& op, const ExpertPlan& plan, const ScaledTensor& u) {
  if (!op.observe) return;
  const std::pair<std::string, Operand> parts[] = {{u.scaled() ? ".codes" : "", u.codes},
                                                   {".scales", u.scales}};
  for (const auto& [ending, rows] : parts) {
    if (!rows.given()) continue;
    BackendTensor received(backend, rows.dtype, {plan.received, rows.extent[1]});
    permute(backend, {rows, plan.place.operand(), received.result()});
    see(op, "dispatched" + ending, received.operand());
    see(op, "permuted" + ending, rows);
  }
}

/// Both products, and h and act between them, which are kept.
void run_experts(Backend& backend, SavedMoeLayer& saved, const Result& out) {
  const MoeLayer& op = saved.call;
  if (op.pipeline == MoePipeline::flow) {
    flow_activate(backend, saved, saved.h, saved.act_codes);
    see(op, "h", saved.h.operand());
    see_scaled(op, "act", saved.act_codes);
    flow_second(backend, saved, saved.act_codes, out);
    return;
  }
  activate(backend, saved, saved.h, saved.act);
  see(op, "h", saved.h.operand());
  see(op, "act", saved.act.operand());
  GroupedLinear second = second_product(saved, saved.act.operand());
  OwnedScaledTensor codes;
  if (op.pipeline == MoePipeline::fp8_blockwise) {
    codes = scaled_along_columns(backend, saved.recipe, op.format, second.x, LinearSide::tokens);
    see_scaled(op, "act", codes);
    second.x = {};
    second.x_codes = codes.codes();
    second.x_scales = codes.scales();
  }
  run_product(backend, saved, second, MoeScores::second_product, out);
  if (weighs_bias(op)) add_weighted_bias(backend, saved, out);
}

}  // namespace

SavedMoeLayer moe_layer(Backend& backend, Communicator& communicator, const MoeLayer& op) {
  check_call(op, communicator.size());
  SavedMoeLayer saved;
  saved.call = op;
  saved.recipe = moe_recipe(op);
  const Index tokens = op.x.extent[0];
  const Index width = op.x.extent[1];

  route_tokens(backend, saved);
  saved.plan = plan_experts(backend, communicator, saved.chosen.operand(), op.experts,
                            std::max(op.alignment, saved.recipe.alignment),
                            DispatchLayout::expert_major_padded);
  const bool at_input = op.scores == MoeScores::input || op.scores == MoeScores::input_bf16;
  if (at_input) saved.input_weights = input_weights(backend, saved);
  saved.u = dispatched(backend, communicator, saved);
  see_rows(backend, op, saved.plan, saved.u.view());
  if (op.scores == MoeScores::swiglu || weighs_product(op)) {
    send_weights(backend, communicator, saved);
  }

  BackendTensor out = expert_rows(backend, saved.plan, width);
  run_experts(backend, saved, out.result());
  see(op, "expert_out", out.operand());

  const bool shared = op.shared_w1.given();
  BackendTensor stacked(backend, Dtype::bf16, {shared ? 2 * tokens : 0, width});
  const Result combined = shared ? rows_of(stacked.result(), 0, tokens) : op.y;
  const bool weighs = op.scores == MoeScores::combine;
  saved.returned =
      combine(backend, communicator, saved.plan, out.operand(),
              weighs ? saved.weights.operand() : Operand{}, combined, op.combine_steps);
  see(op, "combined", to_read(combined));
  if (shared) {
    SharedExpert expert = open_shared(backend, op, saved.recipe, op.x);
    expert.second.y = rows_of(stacked.result(), tokens, tokens);
    grouped_linear(backend, expert.second);
    add_matrices(backend, stacked.operand(), 2, op.y);
  }
  if (op.recompute) {
    saved.h = BackendTensor();
    saved.act = BackendTensor();
    saved.act_codes = OwnedScaledTensor();
  }
  return saved;
}

}  // namespace mxo

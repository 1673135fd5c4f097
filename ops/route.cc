// Checks of route.
#include "ops/route.h"

#include <cmath>
#include <limits>

#include "ops/checked.h"

namespace mxo {

RouterScore router_score_named(std::string_view name) {
  if (name == "sigmoid") return RouterScore::sigmoid;
  if (name == "sqrtsoftplus") return RouterScore::sqrtsoftplus;
  return name == "softmax_of_chosen" ? RouterScore::softmax_of_chosen : RouterScore::softmax;
}

void route(Backend& backend, const Route& op) {
  const Check check("route");
  check.rank("logits", op.logits, 2);
  check.dtype("logits", op.logits, {Dtype::f32, Dtype::bf16, Dtype::f16});
  const Index tokens = op.logits.extent[0];
  const Index experts = op.logits.extent[1];
  if (op.bias.given()) {
    check.dtype("bias", op.bias, {Dtype::f32});
    check.shape("bias", op.bias, {experts});
  }
  check.rank("experts", op.experts, 2);
  const Index k = op.experts.extent[1];
  const auto in_range = [](std::string_view what, Index found, Index least, Index most) {
    if (found < least || found > most) {
      throw Error(Fault::argument, "route: " + std::string(what) + ": found " +
                                       std::to_string(found) + ", needs " + std::to_string(least) +
                                       " to " + std::to_string(most));
    }
  };
  in_range("experts", experts, 1, std::numeric_limits<std::int32_t>::max());
  in_range("groups", op.groups, 1, experts);
  check.multiple("groups", "the number of experts", experts, op.groups);
  in_range("limited_groups", op.limited_groups, 1, op.groups);
  const bool all = op.other_groups == OtherGroups::zero;
  in_range("top_k", k, 1, all ? experts : experts / op.groups * op.limited_groups);
  if (!std::isfinite(op.scale)) {
    throw Error(Fault::argument, "route: scale: found no finite number, needs one");
  }
  check.dtype("experts", op.experts, {Dtype::i32});
  check.dtype("weights", op.weights, {Dtype::f32});
  check.dtype("tokens_per_expert", op.tokens_per_expert, {Dtype::i32});
  check.shape("experts", op.experts, {tokens, k});
  check.shape("weights", op.weights, {tokens, k});
  check.shape("tokens_per_expert", op.tokens_per_expert, {experts});
  const std::pair<std::string_view, Result> results[] = {
      {"experts", op.experts},
      {"weights", op.weights},
      {"tokens_per_expert", op.tokens_per_expert}};
  for (const auto& [name, result] : results) {
    check.apart(name, result, "logits", op.logits);
    check.apart(name, result, "bias", op.bias);
  }
  check.apart("experts", op.experts, "weights", op.weights);
  check.apart("tokens_per_expert", op.tokens_per_expert, "experts", op.experts);
  check.apart("tokens_per_expert", op.tokens_per_expert, "weights", op.weights);
  Checked::run(backend, op);
}

}  // namespace mxo

// Which experts a token goes to, and with what weight.
#pragma once

#include "formats/any_view.h"

namespace mxo {

class Backend;

enum class RouterScore : std::uint8_t { softmax, sigmoid };

/// For every token t, all in f32, sums ascending from +0:
///   s[e] = exp(x[e] - max x) / sum over e of exp(x[e] - max x)   (softmax)
///   s[e] = sigma(x[e])                                           (sigmoid)
///   choice[e] = s[e] + bias[e]                                   (bias decides, never weighs)
/// With `groups` > 1 experts fall into equal runs; a run scores the sum of its two largest
/// choices (of its one, in a run of one) and only the `limited_groups` best runs stay.
/// The `top_k` largest choices that stay are the experts, largest first, ties to the lower
/// index, NaN last.  With `normalize`, w = s / (sum over the slots of s + 1e-20); then
/// weights = w * `scale`.
///
///   logits             f32 [T, E]        bias  f32 [E], optional
///   experts            i32 [T, k]        weights  f32 [T, k]
///   tokens_per_expert  i32 [E]           how many slots name expert e
///
/// T may be 0.  exp and sigma are correctly rounded (formats/exp.h).
/// Errors, before any byte is written: Error(shape), Error(dtype), Error(argument) for top_k,
/// groups or limited_groups out of range.
/// Source: torchtitan b5bcd76c, MoE router; the sums' order is ours.
struct Route {
  Operand logits;
  Operand bias;
  Result experts;
  Result weights;
  Result tokens_per_expert;
  RouterScore score = RouterScore::softmax;
  Index groups = 1;
  Index limited_groups = 1;
  bool normalize = true;
  float scale = 1.0f;
};

void route(Backend& backend, const Route& op);

}  // namespace mxo

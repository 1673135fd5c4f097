// Which experts a token goes to, and with what weight.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include <string_view>

#include "formats/any_view.h"

namespace mxo {

class Backend;

enum class RouterScore : std::uint8_t {
  softmax,
  sigmoid,
  softmax_of_chosen,  ///< experts by their logits, weights by softmax over them (gpt-oss)
  sqrtsoftplus,       ///< the root of softplus (DeepSeek-V4)
};

/// What a run of experts scores.
enum class GroupScore : std::uint8_t {
  two_best,  ///< the sum of its two largest choices, of its one in a run of one (DeepSeek-V3)
  best,      ///< its largest choice (DeepSeek-V2); in either a NaN counts as -infinity
};

/// How experts in runs that are not selected are treated.
enum class OtherGroups : std::uint8_t {
  excluded,  ///< no choice: masked with -infinity
  zero,      ///< a choice of +0, which is better than a negative one
};

/// For every token t, all in f32, sums ascending from +0:
///   s[e] = exp(x[e] - max x) / sum over e of exp(x[e] - max x)   (softmax)
///   s[e] = sigma(x[e])                                           (sigmoid)
///   s[e] = x[e]                                                  (softmax_of_chosen)
///   s[e] = sqrt(x[e] if x[e] > 20, else log1p(exp(x[e])))        (sqrtsoftplus)
///   choice[e] = s[e] + bias[e]                                   (bias decides, never weighs)
/// With `groups` > 1 experts fall into equal runs; a run scores as `group_score` says and only the
/// `limited_groups` best runs stay; `other_groups` says what the others' choices are.  The `top_k`
/// largest choices that stay are the experts, largest first, ties to the lower index, NaN last.
/// With `normalize`, w = s / (sum over the slots of s + 1e-20); then weights = w * `scale`.
/// Under softmax_of_chosen w is softmax as above over the slots, the first of them slot 0, whatever
/// `normalize` says.
///
///   logits             f32, bf16 or f16 [T, E]  bias  f32 [E], optional
///   experts            i32 [T, k]        weights  f32 [T, k]
///   tokens_per_expert  i32 [E]           how many slots name expert e
///
/// T may be 0.  exp and sigma are correctly rounded (formats/exp.h), and so is the root;
/// log1p as formats/softplus.h has it.
/// Errors, before any byte is written: Error(shape), Error(dtype), Error(argument) for top_k,
/// groups or limited_groups out of range and a scale that is no finite number.
/// Source: torchtitan b5bcd76c, MoE router; Megatron-LM d98e8a64, topk_routing_with_score_function
/// (sqrtsoftplus, as torch's softplus and sqrt); DeepSeek-V2 and -V3, MoEGate, also as transformers
/// and vLLM have it (masked with 0 or -infinity); transformers, GptOssTopKRouter; the sums' order
/// is ours.
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
  GroupScore group_score = GroupScore::two_best;
  OtherGroups other_groups = OtherGroups::excluded;
};

/// "softmax", "sigmoid", "softmax_of_chosen" or "sqrtsoftplus".
RouterScore router_score_named(std::string_view name);

void route(Backend& backend, const Route& op);

}  // namespace mxo

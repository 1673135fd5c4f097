// A mixture-of-experts layer across ranks: forward, backward, and the saved tensors between them.
// Thread safety: each rank calls from its own thread (ops/communicator.h).
#pragma once

#include <functional>
#include <string_view>

#include "ops/expert_parallel.h"
#include "ops/gate_rule.h"
#include "ops/grouped_linear.h"
#include "ops/route.h"

namespace mxo {

/// What travels, and where the experts' products quantise.
enum class MoePipeline : std::uint8_t {
  mxfp8,           ///< quantised before dispatch; the gradient of the output, too
  bf16,            ///< bf16 throughout
  quantize_after,  ///< bf16 travels; the grouped products quantise what they take
  flow,            ///< codes with f32 scales of 1x128 blocks from before dispatch to combine
  fp8_blockwise,   ///< quantised before dispatch in 1x128 blocks; gradients travel in bf16
};

/// Where a token's weights multiply.
enum class MoeScores : std::uint8_t {
  combine,         ///< the experts' outputs, at the source
  swiglu,          ///< the activations, at the expert: weights travel with their rows
  input,           ///< what dispatch sends, before it is quantised
  input_bf16,      ///< the same with weights that are rounded to bf16 first
  first_product,   ///< the sums of h in f32, before they are rounded to bf16; no gradients
  second_product,  ///< those of the experts' outputs; no gradients
};

/// What the bias of the second product is added as where weights multiply the activations.
enum class SecondBias : std::uint8_t {
  weighted,  ///< fl(bias * the row's weight), to the rounded product: Megatron
  plain,     ///< as it is, by the linear layer: TransformerEngine's GroupedLinear alone
};

/// The tensors between two steps, in order; the gradients are named "d" and the stage.  A stage of
/// codes is two, ".codes" and ".scales".  Seen, too: experts and weights after logits; in
/// fp8_blockwise x as it will travel, "quantized", and the codes of act beside act.
inline constexpr std::string_view kMoeStages[] = {"logits", "dispatched", "permuted", "h",
                                                  "act",    "expert_out", "combined"};

/// Called for every stage as it is made; the operand is gone after the call.
using StageObserver = std::function<void(std::string_view stage, const Operand& tensor)>;

/// One rank's part of
///   logits = x router^T  exact, rounded to f32 [, + logits_bias in f32], in f32 or bf16
///   experts, weights = route(logits [, router_bias])
///   u = dispatch(x [* weight]);  h_e = u_e w1_e^T;  act = gate(h) [* weight];  o_e = act_e w2_e^T
///   y = combine(o) [+ shared(x)],  shared(x) = gate(x sw1^T) sw2^T
///
///   x         bf16 [T, D], this rank's tokens; ranks hold consecutive runs of the global tokens
///   router    bf16 [E, D];  router_bias  f32 [E], optional: decides, never weighs
///   logits_bias  bf16 or f32 [E], optional: of a router that is a linear layer with a bias
///   w1        bf16 or f32 [E/P, 2F, D], this rank's experts;  w2  [E/P, D, F]
///   w1_bias   bf16 or f32 [E/P, 2F], w2_bias [E/P, D], optional: added to a product as
///             GroupedLinear adds it; where `scores` weigh a product, to sums in f32 before;
///             w2_bias under scores=swiglu as `second_bias` says
///   shared_w1 bf16 or f32 [2S, D], shared_w2 [D, S]; both or neither
///   gate      of experts and shared expert; one without an up half has w1 [E/P, F, D]
///   y         bf16 [T, D]
///
/// Rows of an expert are padded to `alignment`, or the recipe's where that is larger.  T may be 0.
/// Elements of a row of x and dy are neighbours.
/// Errors, before any byte of y is written: as Route, dispatch and GroupedLinear; Error(argument)
/// for a pipeline with a recipe or a format that it does not have, a gate as check_gate, and biases
/// in pipeline flow; Error(shape) for a y that shares memory with an operand.
/// Source: torchtitan b5bcd76c (score_before_experts: input); vLLM, apply_router_weight_on_input
/// (input_bf16) and fused_moe_kernel of vLLM and SGLang, MUL_ROUTED_WEIGHT (first_product,
/// second_product); transformers, GptOssTopKRouter and GptOssExperts (biases); Megatron-LM
/// d98e8a64, TEGroupedMLP (swiglu, SecondBias); pytorch/ao 36027d8, ep; FP8-Flow-MoE;
/// docs/moe_layer.md.
struct MoeLayer {
  Operand x;
  Operand router;
  Operand router_bias;
  Operand logits_bias;
  Operand w1;
  Operand w2;
  Operand w1_bias;
  Operand w2_bias;
  Operand shared_w1;
  Operand shared_w2;
  Index experts = 0;  ///< E, of all ranks
  Index top_k = 1;
  RouterScore score = RouterScore::softmax;
  Index groups = 1;
  Index limited_groups = 1;
  bool normalize = true;
  float scale = 1.0f;
  GroupScore group_score = GroupScore::two_best;
  OtherGroups other_groups = OtherGroups::excluded;
  Dtype router_logits = Dtype::f32;  ///< or bf16: rounded once, as a bf16 linear layer stores them
  CombineSteps combine_steps = CombineSteps::f32;
  MoePipeline pipeline = MoePipeline::mxfp8;
  MoeScores scores = MoeScores::combine;
  SecondBias second_bias = SecondBias::weighted;
  GateRule gate = {};
  LinearRecipe recipe = kLinearRecipes[0];  ///< of the experts; bf16 and flow have their own
  Dtype format = Dtype::e4m3;
  Index alignment = 32;
  Placement placement = Placement::fused;
  Accumulation sum = kExact;        ///< of the products over D and F
  Accumulation wgrad_sum = kExact;  ///< of those over tokens, which may be in bf16
  bool recompute = false;  ///< backward computes h and act again: less memory, the same bits
  StageObserver observe;
  Result y;
};

/// The recipe of the experts' products: the call's, unless its pipeline has its own.
LinearRecipe moe_recipe(const MoeLayer& op);
/// F of a first product's weights [.., 2F, D], or [.., F, D] under a gate without an up half.
Index features_of(const MoeLayer& op, const Operand& w1);
/// What the experts' weight gradients are sums over.
OperandKind moe_wgrad_kind(const MoeLayer& op);

/// What backward needs.  It refers to the operands of the call, which must outlive it.
struct SavedMoeLayer {
  MoeLayer call;
  LinearRecipe recipe;
  ExpertPlan plan;
  BackendTensor logits;
  BackendTensor chosen;
  BackendTensor weights;
  BackendTensor row_weights;    ///< f32 [rows, 1], where weights travel with their rows
  BackendTensor input_weights;  ///< f32 [T, k], what multiplied x; scores=input and input_bf16
  OwnedScaledTensor u;
  BackendTensor h;
  BackendTensor act;
  OwnedScaledTensor act_codes;  ///< in place of act, in 1x128 blocks; pipeline flow only
  BackendTensor returned;       ///< rows that combine weighed; scores=combine only
};

/// Gradients of the call `saved` came from.  Those of what every rank holds are sums over all
/// tokens of all ranks in global order, the same on each; so P = 1, 2, 4, 8 give the same bits.
///
///   dy       bf16 [T, D]
///   dx       bf16 [T, D]: round((experts' + router's) + shared's), f32 additions
///   drouter  f32 [E, D];  dlogits_bias  f32 [E]: column_sum of dlogits, given only where the
///            bias was;  dw1, dw2  bf16 or f32, of this rank's experts
///   dw1_bias, dw2_bias  bf16 or f32, column sums by expert of dh and of the gradient of the
///            experts' outputs, given only where the biases were
///   dshared_w1, dshared_w2  bf16 or f32, given exactly where the weights were
/// Any but dx may be absent.
///
/// Errors, before any byte is written: Error(shape) or Error(dtype) of dy and of results, a
/// gradient of what the call has not, results that share memory with each other, with dy or with an
/// operand of the call; Error(argument) for scores that have no gradients, and for biases of
/// experts in a recipe that casts rows along tokens, where rows of padding would be cast with
/// others.
struct MoeLayerBackward {
  Operand dy;
  Result dx;
  Result drouter;
  Result dlogits_bias;
  Result dw1;
  Result dw2;
  Result dw1_bias;
  Result dw2_bias;
  Result dshared_w1;
  Result dshared_w2;
};

/// Collective.
SavedMoeLayer moe_layer(Backend& backend, Communicator& communicator, const MoeLayer& op);
void moe_layer_backward(Backend& backend, Communicator& communicator, const SavedMoeLayer& saved,
                        const MoeLayerBackward& op);

}  // namespace mxo

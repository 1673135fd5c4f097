// Catalogue entry of moe_layer: forward, and backward where every rank has a dy.
#include "ops/moe_layer.h"

#include <algorithm>
#include <array>

#include "ops/catalogue/families.h"
#include "ops/catalogue/gate_parameters.h"
#include "ops/catalogue/ranks.h"
#include "ops/catalogue/sum_parameters.h"
#include "ops/checked.h"
#include "ops/moe_steps.h"

namespace mxo {
namespace {

constexpr std::string_view kOp = "moe_layer";

template <typename Choice>
struct Named {
  std::string_view name;
  Choice choice;
};
constexpr Named<MoePipeline> kPipelines[] = {{"mxfp8", MoePipeline::mxfp8},
                                             {"bf16", MoePipeline::bf16},
                                             {"quantize_after", MoePipeline::quantize_after},
                                             {"flow", MoePipeline::flow},
                                             {"fp8_blockwise", MoePipeline::fp8_blockwise}};

MoePipeline pipeline_of(const Parameters& set) {
  const std::string_view name = set.text("pipeline", "mxfp8");
  for (const auto& [known, pipeline] : kPipelines) {
    if (known == name) return pipeline;
  }
  return MoePipeline::mxfp8;
}

/// Operands that every rank is given whole, and the parameters.
MoeLayer layer_of(Staging& stage, const Parameters& set) {
  MoeLayer op;
  op.router = stage.floats("router");
  if (stage.has("router.bias")) op.router_bias = stage.floats("router.bias");
  if (stage.has("logits.bias")) op.logits_bias = stage.floats("logits.bias");
  op.w1 = stage.floats("w1");
  op.w2 = stage.floats("w2");
  if (stage.has("w1.bias")) op.w1_bias = stage.floats("w1.bias");
  if (stage.has("w2.bias")) op.w2_bias = stage.floats("w2.bias");
  if (stage.has("shared.w1")) op.shared_w1 = stage.floats("shared.w1");
  if (stage.has("shared.w2")) op.shared_w2 = stage.floats("shared.w2");
  const Check check(kOp);
  op.experts = op.router.extent[0];
  check.rank("w1", op.w1, 3);
  check.rank("w2", op.w2, 3);
  check.shape("w1", op.w1, {op.experts, op.w1.extent[1], op.router.extent[1]});
  check.shape("w2", op.w2, {op.experts, op.router.extent[1], op.w2.extent[2]});
  if (op.w1_bias.given()) check.shape("w1.bias", op.w1_bias, {op.experts, op.w1.extent[1]});
  if (op.w2_bias.given()) check.shape("w2.bias", op.w2_bias, {op.experts, op.w2.extent[1]});
  op.top_k = set.integer("top_k", 1);
  op.score = router_score_named(set.text("score", "softmax"));
  op.groups = set.integer("groups", 1);
  op.limited_groups = set.integer("limited_groups", op.groups);
  op.normalize = set.flag("normalize", true);
  op.scale = static_cast<float>(set.real("scale", 1.0));
  if (set.text("group_score", "two_best") == "best") op.group_score = GroupScore::best;
  if (set.text("other_groups", "excluded") == "zero") op.other_groups = OtherGroups::zero;
  if (set.text("router_logits", "f32") == "bf16") op.router_logits = Dtype::bf16;
  op.combine_steps = combine_steps_named(set.text("combine_steps", "f32"));
  op.pipeline = pipeline_of(set);
  op.gate = gate_of(set);
  const std::string_view scores = set.text("scores", "combine");
  if (scores == "swiglu") op.scores = MoeScores::swiglu;
  if (scores == "input") op.scores = MoeScores::input;
  if (scores == "input_bf16") op.scores = MoeScores::input_bf16;
  if (scores == "first_product") op.scores = MoeScores::first_product;
  if (scores == "second_product") op.scores = MoeScores::second_product;
  if (set.text("second_bias", "weighted") == "plain") op.second_bias = SecondBias::plain;
  op.recipe = linear_recipe_named(set.text("recipe", "mxfp8_rceil"));
  op.format = set.format("format", "e4m3");
  op.alignment = set.integer("alignment", 32);
  if (set.text("placement", "fused") == "unfused") op.placement = Placement::unfused;
  op.sum = sum_from(set, product_kind(moe_recipe(op), op.format));
  op.recompute = set.flag("recompute", false);
  return op;
}

/// One rank of a call.
class RankCall {
 public:
  RankCall(Backend& backend, Communicator& communicator, const NamedViews& inputs,
           const Parameters& set)
      : backend_(backend), communicator_(communicator), stage_(backend, kOp, inputs) {
    op_ = layer_of(stage_, set);
    const std::string rank = "rank" + std::to_string(communicator.rank()) + ".";
    op_.x = stage_.floats(rank + "x");
    if (stage_.has(rank + "dy")) {
      dy_ = stage_.floats(rank + "dy");
      op_.wgrad_sum = sum_from(set, moe_wgrad_kind(op_));
    }
    const Index local = op_.experts / communicator.size();
    op_.w1 = rows_of(op_.w1, communicator.rank() * local, local);
    op_.w2 = rows_of(op_.w2, communicator.rank() * local, local);
    for (Operand* bias : {&op_.w1_bias, &op_.w2_bias}) {
      if (bias->given()) *bias = rows_of(*bias, communicator.rank() * local, local);
    }
    if (!set.flag("keep_stages", false)) return;
    op_.observe = [this](std::string_view stage, const Operand& tensor) {
      outputs_.emplace(stage, on_host(backend_, tensor));
    };
  }

  NamedTensors run() {
    BackendTensor y(backend_, Dtype::bf16, {op_.x.extent[0], op_.x.extent[1]});
    op_.y = y.result();
    const SavedMoeLayer saved = moe_layer(backend_, communicator_, op_);
    keep("y", y);
    if (dy_.given()) backward(saved);
    return std::move(outputs_);
  }

 private:
  void backward(const SavedMoeLayer& saved) {
    MoeLayerBackward back;
    back.dy = dy_;
    BackendTensor dx = like(op_.x);
    BackendTensor drouter(backend_, Dtype::f32, {op_.router.extent[0], op_.router.extent[1]});
    BackendTensor dlogits_bias;
    if (op_.logits_bias.given()) {
      dlogits_bias = BackendTensor(backend_, Dtype::f32, {op_.experts});
      back.dlogits_bias = dlogits_bias.result();
    }
    BackendTensor dw1 = like(op_.w1);
    BackendTensor dw2 = like(op_.w2);
    BackendTensor dw1_bias;
    BackendTensor dw2_bias;
    if (op_.w1_bias.given()) dw1_bias = like(op_.w1_bias);
    if (op_.w2_bias.given()) dw2_bias = like(op_.w2_bias);
    if (dw1_bias.given()) back.dw1_bias = dw1_bias.result();
    if (dw2_bias.given()) back.dw2_bias = dw2_bias.result();
    BackendTensor dshared_w1;
    BackendTensor dshared_w2;
    if (op_.shared_w1.given()) {
      dshared_w1 = like(op_.shared_w1);
      dshared_w2 = like(op_.shared_w2);
      back.dshared_w1 = dshared_w1.result();
      back.dshared_w2 = dshared_w2.result();
    }
    back.dx = dx.result();
    back.drouter = drouter.result();
    back.dw1 = dw1.result();
    back.dw2 = dw2.result();
    moe_layer_backward(backend_, communicator_, saved, back);
    keep("dx", dx);
    keep("drouter", drouter);
    if (dlogits_bias.given()) keep("logits.dbias", dlogits_bias);
    keep("dw1", dw1);
    keep("dw2", dw2);
    if (dw1_bias.given()) keep("w1.dbias", dw1_bias);
    if (dw2_bias.given()) keep("w2.dbias", dw2_bias);
    if (dshared_w1.given()) {
      keep("shared.dw1", dshared_w1);
      keep("shared.dw2", dshared_w2);
    }
  }

  BackendTensor like(const Operand& operand) {
    return BackendTensor(backend_, Dtype::bf16, operand.extent, operand.rank);
  }
  void keep(const char* name, const BackendTensor& tensor) {
    outputs_.emplace(name, on_host(backend_, tensor.operand()));
  }

  Backend& backend_;
  Communicator& communicator_;
  Staging stage_;
  MoeLayer op_;
  Operand dy_;
  NamedTensors outputs_;
};

/// The parts of all ranks one behind the other; they are runs of experts.
void join_experts(NamedTensors& all, const std::string& name, int ranks) {
  if (!all.contains("rank0." + name)) return;
  std::vector<Index> shape = all.at("rank0." + name).shape();
  shape[0] *= ranks;
  Tensor joined(all.at("rank0." + name).dtype(), std::move(shape));
  std::byte* to = joined.data();
  for (int p = 0; p < ranks; ++p) {
    const auto part = all.extract("rank" + std::to_string(p) + "." + name);
    to = std::copy_n(part.mapped().data(), part.mapped().bytes(), to);
  }
  all.emplace(name, std::move(joined));
}

/// What every rank has the same of.
void keep_one(NamedTensors& all, const std::string& name, int ranks) {
  for (int p = ranks - 1; p >= 0; --p) {
    auto part = all.extract("rank" + std::to_string(p) + "." + name);
    if (p == 0 && !part.empty()) {
      part.key() = name;
      all.insert(std::move(part));
    }
  }
}

NamedTensors call_moe_layer(Backend& backend, World& world, const NamedViews& inputs,
                            const Parameters& set) {
  const int ranks = ranks_of(kOp, inputs, "x");
  const Operand router = inputs.operands().at("router").view;
  Check(kOp).rank("router", router, 2);
  const Index experts = router.extent[0];
  if (experts % ranks != 0) {
    throw Error(Fault::shape, "moe_layer: router: found " + std::to_string(experts) +
                                  " experts, needs a multiple of the " + std::to_string(ranks) +
                                  " ranks");
  }
  const bool backward = inputs.contains("rank0.dy");
  for (int p = 0; p < ranks; ++p) {
    const std::string dy = "rank" + std::to_string(p) + ".dy";
    if (inputs.contains(dy) != backward) {
      throw Error(Fault::shape, "moe_layer: " + dy + ": " +
                                    (backward ? "missing" : "found, but rank0.dy is missing") +
                                    ", needs to be there for all ranks or none");
    }
  }
  RankOutputs outputs;
  world.run(ranks, [&](Communicator& communicator) {
    RankBackend own(backend, communicator.rank());
    RankCall call(own.get(), communicator, inputs, set);
    outputs.add(world, communicator, call.run());
  });
  NamedTensors all = outputs.take();
  for (const char* name : {"dw1", "dw2", "w1.dbias", "w2.dbias"}) join_experts(all, name, ranks);
  for (const char* name : {"drouter", "logits.dbias", "shared.dw1", "shared.dw2"})
    keep_one(all, name, ranks);
  return all;
}

constexpr OperandSpec kIn[] = {
    {"rank<p>.x", "[T_p, D]", "bf16"},
    {"router", "[E, D]", "bf16"},
    {"router.bias", "[E]; decides, never weighs", "f32", true},
    {"logits.bias", "[E]; of a router that is a linear layer with one", "bf16 or f32", true},
    {"w1", "[E, 2F, D], or [E, F, D] with halves=gate_only", "bf16 or f32"},
    {"w2", "[E, D, F]", "bf16 or f32"},
    {"w1.bias", "[E, 2F], added to the first product", "bf16 or f32", true},
    {"w2.bias", "[E, D], to the second", "bf16 or f32", true},
    {"shared.w1", "[2S, D]", "bf16 or f32", true},
    {"shared.w2", "[D, S]", "bf16 or f32", true},
    {"rank<p>.dy", "[T_p, D], for the backward pass", "bf16", true},
};
constexpr OperandSpec kOut[] = {
    {"rank<p>.y", "[T_p, D]", "bf16"},
    {"rank<p>.dx", "[T_p, D], with dy", "bf16", true},
    {"drouter", "[E, D], with dy", "f32", true},
    {"logits.dbias", "[E], with dy", "f32", true},
    {"dw1", "[E, 2F, D], with dy", "bf16", true},
    {"dw2", "[E, D, F], with dy", "bf16", true},
    {"w1.dbias", "[E, 2F], with dy", "bf16", true},
    {"w2.dbias", "[E, D], with dy", "bf16", true},
    {"shared.dw1", "[2S, D], with dy", "bf16", true},
    {"shared.dw2", "[D, S], with dy", "bf16", true},
    {"rank<p>.STAGE", "every step's tensor, with keep_stages", "f32, bf16, i32 or u8", true},
};
constexpr auto kSet = with_sum_parameters({
    {"top_k", "1", "experts of a token"},
    {"pipeline", "mxfp8|bf16|quantize_after|flow|fp8_blockwise",
     "what ranks send, and where it is quantised"},
    {"scores", "combine|swiglu|input|input_bf16|first_product|second_product",
     "what a token's weights multiply; input_bf16: x, rounded to bf16 first; a product: its sums "
     "in f32, no gradients"},
    {"second_bias", "weighted|plain",
     "scores=swiglu: w2.bias is multiplied by the row's weight (Megatron), or added unweighted"},
    {"recipe",
     "mxfp8_rceil|mxfp8_floor|mxfp8_rceil_wgrad_with_hp|mxfp8_floor_wgrad_with_hp|fp8_rowwise|"
     "fp8_blockwise|vllm|vllm_up|bf16",
     "how the experts' products are scaled; pipelines bf16 and flow have their own"},
    {"format", "e4m3|e4m3fnuz", "of codes"},
    {"score", "softmax|sigmoid|softmax_of_chosen|sqrtsoftplus", "of the router"},
    {"groups", "1", "of experts"},
    {"limited_groups", "", "groups that a token may choose from; default: all"},
    {"group_score", "two_best|best",
     "score of a group: the sum of its two best experts, or its best"},
    {"other_groups", "excluded|zero", "experts of the other groups: excluded, or with score 0"},
    {"normalize", "true|false", "weights of a token add up to scale"},
    {"scale", "1", "of weights"},
    kActivationParameter,
    kHalvesParameter,
    kStepsParameter,
    kAlphaParameter,
    kLimitParameter,
    kOffsetParameter,
    kArithmeticParameter,
    {"router_logits", "f32|bf16", "type that the exact logits are rounded to"},
    {"combine_steps", "f32|bf16|fused",
     "type that combine rounds products and sums to, or one fma"},
    {"alignment", "32",
     "each expert's padded rows are a multiple of this; for blocks of 128, of at least 128"},
    {"placement", "fused|unfused", "how rows reach their place; both give the same bytes"},
    {"recompute", "false|true", "compute h and act again in the backward pass; the same bits"},
    {"keep_stages", "false|true", "also return every step's tensor"},
});

constexpr std::string_view kSteps[] = {
    "logits",      "experts",    "weights",     "quantized", "dispatched", "permuted",
    "h",           "act",        "expert_out",  "combined",  "y",          "dcombined",
    "dexpert_out", "dact",       "dw2",         "w2.dbias",  "dh",         "dpermuted",
    "dw1",         "w1.dbias",   "ddispatched", "dlogits",   "drouter",    "logits.dbias",
    "shared.dw2",  "shared.dw1", "dx"};

constexpr CatalogueEntry kEntries[] = {
    {kOp, "a mixture-of-experts layer across ranks, with its gradients", kIn, kOut, kSet, nullptr,
     call_moe_layer, kSteps},
};

}  // namespace

std::span<const CatalogueEntry> moe_layer_entries() { return kEntries; }

}  // namespace mxo

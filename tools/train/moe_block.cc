// Activations into moe_layer and back.
#include "tools/train/moe_block.h"

namespace mxo::tools {

MoeBlock::MoeBlock(const Rank& rank, std::string name) : rank_(rank), name_(std::move(name)) {
  const TrainOptions& o = rank.options;
  call_.experts = o.experts;
  call_.top_k = o.top_k;
  call_.score = router_score_named(o.score);
  call_.groups = o.groups;
  call_.limited_groups = o.limited_groups > 0 ? o.limited_groups : o.groups;
  call_.group_score = o.group_score == "best" ? GroupScore::best : GroupScore::two_best;
  call_.other_groups = o.other_groups == "zero" ? OtherGroups::zero : OtherGroups::excluded;
  call_.normalize = o.normalize;
  call_.scale = static_cast<float>(o.scale);
  call_.recompute = rank.recompute;
  set_recipe(call_, rank.recipe, o.sum);
}

Matrix<float> MoeBlock::forward(const Matrix<float>& x, Parameters& parameters,
                                StageRecorder* stages) {
  const auto weight = [&](const char* which) {
    const Tensor& value = parameters[name_ + which].value;
    return value.rank() == 3 ? rank_.rounded(value.as<float>(),
                                             {value.extent(0), value.extent(1), value.extent(2)})
                             : rank_.rounded(value.as<float>(), {value.extent(0), value.extent(1)});
  };
  Backend& backend = rank_.backend;
  x_ = rank_.rounded(x.data(), {x.rows(), x.cols()});
  y_ = BackendTensor(backend, Dtype::bf16, {x.rows(), x.cols()});
  router_ = weight(".router");
  w1_ = weight(".w1");
  w2_ = weight(".w2");
  MoeLayer op = call_;
  if (rank_.options.bias_rate > 0) {
    const Tensor& bias = parameters[name_ + ".bias"].value;
    bias_ = BackendTensor(backend, Dtype::f32, {bias.elements()});
    backend.upload(static_cast<std::byte*>(bias_.result().data), bias.data(), bias.bytes());
    op.router_bias = bias_.operand();
  }
  if (rank_.options.shared_experts > 0) {
    shared_w1_ = weight(".shared_w1");
    shared_w2_ = weight(".shared_w2");
    op.shared_w1 = shared_w1_.operand();
    op.shared_w2 = shared_w2_.operand();
  }
  op.x = x_.operand();
  op.router = router_.operand();
  op.w1 = w1_.operand();
  op.w2 = w2_.operand();
  op.y = y_.result();
  op.observe = [this](std::string_view stage, const Operand& tensor) {
    if (recording_) seen_.emplace_back(stage, on_host(rank_.backend, tensor));
  };
  recording_ = stages != nullptr;
  saved_ = moe_layer(backend, rank_.communicator, op);
  if (stages != nullptr) record(*stages);
  count();
  return rank_.widened(y_.operand());
}

Matrix<float> MoeBlock::backward(const Matrix<float>& dy, Parameters& parameters,
                                 StageRecorder* stages) {
  Backend& backend = rank_.backend;
  const BackendTensor narrow = rank_.rounded(dy.data(), {dy.rows(), dy.cols()});
  BackendTensor dx(backend, Dtype::bf16, {dy.rows(), dy.cols()});
  std::vector<std::pair<Parameter*, BackendTensor>> gradients;  // where the host's memory is not
  const auto gradient = [&](const char* which) {
    Parameter& p = parameters[name_ + which];
    if (backend.reads_host_memory()) return p.gradient.result();
    const Operand shape = p.value.operand();
    return gradients.emplace_back(&p, BackendTensor(backend, Dtype::f32, shape.extent, shape.rank))
        .second.result();
  };
  MoeLayerBackward op;
  op.dy = narrow.operand();
  op.dx = dx.result();
  op.drouter = gradient(".router");
  op.dw1 = gradient(".w1");
  op.dw2 = gradient(".w2");
  if (rank_.options.shared_experts > 0) {
    op.dshared_w1 = gradient(".shared_w1");
    op.dshared_w2 = gradient(".shared_w2");
  }
  recording_ = stages != nullptr;
  moe_layer_backward(backend, rank_.communicator, *saved_, op);
  for (auto& [p, found] : gradients) rank_.fetch(found, p->gradient.as<float>());
  if (stages != nullptr) record(*stages);
  return rank_.widened(dx.operand());
}

void MoeBlock::count() {
  const ExpertPlan& plan = saved_->plan;
  std::vector<std::int64_t> mine(static_cast<std::size_t>(plan.local), 0);
  for (Index i = 0; i < plan.tokens_per_expert.elements(); ++i) {
    mine[static_cast<std::size_t>(i % plan.local)] += plan.tokens_per_expert.as<std::int32_t>()[i];
  }
  load_ = rank_.gathered(std::span<const std::int64_t>(mine));
}

void MoeBlock::balance(Parameters& parameters) const {
  float* bias = parameters[name_ + ".bias"].value.as<float>();
  const auto rate = static_cast<float>(rank_.options.bias_rate);
  std::int64_t all = 0;
  for (const std::int64_t tokens : load_) all += tokens;
  const auto experts = static_cast<std::int64_t>(load_.size());
  for (std::size_t e = 0; e < load_.size(); ++e) {
    if (load_[e] * experts < all) bias[e] += rate;
    if (load_[e] * experts > all) bias[e] -= rate;
  }
}

/// Rows as they came from the wire are left out: their order depends on the number of ranks.
void MoeBlock::record(StageRecorder& stages) {
  constexpr std::string_view kOfTokens[] = {"logits",          "experts",          "weights",
                                            "quantized.codes", "quantized.scales", "combined",
                                            "dcombined",       "dlogits",          "ddispatched"};
  for (const auto& [stage, tensor] : seen_) {
    if (stage.starts_with("dispatched")) continue;
    const std::string name = name_ + "." + stage;
    if (std::find(std::begin(kOfTokens), std::end(kOfTokens), stage) != std::end(kOfTokens)) {
      stages.tokens(name, tensor, rank_.options.context);
    } else {
      stages.experts(name, tensor, saved_->plan.group_ends.host());
    }
  }
  seen_.clear();
}

}  // namespace mxo::tools

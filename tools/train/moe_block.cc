// Activations into moe_layer and back.
#include "tools/train/moe_block.h"

#include <algorithm>

#include "ops/elementwise.h"

namespace mxo::tools {

BackendTensor MoeBlock::rounded(const Tensor& value) const {
  const Operand host = value.operand();
  BackendTensor wide(backend_, Dtype::f32, host.extent, host.rank);
  backend_.upload(static_cast<std::byte*>(wide.result().data), value.data(), value.bytes());
  BackendTensor narrow(backend_, Dtype::bf16, host.extent, host.rank);
  cast(backend_, {wide.operand(), narrow.result()});
  return narrow;
}

BackendTensor MoeBlock::stacked(const std::vector<Matrix<float>>& sequences) const {
  const auto count = static_cast<Index>(sequences.size());
  Tensor wide(Dtype::f32, {count * options_.context, options_.width});
  float* to = wide.as<float>();
  for (const Matrix<float>& m : sequences) to = std::copy_n(m.data(), m.size(), to);
  return rounded(wide);
}

std::vector<Matrix<float>> MoeBlock::unstacked(const BackendTensor& rows) const {
  const Index count = rows.operand().extent[0];
  BackendTensor wide(backend_, Dtype::f32, {count, options_.width});
  cast(backend_, {rows.operand(), wide.result()});
  const Tensor host = on_host(backend_, wide.operand());
  std::vector<Matrix<float>> sequences;
  for (Index t = 0; t < count; t += options_.context) {
    sequences.emplace_back(ConstMatrixMap<float>(host.as<float>() + t * options_.width,
                                                 options_.context, options_.width));
  }
  return sequences;
}

std::vector<Matrix<float>> MoeBlock::forward(const std::vector<Matrix<float>>& x,
                                             Parameters& parameters, StageRecorder* stages) {
  x_ = stacked(x);
  y_ = BackendTensor(backend_, Dtype::bf16, {x_.operand().extent[0], options_.width});
  router_ = rounded(parameters[name_ + ".router"].value);
  w1_ = rounded(parameters[name_ + ".w1"].value);
  w2_ = rounded(parameters[name_ + ".w2"].value);
  MoeLayer op;
  op.x = x_.operand();
  op.router = router_.operand();
  op.w1 = w1_.operand();
  op.w2 = w2_.operand();
  op.experts = options_.experts;
  op.top_k = options_.top_k;
  op.pipeline = recipe_.pipeline;
  op.recipe = recipe_.linear;
  op.format = recipe_.format;
  op.y = y_.result();
  op.observe = [this](std::string_view stage, const Operand& tensor) {
    if (recording_) seen_.emplace_back(stage, on_host(backend_, tensor));
  };
  recording_ = stages != nullptr;
  saved_ = moe_layer(backend_, communicator_, op);
  if (stages != nullptr) record(*stages);
  return unstacked(y_);
}

std::vector<Matrix<float>> MoeBlock::backward(const std::vector<Matrix<float>>& dy,
                                              Parameters& parameters, StageRecorder* stages) {
  const BackendTensor narrow = stacked(dy);
  BackendTensor dx(backend_, Dtype::bf16, {narrow.operand().extent[0], options_.width});
  std::vector<std::pair<Parameter*, BackendTensor>> gradients;
  for (const char* weight : {".router", ".w1", ".w2"}) {
    Parameter& p = parameters[name_ + weight];
    const Operand shape = p.value.operand();
    gradients.emplace_back(&p, BackendTensor(backend_, Dtype::f32, shape.extent, shape.rank));
  }
  recording_ = stages != nullptr;
  moe_layer_backward(backend_, communicator_, *saved_,
                     {narrow.operand(),
                      dx.result(),
                      gradients[0].second.result(),
                      {},
                      gradients[1].second.result(),
                      gradients[2].second.result(),
                      {},
                      {},
                      {},
                      {}});
  for (auto& [p, gradient] : gradients) p->gradient = on_host(backend_, gradient.operand());
  if (stages != nullptr) record(*stages);
  return unstacked(dx);
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
      stages.tokens(name, tensor, options_.context);
    } else {
      stages.experts(name, tensor, saved_->plan.group_ends.host());
    }
  }
  seen_.clear();
}

}  // namespace mxo::tools

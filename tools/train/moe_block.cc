// Activations into moe_layer and back.
#include "tools/train/moe_block.h"

#include <algorithm>

#include "ops/catalogue/ranks.h"
#include "ops/elementwise.h"

namespace mxo::tools {

Tensor MoeBlock::rounded(const Tensor& value) const {
  Tensor narrow(Dtype::bf16, value.shape());
  cast(backend_, {value.operand(), narrow.result()});
  return narrow;
}

Tensor MoeBlock::stacked(const std::vector<Matrix<float>>& sequences) const {
  const auto count = static_cast<Index>(sequences.size());
  Tensor wide(Dtype::f32, {count * options_.context, options_.width});
  float* to = wide.as<float>();
  for (const Matrix<float>& m : sequences) to = std::copy_n(m.data(), m.size(), to);
  return rounded(wide);
}

std::vector<Matrix<float>> MoeBlock::unstacked(const Tensor& rows) const {
  Tensor wide(Dtype::f32, rows.shape());
  cast(backend_, {rows.operand(), wide.result()});
  std::vector<Matrix<float>> sequences;
  for (Index t = 0; t < rows.extent(0); t += options_.context) {
    sequences.emplace_back(ConstMatrixMap<float>(wide.as<float>() + t * options_.width,
                                                 options_.context, options_.width));
  }
  return sequences;
}

std::vector<Matrix<float>> MoeBlock::forward(const std::vector<Matrix<float>>& x,
                                             Parameters& parameters, StageRecorder* stages) {
  x_ = stacked(x);
  y_ = Tensor(Dtype::bf16, x_.shape());
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
  const Tensor narrow = stacked(dy);
  Tensor dx(Dtype::bf16, narrow.shape());
  recording_ = stages != nullptr;
  moe_layer_backward(backend_, communicator_, *saved_,
                     {narrow.operand(),
                      dx.result(),
                      parameters[name_ + ".router"].gradient.result(),
                      parameters[name_ + ".w1"].gradient.result(),
                      parameters[name_ + ".w2"].gradient.result(),
                      {},
                      {}});
  if (stages != nullptr) record(*stages);
  return unstacked(dx);
}

/// Rows as they came from the wire are left out: their order depends on the number of ranks.
void MoeBlock::record(StageRecorder& stages) {
  constexpr std::string_view kOfTokens[] = {"logits", "combined", "dcombined", "dlogits",
                                            "ddispatched"};
  for (const auto& [stage, tensor] : seen_) {
    if (stage.starts_with("dispatched")) continue;
    const std::string name = name_ + "." + stage;
    if (std::find(std::begin(kOfTokens), std::end(kOfTokens), stage) != std::end(kOfTokens)) {
      stages.tokens(name, tensor, options_.context);
    } else {
      stages.experts(name, tensor, saved_->plan.group_ends);
    }
  }
  seen_.clear();
}

}  // namespace mxo::tools

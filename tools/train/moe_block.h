// The experts of one layer of the transformer: moe_layer between f32 activations.
#pragma once

#include <optional>

#include "tools/train/rank.h"
#include "tools/train/stages.h"

namespace mxo::tools {

/// y = moe_layer(bf16(x)), weights rounded to bf16 from the f32 parameters "<name>.router", ".w1",
/// ".w2" and those of the shared experts, whose gradients backward() sets.  Collective.
class MoeBlock {
 public:
  MoeBlock(const Rank& rank, std::string name);

  /// Rows of this rank's tokens; `stages` may be null.
  Matrix<float> forward(const Matrix<float>& x, Parameters& parameters, StageRecorder* stages);
  Matrix<float> backward(const Matrix<float>& dy, Parameters& parameters, StageRecorder* stages);

  /// Tokens of each expert in the last forward pass, of all ranks.
  const std::vector<std::int64_t>& load() const { return load_; }
  /// bias[e] += rate * sign(mean load - load of e).  Source: DeepSeek-V3, arXiv 2412.19437, 2.1.2.
  void balance(Parameters& parameters) const;

 private:
  void record(StageRecorder& stages);
  void count();

  const Rank& rank_;
  std::string name_;
  MoeLayer call_;  ///< all that no pass changes
  BackendTensor x_, y_, router_, bias_, w1_, w2_, shared_w1_, shared_w2_;  ///< of the saved call
  std::optional<SavedMoeLayer> saved_;
  std::vector<std::int64_t> load_;
  bool recording_ = false;
  std::vector<std::pair<std::string, Tensor>> seen_;  ///< stages of the pass under way
};

}  // namespace mxo::tools

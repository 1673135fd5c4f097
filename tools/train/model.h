// A mixture-of-experts transformer over bytes, one rank's part: forward and backward.
#pragma once

#include "tools/train/attention.h"
#include "tools/train/language_head.h"
#include "tools/train/moe_block.h"
#include "tools/train/text.h"

namespace mxo::tools {

/// x = tokens[byte] + positions[t];  in every layer  x += attention(x), x += moe(rms_norm(x));
/// the loss is the cross-entropy of the next byte.  A sequence is the work of one thread and its
/// gradients are added in the order of sequences, so threads and ranks do not show in the bits.
/// Outside the experts all arithmetic is f32 (attention.h, rms_norm.h, language_head.h).
class Model {
 public:
  Model(const TrainOptions& options, const TrainRecipe& recipe, Backend& backend,
        Communicator& communicator, int threads);

  /// Losses of this rank's windows, then the sum over all ranks' sequences, ascending.  Collective.
  double forward(std::vector<Window> windows, StageRecorder* stages);
  /// Gradients of `share` times that sum, into the parameters.  Collective.
  void backward(float share, StageRecorder* stages);

  Parameters& parameters() { return parameters_; }

 private:
  struct Layer {
    std::vector<Attention<float>> attention;  ///< of every sequence
    std::vector<RmsNorm<float>> norm;
    MoeBlock moe;
    std::string name;
  };
  const float* value(const std::string& name) { return parameters_[name].data(); }
  AttentionWeights<const float> attention_weights(const Layer& layer);
  AttentionWeights<float> attention_gradients(const Layer& layer, Index sequence);
  float* gradient(const std::string& name, Index sequence);
  void sum_sequences();

  const TrainOptions& options_;
  Communicator& communicator_;
  int threads_;
  Parameters parameters_;
  std::vector<Layer> layers_;
  std::vector<Window> windows_;
  std::vector<Matrix<float>> x_;
  std::vector<LanguageHead<float>> heads_;
  std::vector<std::vector<float>> gradients_;  ///< of every sequence
};

}  // namespace mxo::tools

// A mixture-of-experts transformer over bytes, one rank's part: forward and backward.
#pragma once

#include <deque>

#include "tools/train/attention_block.h"
#include "tools/train/moe_block.h"
#include "tools/train/text.h"

namespace mxo::tools {

/// x = tokens[byte];  in every layer  x += attention(rms_norm(x)),
/// x += moe(rms_norm(x));  the loss is the cross-entropy of the next byte.  Sums over tokens go
/// over those of all ranks in their order, so threads and ranks do not show in the bits.
class Model {
 public:
  explicit Model(const Rank& rank);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Logits [T, 256] of this rank's windows.  Collective.
  Matrix<float> logits(std::vector<Window> windows, StageRecorder* stages);
  /// The sum of the losses over all ranks' sequences, ascending.  Collective.
  double forward(std::vector<Window> windows, StageRecorder* stages);
  /// Gradients of `share` times that sum, into the parameters.  Collective.
  void backward(float share, StageRecorder* stages);

  Parameters& parameters() { return parameters_; }
  /// How unevenly the experts were used: tokens of the busiest and of the idlest expert of any
  /// layer, as multiples of what each would have if all had the same.
  std::pair<float, float> load() const;
  /// Biases of routers, after a step.
  void balance();

 private:
  struct Layer {
    AttentionBlock attention;
    Norm norm;
    MoeBlock moe;
    std::string name;
  };
  template <typename Task>
  void each_sequence(const Task& task) const;
  void embedding_gradients(const Matrix<float>& dx);

  const Rank rank_;
  Rotary<float> rotary_;
  Parameters parameters_;
  std::deque<Layer> layers_;
  Norm last_;
  Linear head_;
  std::vector<Window> windows_;
  Matrix<float> chances_;  ///< of every byte, after every token
};

}  // namespace mxo::tools

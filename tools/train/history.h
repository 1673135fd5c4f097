// What a run leaves behind besides its weights, step by step.
#pragma once

#include <string>
#include <vector>

#include "tools/train/digest.h"

namespace mxo::tools {

/// Entry i of each list is of step i + 1.
struct History {
  std::vector<float> losses;  ///< mean over the tokens of the step
  std::vector<float> rates;
  std::vector<float> norms;  ///< of the gradients, before clipping
  DigestLog digests;

  Index steps() const { return static_cast<Index>(losses.size()); }
};

/// "step,learning_rate,loss,gradient_norm" and a line each.
std::string loss_csv(const History& history);

/// Mean of the last `steps` losses: what a run is judged by.
inline constexpr Index kFinalSteps = 50;
double final_loss(const History& history);

}  // namespace mxo::tools

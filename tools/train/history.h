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
  std::vector<float> norms;     ///< of the gradients, before clipping
  std::vector<float> held_out;  ///< loss of text that was not trained on; NaN where none was taken
  std::vector<float> busiest;   ///< tokens of the busiest expert, 1 if all had the same
  std::vector<float> idlest;    ///< and of the idlest
  DigestLog digests;

  Index steps() const { return static_cast<Index>(losses.size()); }
};

/// use(name, list) for each list, as checkpoints and loss_csv name them.
template <typename H, typename Use>
void each_list(H& history, const Use& use) {
  use("learning_rate", history.rates);
  use("loss", history.losses);
  use("gradient_norm", history.norms);
  use("held_out", history.held_out);
  use("busiest_expert", history.busiest);
  use("idlest_expert", history.idlest);
}

/// "step", the names of the lists, and a line each; "nan", or empty where no loss was held out.
std::string loss_csv(const History& history);
/// The line of step i + 1.
std::string loss_line(const History& history, std::size_t i);

/// Mean of the last `steps` losses: what a run is judged by.
inline constexpr Index kFinalSteps = 50;
double final_loss(const History& history);

}  // namespace mxo::tools

// The loss table.
#include "tools/train/history.h"

#include <algorithm>

#include <fmt/format.h>

namespace mxo::tools {

std::string loss_csv(const History& history) {
  std::string text = "step,learning_rate,loss,gradient_norm\n";
  for (std::size_t i = 0; i < history.losses.size(); ++i) {
    text +=
        fmt::format("{},{},{},{}\n", i + 1, history.rates[i], history.losses[i], history.norms[i]);
  }
  return text;
}

double final_loss(const History& history) {
  const Index count = std::min(kFinalSteps, history.steps());
  double sum = 0.0;
  for (auto i = static_cast<std::size_t>(history.steps() - count); i < history.losses.size(); ++i) {
    sum += static_cast<double>(history.losses[i]);
  }
  return count > 0 ? sum / static_cast<double>(count) : 0.0;
}

}  // namespace mxo::tools

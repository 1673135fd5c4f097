// The loss table.
#include "tools/train/history.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace mxo::tools {

std::string loss_csv(const History& history) {
  std::string text = "step";
  each_list(history, [&](const char* name, const auto&) { text += fmt::format(",{}", name); });
  text += "\n";
  for (std::size_t i = 0; i < history.losses.size(); ++i) text += loss_line(history, i);
  return text;
}

std::string loss_line(const History& history, std::size_t i) {
  std::string line = std::to_string(i + 1);
  each_list(history, [&](const char*, const std::vector<float>& list) {
    const bool none = std::isnan(list[i]);  // without its sign, which machines choose differently
    line += none ? (&list == &history.held_out ? "," : ",nan") : fmt::format(",{}", list[i]);
  });
  return line + "\n";
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

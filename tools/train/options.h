// What a training run is: its model, its data, its schedule.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "formats/tensor_view.h"

namespace mxo::tools {

/// Everything that decides the bits of a run, but the recipe and the text.  Threads, ranks and
/// the backend do not.  What each is: option_rows().
struct TrainOptions {
  std::uint64_t seed = 1;
  Index steps = 500;
  Index decay_steps = 0;
  Index tokens = 1024;
  Index context = 128;
  Index layers = 2;
  Index width = 128;
  Index heads = 4;
  Index experts = 8;
  Index expert_width = 128;
  Index top_k = 2;
  Index shared_experts = 0;
  std::string score = "softmax";
  Index groups = 1;
  Index limited_groups = 0;
  std::string group_score = "two_best";
  std::string other_groups = "excluded";
  bool normalize = true;
  double scale = 1.0;
  double bias_rate = 0.0;
  std::string linears = "f32";
  std::string sum = "exact";
  std::string format = "e4m3";
  double learning_rate = 3e-3;
  double learning_rate_minimum = -1.0;
  Index warm_up = 25;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double clip = 1.0;

  Index sequences() const { return tokens / context; }
  Index whole_decay() const { return decay_steps > 0 ? decay_steps : steps; }
  double lowest_rate() const {
    return learning_rate_minimum < 0 ? 0.1 * learning_rate : learning_rate_minimum;
  }
  /// Name and value of each, as written in checkpoints.
  std::map<std::string, std::string> described() const;
  /// One of them from such text.  Throws Error(argument).
  void set(std::string_view key, const std::string& value);
};

/// One option: its name with underscores, and what it is.
struct OptionRow {
  std::string_view key;
  std::string_view meaning;
  std::variant<Index TrainOptions::*, std::uint64_t TrainOptions::*, double TrainOptions::*,
               bool TrainOptions::*, std::string TrainOptions::*>
      member;
};
std::span<const OptionRow> option_rows();

/// Throws Error(argument) "<option>: found ..., needs ...".
void check(const TrainOptions& options, int ranks);

}  // namespace mxo::tools

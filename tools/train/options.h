// What a training run is: its model, its data, its schedule.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/tensor_view.h"

namespace mxo::tools {

/// Everything that decides the bits of a run, but the recipe and the text.  Threads, ranks and
/// the backend do not.
struct TrainOptions {
  std::uint64_t seed = 1;
  Index steps = 500;
  Index tokens = 1024;  ///< of a step, all ranks together; a multiple of `context`
  Index context = 128;
  Index layers = 2;
  Index width = 128;
  Index heads = 4;
  Index experts = 8;
  Index expert_width = 128;
  Index top_k = 2;
  double learning_rate = 3e-3;  ///< at its highest
  Index warm_up = 25;           ///< steps
  double weight_decay = 0.1;
  double clip = 1.0;  ///< norm that gradients are scaled down to; 0: as they are

  Index sequences() const { return tokens / context; }
  /// Name and value of each, as written in checkpoints.
  std::map<std::string, std::string> described() const;
};

/// Throws Error(argument) "<option>: found ..., needs ...".
void check(const TrainOptions& options, int ranks);

}  // namespace mxo::tools

// Text that a trained model goes on with.
#pragma once

#include <cstdint>
#include <string>

#include "tools/train/checkpoint.h"

namespace mxo::tools {

struct SampleJob {
  std::string prompt;        ///< 1 byte or more
  Index length = 200;        ///< bytes to add
  double temperature = 0.8;  ///< 0: always the likeliest byte
  std::uint64_t seed = 1;
  std::string backend = "cpu";
  int threads = 0;
};

/// Throws Error(argument) "<option>: found ..., needs ...".
void check(const SampleJob& job);

/// The prompt and what follows: a pure function of the weights, the recipe they were trained in and
/// the job's prompt, length, temperature and seed.
std::string sample(const Snapshot& snapshot, const SampleJob& job);

}  // namespace mxo::tools

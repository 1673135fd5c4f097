// The tables of a run, a line for each step as it is done.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tools/train/history.h"

namespace mxo::tools {

/// Bytes of memory this process has held at most.
std::uint64_t peak_memory();

/// loss.csv, whose bytes any machine repeats, and speed.csv, "step,tokens_per_second,
/// peak_memory_mb", which is of this one.  Lines of steps beyond `history` are taken away first: a
/// run that was killed may have written them.
class RunLog {
 public:
  /// Throws Error(file).
  RunLog(const std::filesystem::path& directory, const History& history);
  /// The last step of `history`, of so many tokens.
  void add(const History& history, Index tokens);

 private:
  std::ofstream loss_;
  std::ofstream speed_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace mxo::tools

// How the tool speaks to a terminal: colour, a progress bar.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "golden/judge/progress.h"
#include "golden/reports/reports.h"

namespace mxo::tools {

/// Colour if stdout is a terminal and NO_COLOR is unset or empty.
Colour stdout_colour();

/// A bar on stderr for work of more than a second; silent unless stderr is a terminal.
/// Hand `callback()` to whatever tells its progress; the bar must outlive it.
class ProgressBar {
 public:
  explicit ProgressBar(bool quiet);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  Progress callback();
  bool seen() const { return enabled_; }

 private:
  using Clock = std::chrono::steady_clock;
  void show(double fraction, std::string_view what);

  bool enabled_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace mxo::tools

// Colour and a progress bar.
#include "tools/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace mxo::tools {
Colour stdout_colour() {
  const char* no = std::getenv("NO_COLOR");  // no-color.org: set and not empty
  const bool wanted = (no == nullptr || *no == '\0') && isatty(STDOUT_FILENO) != 0;
  return wanted ? Colour::on : Colour::off;
}

ProgressBar::ProgressBar(bool quiet) : enabled_(!quiet && isatty(STDERR_FILENO) != 0) {}

Progress ProgressBar::callback() {
  if (!enabled_) return {};
  return [this](double fraction, std::string_view what) { show(fraction, what); };
}

void ProgressBar::show(double fraction, std::string_view what) {
  const Clock::time_point now = Clock::now();
  constexpr auto kPatience = std::chrono::seconds(1);
  constexpr auto kRefresh = std::chrono::milliseconds(100);
  if (now - start_ < kPatience || (drawn_ && now - last_ < kRefresh)) return;
  last_ = now;
  drawn_ = true;
  constexpr std::size_t kWidth = 30;
  constexpr std::size_t kText = 36;
  const double share = std::clamp(fraction, 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kWidth));
  fmt::print(stderr, "\r[{:<{}}] {:3.0f} % {:<{}}", std::string(filled, '#'), kWidth, 100 * share,
             what.substr(0, kText), kText);
  std::fflush(stderr);
}

ProgressBar::~ProgressBar() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
}

}  // namespace mxo::tools

// Colour, one-line errors, a progress bar, name suggestions.
#include "tools/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace mxo::tools {
namespace {

/// Levenshtein's distance: insertions, deletions and replacements from one word to the other.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

Colour stdout_colour() {
  const char* no = std::getenv("NO_COLOR");  // no-color.org: set and not empty
  const bool wanted = (no == nullptr || *no == '\0') && isatty(STDOUT_FILENO) != 0;
  return wanted ? Colour::on : Colour::off;
}

std::string unknown_name(std::string_view kind, std::string_view wanted,
                         const std::vector<std::string>& names) {
  const std::string* nearest = nullptr;
  std::size_t least = std::max<std::size_t>(2, wanted.size() / 3) + 1;
  for (const std::string& name : names) {
    const std::size_t distance = edits(wanted, name);
    if (distance < least) {
      least = distance;
      nearest = &name;
    }
  }
  const std::string known = fmt::format("{}", fmt::join(names, ", "));
  return nearest == nullptr ? fmt::format("unknown {} '{}'; there are {}", kind, wanted, known)
                            : fmt::format("unknown {} '{}', did you mean {}? There are {}", kind,
                                          wanted, *nearest, known);
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

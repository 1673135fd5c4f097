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

/// Bytes of the UTF-8 character that `text` begins with; 0 if it begins with none.
std::size_t utf8_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      line += fmt::format("\\x{:02X}", byte);
      ++i;
    } else {
      line += text.substr(i, length);
      i += length;
    }
  }
  return line;
}

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

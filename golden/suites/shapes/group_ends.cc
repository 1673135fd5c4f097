// Ends of groups by a rule.
#include <algorithm>
#include <charconv>

#include "formats/error.h"
#include "formats/nearest_name.h"
#include "golden/suites/shapes/shaped_call.h"

namespace mxo {
namespace {

constexpr Index kStep = 32;

Index multiple_of(std::string_view rule) {
  const std::size_t equals = rule.find('=');
  if (equals == rule.npos) return kStep;
  Index step = 0;
  const std::string_view text = rule.substr(equals + 1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc{} || end != text.data() + text.size() || step < 1) {
    throw Error(Fault::argument,
                "offsets: found " + std::string(rule) + ", needs jagged=N, N at least 1");
  }
  return step;
}

/// `groups` - 1 different multiples of `step` below `rows`, ascending, and `rows`.
std::vector<Index> jagged(Index groups, Index rows, Index step, std::uint64_t seed) {
  const Index there = rows / step - 1;
  if (rows % step != 0 || there < groups - 1) {
    throw Error(Fault::argument, "offsets: found " + std::to_string(rows) + " rows, needs " +
                                     std::to_string(groups) + " or more multiples of " +
                                     std::to_string(step));
  }
  std::vector<Index> ends;
  const std::uint32_t stream = inputs::stream_of("group_ends");
  for (std::uint64_t draw = 0; static_cast<Index>(ends.size()) < groups - 1; ++draw) {
    const PhiloxWords words = philox(draw, stream, seed);
    const std::uint64_t wide = (std::uint64_t{words.word[1]} << 32) | words.word[0];
    const Index end = step * (1 + static_cast<Index>(wide % static_cast<std::uint64_t>(there)));
    if (std::find(ends.begin(), ends.end(), end) == ends.end()) ends.push_back(end);
  }
  std::sort(ends.begin(), ends.end());
  ends.push_back(rows);
  return ends;
}

}  // namespace

void check_offsets(std::string_view rule) {
  constexpr std::string_view kWhole[] = {"even", "skewed", "empty"};
  if (rule.substr(0, rule.find('=')) == "jagged") {
    multiple_of(rule);
  } else if (std::find(std::begin(kWhole), std::end(kWhole), rule) == std::end(kWhole)) {
    throw Error(Fault::argument,
                unknown_name("offsets", rule, {"even", "jagged", "skewed", "empty"}));
  }
}

std::vector<Index> group_ends_by_rule(std::string_view rule, Index groups, Index rows,
                                      std::uint64_t seed) {
  check_offsets(rule);
  if (rule.substr(0, rule.find('=')) == "jagged") {
    return jagged(groups, rows, multiple_of(rule), seed);
  }
  std::vector<Index> ends;
  const auto down = [rows](Index end) { return rows < kStep ? end : end / kStep * kStep; };
  for (Index g = 1; g < groups; ++g) {
    if (rule == "even") {
      ends.push_back(down(rows * g / groups));
    } else if (rule == "skewed") {
      ends.push_back(down(rows - (rows >> std::min<Index>(g, 62))));
    } else {
      ends.push_back(down(rows * (g / 2 * 2) / groups));
    }
  }
  ends.push_back(rows);
  return ends;
}

}  // namespace mxo

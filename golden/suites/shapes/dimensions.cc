// Dimensions by name.
#include <algorithm>
#include <charconv>

#include "formats/error.h"
#include "formats/nearest_name.h"
#include "golden/suites/shapes/shaped_call.h"

namespace mxo {
namespace {

struct DimensionName {
  std::string_view name;
  char letter;
};
/// The first of a letter is its name; the others are read.
constexpr DimensionName kNames[] = {
    {"rows", 'M'},     {"columns", 'K'},
    {"features", 'N'}, {"groups", 'G'},
    {"matrices", 'B'}, {"top_k", 'S'},
    {"experts", 'X'},  {"ranks", 'P'},
    {"tokens", 'M'},   {"hidden", 'K'},
    {"M", 'M'},        {"K", 'K'},
    {"N", 'N'},        {"intermediate", 'N'},
    {"E", 'G'},        {"R", 'M'},
    {"T", 'M'},        {"D", 'K'},
    {"F", 'N'},        {"G", 'G'},
};

Index number(std::string_view text, std::string_view key) {
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr Index kMost = Index{1} << 31;
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > kMost) {
    throw Error(Fault::argument, "shape: " + std::string(key) + ": found '" + std::string(text) +
                                     "', needs a number from 1 to 2^31");
  }
  return value;
}

}  // namespace

std::string_view name_of_dimension(char letter) {
  return std::find_if(std::begin(kNames), std::end(kNames),
                      [letter](const DimensionName& row) { return row.letter == letter; })
      ->name;
}

Dimensions parse_dimensions(std::string_view text) {
  Dimensions dimensions;
  std::vector<std::string_view> names;
  for (const DimensionName& word : kNames) names.push_back(word.name);
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t equals = part.find('=');
    if (equals == part.npos) {
      throw Error(Fault::argument, "shape: found '" + std::string(part) +
                                       "', needs DIMENSION=EXTENT,.., as rows=384,columns=7168");
    }
    const std::string_view name = part.substr(0, equals);
    const auto* word = std::find_if(std::begin(kNames), std::end(kNames),
                                    [&](const DimensionName& known) { return known.name == name; });
    if (word == std::end(kNames)) {
      throw Error(Fault::argument, unknown_name("dimension", name, names));
    }
    if (!dimensions.emplace(word->letter, number(part.substr(equals + 1), name)).second) {
      throw Error(Fault::argument,
                  "shape: found " + std::string(name_of_dimension(word->letter)) + " twice");
    }
  }
  return dimensions;
}

std::string to_text(const Dimensions& dimensions) {
  std::string text;
  for (const DimensionName& word : kNames) {
    const auto at = dimensions.find(word.letter);
    if (at == dimensions.end() || word.name != name_of_dimension(word.letter)) continue;
    text += (text.empty() ? "" : ",") + std::string(word.name) + "=" + std::to_string(at->second);
  }
  return text;
}

}  // namespace mxo

// Levenshtein's distance between names.
#include "formats/nearest_name.h"

#include <algorithm>
#include <cctype>

namespace mxo {
namespace {

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

/// Insertions, deletions and replacements from one word to the other; the case of letters is free.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min(
          {above + 1, row[j - 1] + 1, diagonal + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

/// Names that are listed beside the nearest one; more would hide it.
constexpr std::size_t kMostListedBeside = 32;

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) {
    text += text.empty() ? "" : ", ";
    text += name;
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::string_view nearest_name(std::string_view wanted, const std::vector<std::string_view>& names) {
  std::string_view nearest;
  std::size_t best = std::max<std::size_t>(1, wanted.size() / 3) + 1;
  for (const std::string_view name : names) {
    const std::size_t distance = edits(wanted, name);
    if (distance < best && distance < name.size()) {  // something of it must be left
      best = distance;
      nearest = name;
    }
  }
  return nearest;
}

std::string with_nearest(std::string said, std::string_view wanted,
                         const std::vector<std::string_view>& names, std::string choice) {
  const std::string_view nearest = nearest_name(wanted, names);
  if (nearest.empty()) {
    said += choice.starts_with("needs") ? ", " : "; ";
  } else {
    said += ", did you mean " + std::string(nearest) + "?";
    if (names.size() > kMostListedBeside) return said;
    said += " ";
    choice[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(choice[0])));
  }
  return said + choice + " " + joined(names);
}

std::string unknown_name(std::string_view kind, std::string_view wanted,
                         const std::vector<std::string_view>& names) {
  return with_nearest("unknown " + std::string(kind) + " '" + std::string(wanted) + "'", wanted,
                      names, "there are");
}

}  // namespace mxo

// Ranges, periods, groups.
#include "golden/explain/words/places.h"

namespace mxo {
namespace {

constexpr std::size_t kShown = 4;  ///< ranges that are written out

struct Run {
  Index first;
  Index last;
};

std::vector<Run> runs_of(const std::vector<Index>& sorted) {
  std::vector<Run> found;
  for (const Index i : sorted) {
    if (!found.empty() && found.back().last + 1 == i) {
      found.back().last = i;
    } else {
      found.push_back({i, i});
    }
  }
  return found;
}

/// The remainders that all of `sorted` have, and have wholly but for the ends: {} if there is no
/// such period.
std::vector<Index> remainders(const std::vector<Index>& sorted, Index period) {
  std::vector<Index> count(static_cast<std::size_t>(period));
  for (const Index i : sorted) ++nth(count, i % period);
  const Index first = sorted.front() / period * period;
  const Index periods = sorted.back() / period - first / period + 1;
  std::vector<Index> kept;
  for (Index i = 0; i < period; ++i) {
    const Index n = nth(count, i);
    if (n == 0) continue;
    if (n + 2 < periods || n * 2 <= periods || periods < 3) return {};
    kept.push_back(i);
  }
  const auto all = static_cast<Index>(kept.size()) * periods;
  if (static_cast<Index>(sorted.size()) * 4 < all * 3) return {};
  // All remainders are no period.
  return static_cast<Index>(kept.size()) == period ? std::vector<Index>{} : kept;
}

constexpr Index kPeriods[] = {2, 4, 8, 16, 32, 64, 128, 256};

std::string listed(const std::vector<Run>& found, std::string_view to, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i > 0) text += i + 1 == found.size() ? std::string(last) : ", ";
    text += std::to_string(found[i].first);
    if (found[i].last > found[i].first) text += std::string(to) + std::to_string(found[i].last);
  }
  return text;
}

/// The groups that the rows lie in, and whether they are those groups altogether.
struct InGroups {
  std::vector<Index> groups;
  bool complete = true;
};

InGroups groups_of_rows(const Output& output, const std::vector<Index>& rows) {
  InGroups in;
  Index begin = 0;
  for (std::size_t g = 0; g < output.ends.size(); ++g) {
    const Index end = output.ends[g];
    const auto from = std::lower_bound(rows.begin(), rows.end(), begin);
    const auto to = std::lower_bound(rows.begin(), rows.end(), end);
    if (to > from) {
      in.groups.push_back(static_cast<Index>(g));
      in.complete = in.complete && to - from == end - begin;
    }
    begin = end;
  }
  return in;
}

Index begin_of(const Output& output, Index group) {
  return group == 0 ? 0 : output.ends[static_cast<std::size_t>(group) - 1];
}

}  // namespace

Index runs(const std::vector<Index>& sorted) { return static_cast<Index>(runs_of(sorted).size()); }

bool is_pattern(const std::vector<Index>& sorted) {
  if (runs_of(sorted).size() <= kShown) return true;
  return std::any_of(std::begin(kPeriods), std::end(kPeriods), [&](Index period) {
    const std::vector<Run> kept = runs_of(remainders(sorted, period));
    return !kept.empty() && kept.size() <= kShown;
  });
}

std::vector<Index> joined(const std::vector<Index>& sorted, const std::vector<std::uint8_t>& idle,
                          const std::vector<Index>& ends) {
  const auto n = static_cast<Index>(idle.size());
  std::vector<std::uint8_t> given(idle.size());
  for (const Index i : sorted) nth(given, i) = 1;
  const auto no_other = [&](Index i) { return nth(given, i) != 0 || nth(idle, i) != 0; };
  const auto is_end = [&](Index i) {
    return i == 0 || i == n || std::find(ends.begin(), ends.end(), i) != ends.end();
  };
  std::vector<Index> between;
  for (Index i = 0; i < n; ++i) {
    // A run with what is idle around it, as far as that reaches an end of groups.
    const Index begin = i;
    while (i < n && no_other(i)) ++i;
    const auto from = std::lower_bound(sorted.begin(), sorted.end(), begin);
    const auto to = std::lower_bound(sorted.begin(), sorted.end(), i);
    if (from == to) continue;
    Index first = *from;
    Index last = *(to - 1);
    while (first > begin && !is_end(first)) --first;
    while (last + 1 < i && !is_end(last + 1)) ++last;
    if (!is_end(first)) first = *from;
    if (!is_end(last + 1)) last = *(to - 1);
    for (Index j = first; j <= last; ++j) between.push_back(j);
  }
  if (runs_of(between).size() <= kShown) return between;
  for (const Index period : kPeriods) {
    std::vector<std::uint8_t> rest(static_cast<std::size_t>(period));
    for (const Index i : sorted) nth(rest, i % period) = 1;
    std::vector<Index> all;
    bool fits = true;
    for (Index i = 0; i < n; ++i) {
      if (nth(rest, i % period) == 0) continue;
      fits = fits && no_other(i);
      all.push_back(i);
    }
    if (fits && is_pattern(all) && static_cast<Index>(all.size()) < n) return all;
  }
  return sorted;
}

std::string ranges(const std::vector<Index>& sorted) {
  const std::vector<Run> found = runs_of(sorted);
  if (found.size() <= kShown) return listed(found, "-", ", ");
  for (const Index period : kPeriods) {
    const std::vector<Run> kept = runs_of(remainders(sorted, period));
    if (!kept.empty() && kept.size() <= kShown)
      return listed(kept, "-", ", ") + " mod " + std::to_string(period);
  }
  return std::to_string(sorted.size()) + " of " + std::to_string(sorted.front()) + "-" +
         std::to_string(sorted.back());
}

std::string ranges_in_words(std::string_view noun, const std::vector<Index>& sorted, Index all) {
  const std::vector<Run> found = runs_of(sorted);
  const std::string plural = std::string(noun) + (sorted.size() == 1 ? " " : "s ");
  if (found.size() <= kShown) return plural + listed(found, " to ", " and ");
  for (const Index period : kPeriods) {
    const std::vector<Index> rest = remainders(sorted, period);
    const std::vector<Run> kept = runs_of(rest);
    if (kept.empty() || kept.size() > kShown) continue;
    const std::string first = std::to_string(sorted.front());
    // Where it does not go on to the end.
    const bool ends = sorted.back() / period < (all - 1) / period;
    const std::string last = ends ? std::to_string(sorted.back()) : std::string();
    if (rest.size() == 1)
      return "every " + std::to_string(period) + (period % 10 == 2 ? "nd " : "th ") +
             std::string(noun) + " from " + first + (ends ? " to " + last : "");
    const bool begins = sorted.front() >= period;
    return plural + listed(kept, " to ", " and ") + " of every " + std::to_string(period) +
           (begins ? " from " + first : "") + (ends ? (begins ? " to " : " up to ") + last : "");
  }
  return std::to_string(sorted.size()) + " " + plural + "between " +
         std::to_string(sorted.front()) + " and " + std::to_string(sorted.back());
}

bool Place::one() const {
  return words.starts_with("row ") || words.starts_with("column ") || words.starts_with("element ");
}

Place place_of(const Output& output, std::vector<Index> rows, std::vector<Index> columns) {
  Place place;
  place.where.tensor = output.name;
  const bool all_rows = static_cast<Index>(rows.size()) == output.compared_rows;
  const bool all_columns = static_cast<Index>(columns.size()) == output.columns;
  const InGroups in = groups_of_rows(output, rows);
  if (!all_rows) {
    if (!in.groups.empty()) place.where.groups = ranges(in.groups);
    place.where.rows = ranges(rows);
  }
  if (!all_columns) place.where.columns = ranges(columns);
  const bool flat = output.rows == 1;
  const std::string along = ranges_in_words(flat ? "element" : "column", columns, output.columns);
  const std::string group(output.group);
  std::string words = all_columns ? "" : along;
  if (!all_rows) {
    if (!words.empty()) words += " of ";
    if (!in.groups.empty() && in.complete && in.groups.size() < output.ends.size()) {
      words += (words.empty() ? "all of " : "") + ranges_in_words(group, in.groups);
    } else if (in.groups.size() == 1 && output.ends.size() > 1) {
      // Rows are counted in the whole tensor; an expert's own matrix has its own.
      const Index begin = output.group == "expert" ? begin_of(output, in.groups.front()) : 0;
      std::vector<Index> own = rows;
      for (Index& r : own) r -= begin;
      words +=
          ranges_in_words("row", own) + " of " + group + " " + std::to_string(in.groups.front());
    } else {
      words += ranges_in_words("row", rows, output.compared_rows);
    }
  }
  place.words = words.empty() ? "all of " + output.name : words + " of " + output.name;
  place.rows = std::move(rows);
  place.columns = std::move(columns);
  return place;
}

std::vector<Index> marked(const std::vector<std::uint8_t>& marks) {
  std::vector<Index> found;
  for (std::size_t i = 0; i < marks.size(); ++i)
    if (marks[i]) found.push_back(static_cast<Index>(i));
  return found;
}

}  // namespace mxo

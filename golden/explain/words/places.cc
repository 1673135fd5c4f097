// Where elements lie: ranges, periods, groups; and what is left of them looks like: places,
// distances, kinds.
#include "golden/explain/words/places.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include "golden/judge/elements.h"

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
  for (const Index i : sorted) ++count[static_cast<std::size_t>(i % period)];
  const Index first = sorted.front() / period * period;
  const Index periods = sorted.back() / period - first / period + 1;
  std::vector<Index> kept;
  for (Index i = 0; i < period; ++i) {
    const Index n = count[static_cast<std::size_t>(i)];
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

/// Figures of the elements that are left.
struct Figures {
  Index n = 0;
  Index up = 0;
  Index down = 0;
  Index one_step = 0;
  Index nan = 0;      ///< came as NaN where a number is compared
  Index not_nan = 0;  ///< a number where NaN is compared
  Index infinite = 0;
  Index zero = 0;
  Index sign = 0;
  std::uint64_t bits = 0;  ///< that ever differ
  double signal = 0;
  double noise = 0;
  double got = 0;    ///< sum of squares
  double cross = 0;  ///< sum of products of what is expected and the actual output
  /// What came is nearly this multiple of what is expected; `far` is the rest of it, as a share.
  double factor() const { return cross / signal; }
  double far() const { return 1.0 - cross * cross / (signal * got); }
};

Figures figures_of(const Output& output) {
  const ElementReader read(output.expected->dtype());
  Figures f;
  for (Index i = 0; i < output.compared_rows * output.columns; ++i) {
    if (output.marks[static_cast<std::size_t>(i)] != Mark::differs) continue;
    ++f.n;
    const std::uint64_t a = output.expected_bits(i);
    const std::uint64_t b = output.actual_bits(i);
    const Element want = read(a);
    const Element got = read(b);
    f.bits |= a ^ b;
    if (got.nan || want.nan) {
      f.nan += got.nan;
      f.not_nan += want.nan;
      continue;
    }
    f.infinite += got.infinite && !want.infinite;
    f.zero += got.value == 0.0;
    f.sign += want.value == -got.value;
    f.up += std::abs(got.value) > std::abs(want.value);
    f.down += std::abs(got.value) < std::abs(want.value);
    f.one_step += ulp_distance(want.order, got.order) == 1;
    if (want.infinite || got.infinite) continue;
    f.signal += want.value * want.value;
    f.noise += (want.value - got.value) * (want.value - got.value);
    f.got += got.value * got.value;
    f.cross += want.value * got.value;
  }
  return f;
}

constexpr Index kFewNumbers = 3;  ///< that are told one by one

bool is_integer(Dtype dtype) { return dtype == Dtype::i32 || dtype == Dtype::i64; }

std::int64_t integer(const Tensor& t, Index i) {
  return t.dtype() == Dtype::i32 ? t.as<std::int32_t>()[i] : t.as<std::int64_t>()[i];
}

/// "element 5 is 96 rather than 64"; of ends of groups what they say of rows.
std::string integers_in_words(const Output& o) {
  std::string text;
  const bool ends = o.name.ends_with("ends");
  for (Index i = 0; i < o.compared_rows * o.columns; ++i) {
    if (o.marks[static_cast<std::size_t>(i)] != Mark::differs) continue;
    const std::int64_t got = integer(*o.actual, i);
    text += (text.empty() ? "" : ", ") + std::string(ends ? "group " : "element ") +
            std::to_string(i) + (ends ? " ends at " : " is ") + std::to_string(got) +
            " rather than " + std::to_string(integer(*o.expected, i));
    if (!ends) continue;
    const std::int64_t rows = got - (i == 0 ? 0 : integer(*o.actual, i - 1));
    text += rows == 0  ? ": it has no rows"
            : rows < 0 ? ": before the group before it"
                       : ": it has " + std::to_string(rows) + (rows == 1 ? " row" : " rows");
  }
  return text;
}

void add(std::string& text, const std::string& words) { text += "; " + words; }

std::string of_all(Index some, Index all) {
  if (some == all) return "all";
  return std::to_string(some) + " of " + std::to_string(all);
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
  for (const Index i : sorted) given[static_cast<std::size_t>(i)] = 1;
  const auto no_other = [&](Index i) {
    return given[static_cast<std::size_t>(i)] != 0 || idle[static_cast<std::size_t>(i)] != 0;
  };
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
    for (const Index i : sorted) rest[static_cast<std::size_t>(i % period)] = 1;
    std::vector<Index> all;
    bool fits = true;
    for (Index i = 0; i < n; ++i) {
      if (rest[static_cast<std::size_t>(i % period)] == 0) continue;
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
    if (!kept.empty() && kept.size() <= kShown) {
      return listed(kept, "-", ", ") + " mod " + std::to_string(period);
    }
  }
  return std::to_string(sorted.size()) + " of " + std::to_string(sorted.front()) + "-" +
         std::to_string(sorted.back());
}

std::string ranges_in_words(std::string_view noun, const std::vector<Index>& sorted) {
  const std::vector<Run> found = runs_of(sorted);
  const std::string plural = std::string(noun) + (sorted.size() == 1 ? " " : "s ");
  if (found.size() <= kShown) return plural + listed(found, " to ", " and ");
  for (const Index period : kPeriods) {
    const std::vector<Index> rest = remainders(sorted, period);
    const std::vector<Run> kept = runs_of(rest);
    if (kept.empty() || kept.size() > kShown) continue;
    if (rest.size() == 1) {
      return "every " + std::to_string(period) + (period % 10 == 2 ? "nd " : "th ") +
             std::string(noun) + " from " + std::to_string(sorted.front());
    }
    return plural + listed(kept, " to ", " and ") + " of every " + std::to_string(period);
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
  const std::string along =
      flat ? ranges_in_words("element", columns) : ranges_in_words("column", columns);
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
      words += ranges_in_words("row", rows);
    }
  }
  place.words = words.empty() ? "all of " + output.name : words + " of " + output.name;
  place.rows = std::move(rows);
  place.columns = std::move(columns);
  return place;
}

std::vector<Index> marked(const std::vector<std::uint8_t>& marks) {
  std::vector<Index> found;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (marks[i]) found.push_back(static_cast<Index>(i));
  }
  return found;
}

std::string pattern_of(const Output& output) {
  if (output.left == 0) return {};
  const Place place = place_of(
      output, [&](Index i) { return output.marks[static_cast<std::size_t>(i)] == Mark::differs; });
  const Figures f = figures_of(output);
  const auto box =
      static_cast<double>(place.rows.size()) * static_cast<double>(place.columns.size());
  std::string text = std::to_string(f.n) + (f.n == 1 ? " element differs" : " elements differ") +
                     " in " + place.words;
  if (f.n > 1 && static_cast<double>(f.n) < 0.9 * box) {
    const int percent = static_cast<int>(100.0 * static_cast<double>(f.n) / box);
    add(text, (percent < 1 ? std::string("less than 1") : std::to_string(percent)) +
                  " % of the elements there");
  }
  if (is_integer(output.expected->dtype())) {
    if (f.n <= kFewNumbers) add(text, integers_in_words(output));
    return text;
  }
  if (f.nan > 0) add(text, of_all(f.nan, f.n) + " are NaN where a number is expected");
  if (f.not_nan > 0) add(text, of_all(f.not_nan, f.n) + " are numbers where NaN is expected");
  if (f.infinite > 0) add(text, of_all(f.infinite, f.n) + " are infinite");
  const Index numbers = f.n - f.nan - f.not_nan;
  if (numbers > 0) {
    if (f.zero * 2 > numbers) add(text, of_all(f.zero, f.n) + " are zero");
    if (f.sign * 2 > numbers) add(text, of_all(f.sign, f.n) + " have the other sign");
    if (f.one_step * 10 >= numbers * 9) {
      add(text, of_all(f.one_step, f.n) + " are neighbours of what is expected" +
                    (f.up == numbers     ? ", all larger in magnitude"
                     : f.down == numbers ? ", all smaller in magnitude"
                                         : ", larger and smaller"));
    } else if (f.up == numbers && numbers > 4) {
      add(text, "all are larger in magnitude");
    } else if (f.down == numbers && numbers > 4 && f.zero < numbers) {
      add(text, "all are smaller in magnitude");
    }
    if (std::has_single_bit(f.bits))
      add(text, "only bit " + std::to_string(std::countr_zero(f.bits)));
    if (f.noise > 0 && f.signal > 0) {
      const double db = 10.0 * std::log10(f.signal / f.noise);
      std::string figure = std::to_string(db);
      add(text, figure.substr(0, figure.find('.') + 2) + " dB among them");
      constexpr double kNearly = 1e-4;  // 40 dB
      if (is_wide_float(output.expected->dtype()) && f.n >= 16 && f.got > 0 && f.far() < kNearly &&
          std::abs(f.factor() - 1.0) > 0.02) {
        char factor[32];
        std::snprintf(factor, sizeof factor, "%.4g", f.factor());
        add(text, std::string("they are nearly what is expected times ") + factor);
      }
    }
  }
  return text;
}

}  // namespace mxo

// Which candidates are worth a closer look: places, scattered rows and contradictions.
#include <algorithm>

#include "golden/explain/confirm/altered_call_runner.h"

namespace mxo {
namespace {

constexpr Index kMostRuns = 6;  ///< of window rows, for a part to be a place
constexpr Index kFewRuns = 4;   ///< that are a pattern without a period
constexpr Index kLeastRun = 4;  ///< rows of such a run, where more are missed than given

/// Whether row `r` of a patch says nothing of a place: the model alters nothing there.
bool is_idle(const std::vector<std::uint8_t>& idle, std::size_t r) {
  return r < idle.size() && idle[r] != 0;
}

/// Whether a model gives something in row `r` of a patch.
bool gives_in(const Variant& patch, const VariantMatch& c, std::size_t r) {
  const auto columns = static_cast<std::ptrdiff_t>(patch.columns.size());
  const auto begin = c.mask.begin() + static_cast<std::ptrdiff_t>(r) * columns;
  return std::find(begin, begin + columns, 1) != begin + columns;
}

/// Whether what a model gives is here and there among more that it alters and does not give, as
/// rows are to which two causes do the same.
bool is_scattered(const Variant& patch, const VariantMatch& c,
                  const std::vector<std::uint8_t>& idle) {
  const auto height = static_cast<Index>(patch.rows.size());
  if (c.misses <= c.hits || height < 2 || patch.rows.back() - patch.rows.front() + 1 != height)
    return false;
  std::vector<Index> given;  // numbers of rows that it alters
  std::vector<Index> rows;
  Index number = 0;
  for (std::size_t r = 0; r < patch.rows.size(); ++r) {
    if (is_idle(idle, r)) continue;
    if (gives_in(patch, c, r)) {
      given.push_back(number);
      rows.push_back(static_cast<Index>(r));
    }
    ++number;
  }
  const bool periodic = runs(given) > kFewRuns &&
                        (is_pattern(given) ||
                         (idle.size() == patch.rows.size() && is_pattern(joined(rows, idle, {}))));
  return !given.empty() && static_cast<Index>(given.size()) < kLeastRun * runs(given) && !periodic;
}

/// Turns from rows that a model explains to rows that it does not.
bool is_a_place(const RunResult& trial) {
  if (trial.broken == 0) return true;
  for (std::size_t o = 0; o < trial.credits.size(); ++o) {
    const Variant& patch = trial.patches[o];
    const VariantMatch& c = trial.credits[o];
    const std::vector<std::uint8_t> idle =
        o < trial.idle.size() ? trial.idle[o] : std::vector<std::uint8_t>{};
    if (c.by_columns) continue;
    if (is_scattered(patch, c, idle)) return false;
    Index turns = 0;
    bool before = false;
    for (std::size_t r = 0; r < patch.rows.size(); ++r) {
      if (is_idle(idle, r)) continue;
      const bool now = gives_in(patch, c, r);
      turns += now != before;
      before = now;
    }
    if (turns > 2 * kMostRuns && c.fixed * 10 < c.seen * 9) return false;
  }
  return true;
}

/// A rule of scales that gives some codes by chance, and other scales than those that came right.
bool contradicts_scales(const Hypothesis& h, const RunResult& trial) {
  if (h.target != Target::scale_rule) return false;
  Index fixed = 0;
  Index seen = 0;
  bool wrong = false;
  for (const VariantMatch& c : trial.credits) {
    fixed += c.fixed;
    seen += c.seen;
    wrong = wrong || (c.seen == 0 && c.broken > 0);
  }
  return wrong && fixed < seen;
}

/// Whether rows that an end's move gives stop amid others that differ: it lies further on.
bool below_threshold(const Output& output, const Variant& patch, const VariantMatch& c) {
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(output.rows));
  std::vector<std::uint8_t> given(seen.size());
  for (std::size_t r = 0; r < patch.rows.size(); ++r) {
    seen[static_cast<std::size_t>(patch.rows[r])] = 1;
    given[static_cast<std::size_t>(patch.rows[r])] = gives_in(patch, c, r);
  }
  const auto stops_amid = [&](Index row, Index step) {
    const Index first = row;
    while (row >= 0 && row < output.compared_rows && given[static_cast<std::size_t>(row)])
      row += step;
    return row != first && row >= 0 && row < output.compared_rows &&
           seen[static_cast<std::size_t>(row)] &&
           output.differs_in(row * output.columns, output.columns);
  };
  return std::any_of(output.ends.begin(), output.ends.end(),
                     [&](Index end) { return stops_amid(end - 1, -1) || stops_amid(end, 1); });
}

}  // namespace

bool worth_running(const RunResult& trial) {
  return trial.fixed > 0 && trial.fixed * 50 >= trial.seen && is_a_place(trial);
}

/// A tensor has one format, a call one alignment, and ranks exchange all rows or none: what gives
/// some rows only is none of these.  An end that is moved too far alters more rows than came so, or
/// not all that did.
bool contradicts(const Hypothesis& h, const RunResult& trial, const std::vector<Output>& outputs) {
  if (h.target == Target::group_ends) {
    Index gives = 0;
    bool short_of = false;
    for (std::size_t o = 0; o < trial.credits.size(); ++o) {
      const VariantMatch& c = trial.credits[o];
      gives += c.hits - c.misses;
      short_of = short_of || below_threshold(outputs[o], trial.patches[o], c);
    }
    if (gives < 0 || short_of) return true;
  }
  return (h.target == Target::format && trial.broken > 0) || contradicts_scales(h, trial);
}

}  // namespace mxo

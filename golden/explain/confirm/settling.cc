// Places, scattered rows and contradictions; whole runs, pieces, and windows that stand for the
// rest.
#include "golden/explain/confirm/settling.h"

#include <algorithm>

#include "golden/explain/case/indices.h"
#include "golden/explain/words/places.h"

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

constexpr double kTallWork = 3e9;      ///< multiply-adds of a confirmation
constexpr double kExactWork = 1.2e11;  ///< the same of exact sums of one-byte codes
constexpr double kHostWork = 2e8;      ///< the same of sums that are added up here
constexpr double kPieceWork = 1e6;     ///< what a run costs besides
constexpr Index kSparse = 64;          ///< elements that are too few to tell sums apart

std::string name_of(const Hypotheses& hypotheses) {
  std::string text;
  for (const Hypothesis* h : hypotheses) text += (text.empty() ? "" : "+") + h->name;
  return text;
}

/// Marks the elements of an output that a run gave.
void mark_given(const Output& output, const RunResult& run, std::vector<std::uint8_t>& given) {
  const Variant& patch = run.patches.front();
  const VariantMatch& c = run.credits.front();
  for (std::size_t i = 0; i < c.mask.size(); ++i) {
    if (!c.mask[i]) continue;
    const Index row = patch.rows[i / patch.columns.size()];
    const Index column = patch.columns[i % patch.columns.size()];
    given[static_cast<std::size_t>(row * output.columns + column)] = 1;
  }
}

Place place_of_marked(const Output& output, const std::vector<std::uint8_t>& marks) {
  return place_of(output, [&](Index i) { return marks[static_cast<std::size_t>(i)] != 0; });
}

/// What is explained, and in which words.
class Settling {
 public:
  Settling(AlteredCallRunner& runner, const Candidate& candidate)
      : runner_(runner), candidate_(&candidate) {}

  std::vector<Claim> claims() {
    std::vector<Claim> found;
    Candidate confirmed;
    if (runner_.by_rows()) {
      runner_.choose_whole();
      auto trial = runner_.run(candidate_->hypotheses);
      if (!trial) return {};
      confirmed = {candidate_->hypotheses, std::move(*trial)};
      candidate_ = &confirmed;
    }
    if (!runner_.windowed()) {
      for (std::size_t o = 0; o < runner_.outputs().size(); ++o) mark_run(o);
    } else {
      mark_window();
    }
    if (elements_ == 0) return {};
    if (!runner_.windowed()) words_ += kept_in_words(candidate_->trial, runner_.outputs());
    Claim claim;
    claim.id = name_of(candidate_->hypotheses);
    claim.where = where_;
    claim.elements = static_cast<double>(elements_);
    claim.confirmed = confirmed_;
    claim.measured = std::any_of(candidate_->hypotheses.begin(), candidate_->hypotheses.end(),
                                 [](const Hypothesis* h) { return h->measured; });
    claim.sentence = phrase_of(candidate_->hypotheses) + words_;
    for (const Hypothesis* h : candidate_->hypotheses) {
      if (!runner_.windowed()) claim.made_by.push_back(*h);
    }
    found.push_back(std::move(claim));
    return found;
  }

 private:
  /// The whole was run: its credit is what is explained.
  void mark_run(std::size_t o) {
    Output& output = runner_.outputs()[o];
    const VariantMatch& c = candidate_->trial.credits[o];
    if (c.fixed == 0) return;
    std::vector<std::uint8_t> given = c.mask;
    given.resize(output.marks.size());
    settle_marked(output, given, c.fixed == output.left && c.broken == 0 && c.astray == 0);
  }

  /// The place of what the whole gave, with the lines between in which nothing is altered.
  Place whole_place(const Output& output, const std::vector<std::uint8_t>& marks) const {
    Place place = place_of_marked(output, marks);
    const RunResult& trial = candidate_->trial;
    const auto o = static_cast<std::size_t>(&output - runner_.outputs().data());
    if (o >= trial.idle.size() || trial.idle[o].empty()) return place;
    const bool by_columns = trial.credits[o].by_columns;
    // Where something else differs, it is not that nothing was altered.
    std::vector<std::uint8_t> idle = trial.idle[o];
    for (Index i = 0; i < output.compared_rows * output.columns; ++i) {
      const Index line = by_columns ? i % output.columns : i / output.columns;
      if (output.differs(i)) idle[static_cast<std::size_t>(line)] = 0;
    }
    std::vector<Index>& lines = by_columns ? place.columns : place.rows;
    lines = joined(lines, idle, by_columns ? std::vector<Index>{} : output.ends);
    if (by_columns) place.rows = range_of(output.compared_rows);
    Place told = place_of(output, std::move(place.rows), std::move(place.columns));
    told.elements = place.elements;
    return told;
  }

  /// Settles the elements that are marked, and says where they lie unless they are all.
  void settle_marked(Output& output, const std::vector<std::uint8_t>& marks, bool all) {
    const Place place =
        runner_.windowed() ? place_of_marked(output, marks) : whole_place(output, marks);
    if (runner_.windowed()) {
      all = all && place.elements == output.differing && !output.live.is_part() &&
            static_cast<Index>(place.rows.size()) == output.compared_rows;
    }
    say(place, !all);
    for (std::size_t i = 0; i < marks.size(); ++i) {
      if (marks[i]) output.mark_explained(static_cast<Index>(i));
    }
    elements_ += place.elements;
  }

  void say(const Place& place, bool rest) {
    if (where_.tensor.empty()) {
      where_ = place.where;
    } else {
      where_.tensor += ", " + place.where.tensor;
    }
    if (rest) words_ += (words_.empty() ? ", in " : " and ") + place.words;
  }

  /// Elements that fail, in pieces of neighbouring rows with the columns that fail in these.
  std::vector<Window> pieces() const {
    const Window bad = runner_.failing();
    const double box =
        static_cast<double>(bad.rows.size()) * static_cast<double>(bad.columns.size());
    const bool dense = static_cast<double>(runner_.outputs().front().left) > 0.05 * box;
    const std::size_t height = dense ? 1024 : 8;
    std::vector<Window> list;
    for (std::size_t at = 0; at < bad.rows.size(); at += height) {
      const std::size_t end = std::min(at + height, bad.rows.size());
      Window piece;
      piece.rows.assign(bad.rows.begin() + static_cast<std::ptrdiff_t>(at),
                        bad.rows.begin() + static_cast<std::ptrdiff_t>(end));
      piece.columns = runner_.failing_columns(piece.rows);
      list.push_back(runner_.widened(std::move(piece)));
    }
    return list;
  }

  /// Multiply-adds that may be spent on every element that fails.
  double most_work(const Call& altered) const {
    for (const Hypothesis* h : candidate_->hypotheses) {
      if (h->run) return kHostWork;
    }
    if (altered.set.text("sum", "exact") != "exact") return kTallWork;
    return runner_.narrow() ? kExactWork : kExactWork / 8;
  }

  /// Every element that fails is computed with the cause, if the work allows.
  bool mark_each() {
    const std::optional<Call> altered = runner_.altered(candidate_->hypotheses);
    if (!altered) return false;
    const std::vector<Window> list = pieces();
    double work = 0.0;
    for (const Window& piece : list) {
      work += kPieceWork + runner_.work(static_cast<Index>(piece.rows.size()),
                                        static_cast<Index>(piece.columns.size()));
    }
    if (list.empty() || work > most_work(*altered)) return false;
    Output& output = runner_.outputs().front();
    std::vector<std::uint8_t> fixed(output.marks.size());
    bool all = true;
    for (const Window& piece : list) {
      runner_.take(piece);
      const std::optional<RunResult> trial = runner_.run(candidate_->hypotheses, *altered);
      if (!trial) return false;
      all = all && trial->broken == 0;
      mark_given(output, *trial, fixed);
    }
    // Another sum or rounding is that of every element, or of none.
    const bool of_all = std::any_of(
        candidate_->hypotheses.begin(), candidate_->hypotheses.end(),
        [](const Hypothesis* h) { return h->stage == Stage::sum || h->stage == Stage::output; });
    if (of_all && !all) return true;
    if (of_all && output.left < kSparse && !holds_elsewhere(*altered)) return true;
    settle_marked(output, fixed, all);
    return true;
  }

  /// Few neighbours are what many sums give: this one may alter no others, where nothing differs.
  bool holds_elsewhere(const Call& altered) {
    const Output& output = runner_.outputs().front();
    Window wide;
    wide.columns = range_of(output.columns);
    wide.rows = range_of(lines(output));
    wide.rows = evenly_spread(
        wide.rows, static_cast<Index>(kHostWork / std::max(1.0, runner_.work(1, output.columns))));
    if (wide.rows.empty()) wide.rows = {0};
    runner_.take(wide);
    const std::optional<RunResult> trial = runner_.run(candidate_->hypotheses, altered);
    return trial && trial->broken == 0;
  }

  /// A window was run: its rows and columns are extended over all that fail, each on its own.
  void mark_window() {
    if (mark_each()) return;
    Output& output = runner_.outputs().front();
    const Index failing = output.left;
    const Window bad = runner_.failing();
    // All failing rows in some columns, as far as the work allows.
    Window tall = bad;
    Index width = 32;
    while (width > 4 && runner_.work(static_cast<Index>(bad.rows.size()), width) > kTallWork)
      width /= 2;
    tall.columns = evenly_spread(tall.columns, width);
    tall.rows = evenly_spread(
        tall.rows, static_cast<Index>(kTallWork / std::max(1.0, runner_.work(1, width))));
    const std::optional<RunResult> down = run(tall);
    if (!down) return;
    std::vector<std::uint8_t> given(output.marks.size());
    mark_given(output, *down, given);
    const std::vector<Index> rows = place_of_marked(output, given).rows;
    // Some of those rows in all columns.
    Window wide = bad;
    wide.rows.clear();
    for (const Index r : rows) {
      const Index line = r % lines(output);
      if (wide.rows.empty() || wide.rows.back() < line) wide.rows.push_back(line);
    }
    const double row_work = runner_.work(1, static_cast<Index>(bad.columns.size()));
    wide.rows = evenly_spread(
        wide.rows,
        std::clamp<Index>(static_cast<Index>(kTallWork / std::max(1.0, row_work)), 1, 16));
    const std::optional<RunResult> across = run(wide);
    if (!across) return;
    const bool all = down->all() && across->all();
    std::vector<std::uint8_t> across_given(output.marks.size());
    mark_given(output, *across, across_given);
    const std::vector<Index> columns = place_of_marked(output, across_given).columns;
    std::vector<std::uint8_t> found(output.marks.size());
    confirmed_ = 0.0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto at = static_cast<Index>(i);
      found[i] = output.differs(at) &&
                 (all || (std::binary_search(rows.begin(), rows.end(), at / output.columns) &&
                          std::binary_search(columns.begin(), columns.end(), at % output.columns)));
      confirmed_ += found[i] != 0 && (given[i] != 0 || across_given[i] != 0);
    }
    settle_marked(output, found, all);
    words_ += judged_on(std::min(down->seen + across->seen, failing), failing);
  }

  static Index lines(const Output& output) {
    return output.group == "expert" && !output.ends.empty() ? output.ends.front() : output.rows;
  }

  std::optional<RunResult> run(const Window& window) {
    runner_.choose(window);
    return runner_.run(candidate_->hypotheses);
  }

  AlteredCallRunner& runner_;
  const Candidate* candidate_;
  Index elements_ = 0;
  double confirmed_ = -1;
  Where where_;
  std::string words_;
};

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

std::string phrase_of(const Hypotheses& hypotheses) {
  std::string text;
  for (const Hypothesis* h : hypotheses) text += (text.empty() ? "" : " and ") + h->phrase;
  return text;
}

std::string judged_on(Index examined, Index failing) {
  return " (judged on " + std::to_string(examined) + " of the " + std::to_string(failing) +
         " elements that differ)";
}

std::string kept_in_words(const RunResult& trial, const std::vector<Output>& outputs) {
  std::string kept;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const VariantMatch& c = trial.credits[o];
    if (c.seen == 0 && c.broken > 0 && outputs[o].differing == 0)
      kept += (kept.empty() ? "" : " and ") + outputs[o].name;
  }
  return kept.empty() ? kept : ", but " + kept + " are as expected";
}

std::vector<Claim> mark_explained(AlteredCallRunner& runner, const Candidate& candidate) {
  return Settling(runner, candidate).claims();
}

}  // namespace mxo

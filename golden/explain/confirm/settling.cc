// Whole runs, pieces, and windows that stand for the rest.
#include "golden/explain/confirm/settling.h"

#include <algorithm>

namespace mxo {
namespace {

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

/// Rows and columns of a patch that are credited.
Window credited(const RunResult& trial, std::size_t output) {
  const Variant& patch = trial.patches[output];
  const VariantMatch& c = trial.credits[output];
  Window window;
  std::vector<std::uint8_t> column(patch.columns.size());
  for (std::size_t r = 0; r < patch.rows.size(); ++r) {
    bool any = false;
    for (std::size_t j = 0; j < patch.columns.size(); ++j) {
      if (!c.mask[r * patch.columns.size() + j]) continue;
      any = true;
      column[j] = 1;
    }
    if (any) window.rows.push_back(patch.rows[r]);
  }
  for (std::size_t j = 0; j < patch.columns.size(); ++j) {
    if (column[j]) window.columns.push_back(patch.columns[j]);
  }
  return window;
}

/// What is settled, and in which words.
class Settling {
 public:
  Settling(Bench& bench, const Candidate& candidate) : bench_(bench), candidate_(&candidate) {}

  std::vector<Claim> claims() {
    std::vector<Claim> found;
    Candidate confirmed;
    if (bench_.by_rows()) {
      bench_.choose_whole();
      auto trial = bench_.run(candidate_->hypotheses);
      if (!trial) return {};
      confirmed = {candidate_->hypotheses, std::move(*trial)};
      candidate_ = &confirmed;
    }
    if (!bench_.windowed()) {
      for (std::size_t o = 0; o < bench_.outputs().size(); ++o) settle_run(o);
    } else {
      settle_window();
    }
    if (elements_ == 0) return {};
    if (!bench_.windowed()) say_what_is_kept();
    Claim claim;
    claim.id = name_of(candidate_->hypotheses);
    claim.where = where_;
    claim.elements = static_cast<double>(elements_);
    claim.confirmed = confirmed_;
    claim.measured = std::any_of(candidate_->hypotheses.begin(), candidate_->hypotheses.end(),
                                 [](const Hypothesis* h) { return h->measured; });
    claim.sentence = phrase_of(candidate_->hypotheses) + words_;
    found.push_back(std::move(claim));
    return found;
  }

 private:
  /// The whole was run: its credit is what is explained.
  void settle_run(std::size_t o) {
    Output& output = bench_.outputs()[o];
    const VariantMatch& c = candidate_->trial.credits[o];
    if (c.fixed == 0) return;
    const bool rest = c.fixed < output.left || c.broken > 0 || c.astray > 0;
    const Place place = place_of(output, [&](Index i) {
      return i < output.owed * output.columns && c.mask[static_cast<std::size_t>(i)] != 0;
    });
    for (std::size_t i = 0; i < c.mask.size(); ++i) {
      if (c.mask[i]) output.settle(static_cast<Index>(i));
    }
    say(place, rest);
    elements_ += c.fixed;
  }

  /// Outputs that the cause would alter, and that are as expected.
  void say_what_is_kept() {
    std::string kept;
    for (std::size_t o = 0; o < bench_.outputs().size(); ++o) {
      const VariantMatch& c = candidate_->trial.credits[o];
      if (c.seen == 0 && c.broken > 0 && bench_.outputs()[o].differing == 0)
        kept += (kept.empty() ? "" : " and ") + bench_.outputs()[o].name;
    }
    if (!kept.empty()) words_ += ", but " + kept + " are as expected";
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
    const Window bad = bench_.failing();
    const double box =
        static_cast<double>(bad.rows.size()) * static_cast<double>(bad.columns.size());
    const bool dense = static_cast<double>(bench_.outputs().front().left) > 0.05 * box;
    const std::size_t height = dense ? 1024 : 8;
    std::vector<Window> list;
    for (std::size_t at = 0; at < bad.rows.size(); at += height) {
      const std::size_t end = std::min(at + height, bad.rows.size());
      Window piece;
      piece.rows.assign(bad.rows.begin() + static_cast<std::ptrdiff_t>(at),
                        bad.rows.begin() + static_cast<std::ptrdiff_t>(end));
      piece.columns = bench_.failing_columns(piece.rows);
      list.push_back(bench_.widened(std::move(piece)));
    }
    return list;
  }

  /// Multiply-adds that may be spent on every element that fails.
  double most_work(const Call& altered) const {
    for (const Hypothesis* h : candidate_->hypotheses) {
      if (h->run) return kHostWork;
    }
    if (altered.set.text("sum", "exact") != "exact") return kTallWork;
    return bench_.narrow() ? kExactWork : kExactWork / 8;
  }

  /// Every element that fails is computed with the cause, if the work allows.
  bool settle_each() {
    const std::optional<Call> altered = bench_.altered(candidate_->hypotheses);
    if (!altered) return false;
    const std::vector<Window> list = pieces();
    double work = 0.0;
    for (const Window& piece : list) {
      work += kPieceWork + bench_.work(static_cast<Index>(piece.rows.size()),
                                       static_cast<Index>(piece.columns.size()));
    }
    if (list.empty() || work > most_work(*altered)) return false;
    Output& output = bench_.outputs().front();
    std::vector<std::uint8_t> fixed(output.marks.size());
    bool all = true;
    for (const Window& piece : list) {
      bench_.take(piece);
      const std::optional<RunResult> trial = bench_.run(candidate_->hypotheses, *altered);
      if (!trial) return false;
      const Variant& patch = trial->patches.front();
      const VariantMatch& c = trial->credits.front();
      all = all && trial->broken == 0;
      for (std::size_t i = 0; i < c.mask.size(); ++i) {
        if (!c.mask[i]) continue;
        const Index row = patch.rows[i / patch.columns.size()];
        const Index column = patch.columns[i % patch.columns.size()];
        fixed[static_cast<std::size_t>(row * output.columns + column)] = 1;
      }
    }
    // Another sum or rounding is that of every element, or of none.
    const bool of_all = std::any_of(
        candidate_->hypotheses.begin(), candidate_->hypotheses.end(),
        [](const Hypothesis* h) { return h->stage == Stage::sum || h->stage == Stage::output; });
    if (of_all && !all) return true;
    if (of_all && output.left < kSparse && !holds_elsewhere(*altered)) return true;
    const Place place =
        place_of(output, [&](Index i) { return fixed[static_cast<std::size_t>(i)] != 0; });
    say(place, !all || place.elements < output.differing || output.live.is_part() ||
                   static_cast<Index>(place.rows.size()) < output.owed);
    for (std::size_t i = 0; i < fixed.size(); ++i) {
      if (fixed[i]) output.settle(static_cast<Index>(i));
    }
    elements_ = place.elements;
    return true;
  }

  /// Few neighbours are what many sums give: this one may alter no others, where nothing differs.
  bool holds_elsewhere(const Call& altered) {
    const Output& output = bench_.outputs().front();
    Window wide;
    wide.columns = range_of(output.columns);
    wide.rows = range_of(lines(output));
    wide.rows = evenly_spread(
        wide.rows, static_cast<Index>(kHostWork / std::max(1.0, bench_.work(1, output.columns))));
    if (wide.rows.empty()) wide.rows = {0};
    bench_.take(wide);
    const std::optional<RunResult> trial = bench_.run(candidate_->hypotheses, altered);
    return trial && trial->broken == 0;
  }

  /// A window was run: its rows and columns are extended over all that fail, each on its own.
  void settle_window() {
    if (settle_each()) return;
    Output& output = bench_.outputs().front();
    const Index failing = output.left;
    const Window bad = bench_.failing();
    std::vector<std::uint8_t> row(static_cast<std::size_t>(output.rows));
    std::vector<std::uint8_t> column(static_cast<std::size_t>(output.columns));
    // All failing rows in some columns, as far as the work allows.
    Window tall = bad;
    Index width = 32;
    while (width > 4 && bench_.work(static_cast<Index>(bad.rows.size()), width) > kTallWork)
      width /= 2;
    tall.columns = evenly_spread(tall.columns, width);
    tall.rows = evenly_spread(tall.rows,
                              static_cast<Index>(kTallWork / std::max(1.0, bench_.work(1, width))));
    const std::optional<RunResult> down = run(tall);
    if (!down) return;
    const Window rows = credited(*down, 0);
    for (const Index r : rows.rows) row[static_cast<std::size_t>(r)] = 1;
    // Some of those rows in all columns.
    Window wide = bad;
    wide.rows.clear();
    for (const Index r : rows.rows) {
      const Index line = r % lines(output);
      if (wide.rows.empty() || wide.rows.back() < line) wide.rows.push_back(line);
    }
    const double row_work = bench_.work(1, static_cast<Index>(bad.columns.size()));
    wide.rows = evenly_spread(
        wide.rows,
        std::clamp<Index>(static_cast<Index>(kTallWork / std::max(1.0, row_work)), 1, 16));
    const std::optional<RunResult> across = run(wide);
    if (!across) return;
    const bool all = down->all() && across->all();
    for (const Index c : credited(*across, 0).columns) column[static_cast<std::size_t>(c)] = 1;
    const auto holds = [&](Index i) {
      return output.marks[static_cast<std::size_t>(i)] == Mark::differs &&
             (all || (row[static_cast<std::size_t>(i / output.columns)] != 0 &&
                      column[static_cast<std::size_t>(i % output.columns)] != 0));
    };
    const Place place = place_of(output, holds);
    std::vector<Index> found;
    for (Index i = 0; i < output.owed * output.columns; ++i) {
      if (holds(i)) found.push_back(i);
    }
    say(place, !all || place.elements < output.differing || output.live.is_part() ||
                   static_cast<Index>(place.rows.size()) < output.owed);
    for (const Index i : found) output.settle(i);
    elements_ = static_cast<Index>(found.size());
    confirmed_ = static_cast<double>(computed(output, found, {&*down, &*across}));
    words_ += judged_on(std::min(down->seen + across->seen, failing), failing);
  }

  /// Those of the elements found that one of the runs gave.
  static Index computed(const Output& output, const std::vector<Index>& found,
                        std::initializer_list<const RunResult*> runs) {
    std::vector<std::uint8_t> given(output.marks.size());
    for (const RunResult* run : runs) {
      const Variant& patch = run->patches.front();
      const VariantMatch& c = run->credits.front();
      for (std::size_t i = 0; i < c.mask.size(); ++i) {
        const Index row = patch.rows[i / patch.columns.size()];
        const Index column = patch.columns[i % patch.columns.size()];
        given[static_cast<std::size_t>(row * output.columns + column)] |= c.mask[i];
      }
    }
    return std::count_if(found.begin(), found.end(),
                         [&](Index i) { return given[static_cast<std::size_t>(i)] != 0; });
  }

  static Index lines(const Output& output) {
    return output.group == "expert" && !output.ends.empty() ? output.ends.front() : output.rows;
  }

  std::optional<RunResult> run(const Window& window) {
    bench_.choose(window);
    return bench_.run(candidate_->hypotheses);
  }

  Bench& bench_;
  const Candidate* candidate_;
  Index elements_ = 0;
  double confirmed_ = -1;
  Where where_;
  std::string words_;
};

}  // namespace

std::string phrase_of(const Hypotheses& hypotheses) {
  std::string text;
  for (const Hypothesis* h : hypotheses) text += (text.empty() ? "" : " and ") + h->phrase;
  return text;
}

std::string judged_on(Index examined, Index failing) {
  return " (judged on " + std::to_string(examined) + " of the " + std::to_string(failing) +
         " elements that differ)";
}

std::vector<Claim> settle(Bench& bench, const Candidate& candidate) {
  return Settling(bench, candidate).claims();
}

}  // namespace mxo

// What a candidate explains: whole runs, pieces, windows that stand for the rest, and all but last
// bits.
#include "golden/explain/confirm/altered_call_runner.h"

#include "golden/explain/alter/alterations.h"
#include "golden/explain/confirm/score.h"
#include "golden/explain/find/finding.h"

namespace mxo {
namespace {

constexpr double kTallWork = 3e9;      ///< multiply-adds of a confirmation
constexpr double kExactWork = 1.2e11;  ///< the same of exact sums of one-byte codes
constexpr double kPieceWork = 1e6;     ///< what a run costs besides
constexpr Index kSparse = 64;          ///< elements that are too few to tell sums apart
constexpr Index kOfRest = 20;          ///< one of so many is the rest of a cause

std::string name_of(const Hypotheses& hypotheses) {
  std::string text;
  for (const Hypothesis* h : hypotheses) text += (text.empty() ? "" : "+") + h->name;
  return text;
}

/// Marks the elements of an output that a run gave, by a mask of its patch.
void mark_given(const Output& output, const RunResult& run, std::vector<std::uint8_t>& given,
                std::vector<std::uint8_t> VariantMatch::*mask = &VariantMatch::mask) {
  const Variant& patch = run.patches.front();
  const std::vector<std::uint8_t>& of_patch = run.credits.front().*mask;
  for (std::size_t i = 0; i < of_patch.size(); ++i) {
    if (!of_patch[i]) continue;
    const Index row = patch.rows[i / patch.columns.size()];
    const Index column = patch.columns[i % patch.columns.size()];
    nth(given, row * output.columns + column) = 1;
  }
}

enum class Fill : std::uint8_t { none, zeros, others };

/// What is marked, where that is one witness: zeros alone, with their bias if the call adds one; or
/// others, NaN alone or one integer alone.
Fill fill_of(const Call& call, const Output& output, const std::vector<std::uint8_t>& marks) {
  const ElementReader read(output.expected->dtype());
  std::optional<Tensor> bias;
  if (is_biased_product(call)) {
    bias = with_values(*output.expected, [](Index) { return 0.0f; });
    add_bias(call, *bias);
  }
  bool zero = std::find(marks.begin(), marks.end(), 1) != marks.end();
  bool nan = zero;
  std::optional<std::uint64_t> one;  // integer
  bool whole = zero && output.expected->dtype() == Dtype::i32;
  for (std::size_t i = 0; i < marks.size() && (zero || nan || whole); ++i) {
    if (!marks[i]) continue;
    if (!one) one = output.actual_bits(static_cast<Index>(i));
    whole = whole && output.actual_bits(static_cast<Index>(i)) == *one;
    const Element own = output.came(static_cast<Index>(i));
    const double alone = bias ? read(bits_at(*bias, static_cast<Index>(i))).value : 0.0;
    zero = zero && !own.nan && own.value == alone;
    nan = nan && own.nan;
  }
  if (zero) return Fill::zeros;
  return nan || whole ? Fill::others : Fill::none;
}

Place place_of_marked(const Output& output, const std::vector<std::uint8_t>& marks) {
  return place_of(output, [&](Index i) { return nth(marks, i) != 0; });
}

/// What is explained, and in which words.
class Settling {
 public:
  Settling(AlteredCallRunner& runner, const Candidate& candidate)
      : runner_(runner), candidate_(&candidate) {}

  Claims claims() {
    Candidate confirmed;
    if (runner_.by_rows()) {
      runner_.choose_whole();
      auto trial = runner_.run(candidate_->hypotheses);
      if (!trial) return {};
      confirmed = {candidate_->hypotheses, std::move(*trial)};
      candidate_ = &confirmed;
    }
    if (!runner_.windowed()) {
      if (gives_one_scale()) return {};
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
    claim.measured = std::ranges::any_of(candidate_->hypotheses, &Hypothesis::measured);
    claim.sentence = phrase_of(candidate_->hypotheses) + words_;
    for (const Hypothesis* h : candidate_->hypotheses)
      if (!runner_.windowed()) claim.made_by.push_back(*h);
    return {std::move(claim)};
  }

 private:
  bool gives_one_scale() const {
    const RunResult& trial = candidate_->trial;
    for (std::size_t o = 0; o < trial.credits.size(); ++o)
      if (is_of_one_scale(runner_.outputs()[o], trial.patches[o], trial.credits[o])) return true;
    return false;
  }
  /// The whole was run: its credit is what is explained.
  void mark_run(std::size_t o) {
    Output& output = runner_.outputs()[o];
    const VariantMatch& c = candidate_->trial.credits[o];
    if (c.fixed == 0) return;
    std::vector<std::uint8_t> given = c.mask;
    given.resize(output.marks.size());
    // Zeros alone, where other elements came otherwise or none did, may be of anything.
    if ((c.broken > 0 && fill_of(runner_.call(), output, given) != Fill::none) || is_zero(output))
      return;
    const bool all = c.fixed == output.left && c.broken == 0 && c.astray == 0;
    settle_marked(output, given, all && !gives_none_of_another());
  }

  /// Whether it alters elements of an output that differ, and gives none of them.
  bool gives_none_of_another() const {
    return std::ranges::any_of(candidate_->trial.credits,
                               [](const VariantMatch& c) { return c.seen > 0 && c.fixed == 0; });
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
      if (output.differs(i)) nth(idle, line) = 0;
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
    if (runner_.windowed())
      all = all && place.elements == output.differing && !output.live.is_part() &&
            static_cast<Index>(place.rows.size()) == output.compared_rows &&
            static_cast<Index>(place.columns.size()) == output.columns;
    say(place, !all);
    for (std::size_t i = 0; i < marks.size(); ++i)
      if (marks[i]) output.mark_explained(static_cast<Index>(i));
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
    for (const Hypothesis* h : candidate_->hypotheses)
      if (h->on_host) return AlteredCallRunner::kHostWork;
    if (altered.set.text("sum", "exact") != "exact") return kTallWork;
    return runner_.narrow() ? kExactWork : kExactWork / 8;
  }

  /// Every element that fails is computed with the cause, if the work allows.
  bool mark_each() {
    const std::optional<Call> altered = runner_.altered(candidate_->hypotheses);
    if (!altered) return false;
    const std::vector<Window> list = pieces();
    double work = 0.0;
    for (const Window& piece : list)
      work += kPieceWork + runner_.work(static_cast<Index>(piece.rows.size()),
                                        static_cast<Index>(piece.columns.size()));
    if (list.empty() || work > most_work(*altered)) return false;
    Output& output = runner_.outputs().front();
    std::vector<std::uint8_t> fixed(output.marks.size());
    std::vector<std::uint8_t> nearly(output.marks.size());
    Index given = 0;
    bool all = true;
    for (const Window& piece : list) {
      runner_.take(piece);
      const std::optional<RunResult> trial = runner_.run(candidate_->hypotheses, *altered);
      if (!trial) return false;
      all = all && trial->broken == 0;
      if (!is_a_place(*trial, Rows::all)) continue;
      mark_given(output, *trial, fixed);
      mark_given(output, *trial, nearly, &VariantMatch::nearly);
      given += trial->fixed;
    }
    const bool of_all = std::ranges::any_of(candidate_->hypotheses, &Hypothesis::is_of_all);
    if (of_all && !all) return true;
    // Few neighbours are what many sums give: this one may alter no others.
    const Fill fill = fill_of(runner_.call(), output, fixed);
    // The place alone tells of zeros, which other operands give as well as any other cause.
    const bool sums = std::ranges::all_of(candidate_->hypotheses, &Hypothesis::on_host);
    if (fill == Fill::zeros && !(sums && is_zero(output))) return true;
    if (((of_all && output.left < kSparse) || fill != Fill::none) &&
        !runner_.alters_no_more(candidate_->hypotheses))
      return true;
    // Of nearly all that differs what else it gives has no other cause.
    if (given * kOfRest >= output.left * (kOfRest - 1))
      std::ranges::transform(fixed, nearly, fixed.begin(), std::bit_or<>{});
    settle_marked(output, fixed, all);
    return true;
  }

  bool is_zero(const Output& output) const {
    const auto n = static_cast<std::size_t>(output.compared_rows * output.columns);
    return fill_of(runner_.call(), output, std::vector<std::uint8_t>(n, 1)) == Fill::zeros;
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

std::string phrase_of(const Hypotheses& hypotheses) {
  std::string text;
  for (const Hypothesis* h : hypotheses) text += (text.empty() ? "" : " and ") + h->phrase;
  return text;
}

std::string judged_on(Index examined, Index failing) {
  return filled(" (judged on {} of the {} elements that differ)", examined, failing);
}

std::string kept_in_words(const RunResult& trial, const std::vector<Output>& outputs) {
  std::string kept;
  std::string given;
  bool others = false;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const VariantMatch& c = trial.credits[o];
    const bool is_kept = c.seen == 0 && c.broken > 0 && outputs[o].differing == 0;
    if (is_kept) list_words(kept, outputs[o].name, " and ");
    if (c.fixed > 0) list_words(given, outputs[o].name, " and ");
    others = others || is_kept || (c.fixed == 0 && c.seen > 0);
  }
  std::string words = given.empty() || !others ? "" : ", for " + given + " alone";
  if (!kept.empty()) words += (words.empty() ? ", but " : ": ") + kept + " are as expected";
  return words;
}

Claims mark_explained(AlteredCallRunner& runner, const Candidate& candidate) {
  return Settling(runner, candidate).claims();
}

Claims mark_last_bits(AlteredCallRunner& runner, const Hypotheses& list) {
  if (runner.windowed()) return {};
  const Snapshot before(runner.outputs());
  runner.choose_whole();
  Claim claim;
  std::uint64_t units = 0;
  std::string kept;
  std::string quiet;
  int alike = 0;
  for (const Hypothesis* h : list) {
    const auto trial = runner.run({h});
    if (!trial || !trial->last_bits.all() || alike > kMostEqual - 1) continue;
    if (claim.sentence.find(h->phrase) != std::string::npos) continue;
    if (claim.id.empty()) {
      claim.id = h->name;
      units = trial->last_bits.units;
      kept = kept_in_words(*trial, runner.outputs());
      if (trial->last_bits.quiet) quiet = ", or 2^-20 of the root mean square";
      claim.made_by.push_back(*h);
    }
    claim.sentence += (alike == 0 ? "" : alike == 1 ? "; equivalently, " : ", or ") + h->phrase;
    ++alike;
  }
  std::string names;
  for (Output& o : runner.outputs()) {
    if (o.left == 0) continue;
    claim.elements += static_cast<double>(o.left);
    if (is_wide_float(o.expected->dtype())) names += (names.empty() ? "" : " and ") + o.name;
    claim.where.tensor += (claim.where.tensor.empty() ? "" : ", ") + o.name;
    o.mark_all();
  }
  if (claim.id.empty() || are_zeros_since(before, runner.outputs())) return {};
  claim.sentence += kept + ", but for the last bits of " + names + ": at most " +
                    std::to_string(units) + (units == 1 ? " unit" : " units") +
                    " in the last place" + quiet;
  return {claim};
}

}  // namespace mxo

// Which candidates are worth a closer look: places, scattered rows, contradictions; and what was
// found, weighed: bits of elements, bits of places.
#include "golden/explain/confirm/score.h"

#include <set>

#include "golden/explain/confirm/altered_call_runner.h"

namespace mxo {
namespace {

constexpr Index kSampled = 4096;    ///< elements, of what was explained, that are weighed
constexpr Index kValues = 1 << 15;  ///< of a tensor, whose shares are counted

std::unordered_map<std::uint64_t, Index> counts_of(const Tensor& t) {
  std::unordered_map<std::uint64_t, Index> counts;
  const Index step = t.elements() / kValues + 1;
  for (Index i = 0; i < t.elements(); i += step) ++counts[bits_at(t, i)];
  return counts;
}

/// Bits of a number that is so many steps off; infinity where one of both is none.
double bits_off(const Output& output, Index i) {
  const Element want = output.wanted(i);
  const Element got = output.came(i);
  if (want.nan || got.nan) return HUGE_VAL;
  return std::log2(2.0 * static_cast<double>(ulp_distance(want.order, got.order)) + 1.0);
}

/// Of elements that one scale made, or one choice, the one that differs most.  Tokens of one
/// choice that came as one other are one witness.
std::vector<Index> one_a_scale(const Output& output, const std::vector<Index>& elements) {
  if (output.tile.rows * output.tile.columns == 1) return elements;
  const auto apart = [&](Index i) { return bits_off(output, i); };
  std::map<std::pair<Index, Index>, Index> most;
  for (const Index i : elements) {
    const std::pair tile{i / output.columns / output.tile.rows,
                         i % output.columns / output.tile.columns};
    const auto [at, first] = most.emplace(tile, i);
    if (!first && apart(i) > apart(at->second)) at->second = i;
  }
  std::vector<Index> found;
  std::set<std::vector<std::uint64_t>> choices;
  for (const auto& [tile, i] : most) {
    std::vector<std::uint64_t> choice;
    for (Index c = 0; c < output.columns && output.expected->dtype() == Dtype::i32; ++c) {
      const Index at = i / output.columns * output.columns + c;
      choice.insert(choice.end(), {output.expected_bits(at), output.actual_bits(at)});
    }
    if (choice.empty() || choices.insert(choice).second) found.push_back(i);
  }
  return found;
}

/// Bits by which some elements could have been otherwise: as their values are rare, but no more
/// than there are values as near to what is expected.
double bits_of(const Output& output, const std::vector<Index>& explained) {
  const std::vector<Index> elements = one_a_scale(output, explained);
  if (elements.empty()) return 0.0;
  const Chance chance(output);
  const auto n = static_cast<Index>(elements.size());
  const Index step = n / kSampled + 1;
  double sum = 0.0;
  Index seen = 0;
  for (Index at = 0; at < n; at += step, ++seen) {
    const Index i = nth(elements, at);
    sum += std::max(1.0, std::min(chance.bits(i, 1), bits_off(output, i)));
  }
  return sum / static_cast<double>(seen) * static_cast<double>(n);
}

/// log2 of the ways to choose so many runs of `lines`.
double bits_of_runs(const std::string& ranges, Index lines) {
  if (ranges.empty() || lines < 2) return 0.0;
  const auto runs = std::count(ranges.begin(), ranges.end(), ',') + 1;
  return 2.0 * static_cast<double>(runs) * std::log2(static_cast<double>(lines));
}

/// of(output, number) added up; of codes that follow from scales only where those add nothing and
/// all of them are explained.
template <typename Of>
double added_up(const std::vector<Output>& outputs, const Of& of) {
  double following = 0.0;
  double others = 0.0;
  bool scales_left = false;
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    (outputs[n].follows ? following : others) += of(outputs[n], n);
    scales_left = scales_left || (!outputs[n].follows && outputs[n].left > 0);
  }
  return others > 0.0 || scales_left ? others : following;
}

constexpr double kNearer = 3.0;  ///< dB of an output that a cause does not give
constexpr Index kMostRuns = 6;   ///< of rows, for a part to be a place
constexpr Index kFewRuns = 4;    ///< that are a pattern without a period
constexpr Index kLeastRun = 4;   ///< rows of such a run, where more are missed than given

/// Whether a model gives something in row `r` of a patch.
bool gives_in(const Variant& patch, const VariantMatch& c, std::size_t r) {
  const auto columns = static_cast<std::ptrdiff_t>(patch.columns.size());
  const auto begin = c.mask.begin() + static_cast<std::ptrdiff_t>(r) * columns;
  return std::find(begin, begin + columns, 1) != begin + columns;
}

/// Whether the rows that a model gives are a place; not where they are here and there among more
/// that it alters and does not give, as rows are to which two causes do the same.
bool is_in_place(const Variant& patch, const VariantMatch& c, const std::vector<std::uint8_t>& idle,
                 Rows of) {
  std::vector<Index> given;  // numbers of rows that it gives, of those that it alters
  std::vector<Index> rows;
  Index number = 0;
  for (std::size_t r = 0; r < patch.rows.size(); ++r) {
    if (r < idle.size() && idle[r] != 0) continue;
    if (gives_in(patch, c, r)) {
      given.push_back(number);
      rows.push_back(static_cast<Index>(r));
    }
    ++number;
  }
  const Index places = runs(given);
  if (places > kMostRuns && c.fixed * 10 < c.seen * 9) return false;
  const auto height = static_cast<Index>(patch.rows.size());
  const bool gapless = height > 1 && patch.rows.back() - patch.rows.front() + 1 == height;
  // Of rows with others between them only those count in which something differs, and all of them.
  const Index misses = gapless ? c.misses : of == Rows::all ? c.misses - c.beside : 0;
  const Index least = kLeastRun * (gapless ? places : std::min<Index>(places, 2));
  // Runs between which two thirds are missed are found by chance.
  const bool sparse = places > 1 && 3 * std::ssize(given) <= given.back() - given.front();
  if (misses <= c.hits || (std::ssize(given) >= least && !sparse)) return true;
  return places > kFewRuns && (is_pattern(given) || (idle.size() == patch.rows.size() &&
                                                     is_pattern(joined(rows, idle, {}))));
}

/// Whether what a model gives lies in all rows and columns, as does what it alters that is right:
/// no words tell the place.
bool is_everywhere_but_not_all(const Variant& patch, const VariantMatch& c) {
  if (c.beside * 3 <= c.hits) return false;
  std::vector<std::uint8_t> columns(patch.columns.size());
  for (std::size_t r = 0; r < patch.rows.size(); ++r) {
    bool given = false;
    for (std::size_t j = 0; j < columns.size(); ++j) {
      if (c.mask[r * columns.size() + j] == 0) continue;
      given = true;
      columns[j] = 1;
    }
    if (!given) return false;
  }
  return std::ranges::find(columns, 0) == columns.end();
}

/// A rule of scales that gives some codes by chance, and other scales than those that came right.
bool contradicts_scales(const Hypothesis& h, const RunResult& trial) {
  if (!h.is_rule()) return false;
  Index fixed = 0;
  Index seen = 0;
  bool wrong = false;
  for (const VariantMatch& c : trial.credits) {
    fixed += c.fixed;
    seen += c.seen;
    wrong = wrong || (c.seen == 0 && c.broken > 0);
  }
  return wrong && (fixed < seen || h.target == Target::whole_rule);
}

/// Other operands give every output that they alter, or another cause made one of them, which they
/// then come nearer.
bool gives_one_output_alone(const Hypothesis& h, const RunResult& trial) {
  return h.stage == Stage::input && std::ranges::any_of(trial.credits, [](const VariantMatch& c) {
           return c.seen > 0 && c.misses > 0 && c.hits == 0 && c.fixed == 0 && c.gain_db < kNearer;
         });
}

/// Codes that another call gives, but under scales of which it gives none: those tell how they were
/// made.  Or scales, but not the codes that follow from them or came right: it alters more than
/// amax.
bool parts_codes_from_scales(const RunResult& trial, const std::vector<Output>& outputs) {
  bool gives_codes = false;
  bool misses_codes = false;
  bool gives_scales = false;
  bool gives_no_scales = false;
  for (std::size_t o = 0; o < trial.credits.size(); ++o) {
    const VariantMatch& c = trial.credits[o];
    if (is_minifloat8(outputs[o].expected->dtype())) {
      gives_codes = gives_codes || c.fixed > 0;
      misses_codes = misses_codes || (outputs[o].follows && c.misses > 0) ||
                     (outputs[o].differing == 0 && c.broken > 0);
    } else {
      gives_scales = gives_scales || (c.hits > 0 && c.misses == 0);
      gives_no_scales = gives_no_scales || (c.seen > 0 && c.fixed == 0 && c.hits == 0);
    }
  }
  return (gives_codes && gives_no_scales) || (gives_scales && misses_codes);
}

/// Numbers that another call gives, but beside other choices, of which it gives none: those tell
/// how they were made.
bool gives_weights_alone(const RunResult& trial, const std::vector<Output>& outputs) {
  bool gives_weights = false;
  bool gives_choices = false;
  bool other_choices = false;
  for (std::size_t o = 0; o < trial.credits.size(); ++o) {
    const VariantMatch& c = trial.credits[o];
    const bool choices = outputs[o].expected->dtype() == Dtype::i32;
    gives_weights = gives_weights || (!choices && c.fixed > 0);
    gives_choices = gives_choices || (choices && c.fixed > 0);
    other_choices = other_choices || (choices && c.seen > 0 && c.fixed == 0);
  }
  return gives_weights && other_choices && !gives_choices;
}

/// Whether rows that an end's move gives stop amid others that differ: it lies further on.
bool below_threshold(const Output& output, const Variant& patch, const VariantMatch& c) {
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(output.rows));
  std::vector<std::uint8_t> given(seen.size());
  for (std::size_t r = 0; r < patch.rows.size(); ++r) {
    nth(seen, patch.rows[r]) = 1;
    nth(given, patch.rows[r]) = gives_in(patch, c, r);
  }
  const auto stops_amid = [&](Index row, Index step) {
    const Index first = row;
    while (row >= 0 && row < output.compared_rows && nth(given, row)) row += step;
    return row != first && row >= 0 && row < output.compared_rows && nth(seen, row) &&
           output.differs_in(row * output.columns, output.columns);
  };
  return std::any_of(output.ends.begin(), output.ends.end(),
                     [&](Index end) { return stops_amid(end - 1, -1) || stops_amid(end, 1); });
}

}  // namespace

bool are_zeros_since(const Snapshot& before, const std::vector<Output>& outputs) {
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    const auto is_zero = [&](Index i) { return outputs[n].came(i).value == 0.0; };
    if (!std::ranges::all_of(before.explained_since(outputs, n), is_zero)) return false;
  }
  return true;
}

Chance::Chance(const Output& output) : output_(output) {
  const Index elements = output.expected->elements();
  const Index step = elements / kValues + 1;
  const auto seen = static_cast<double>((elements + step - 1) / step);
  unseen_ = std::log2(seen + 1.0);
  Index again = 1;
  const Index most = std::min(elements, kValues);
  for (Index i = 1; i < most; ++i) again += output.expected_bits(i) == output.expected_bits(i - 1);
  again_ = std::log2(static_cast<double>(most + 1) / static_cast<double>(again));
  for (const Tensor* t : {output.expected, output.actual}) {
    for (const auto& [value, count] : counts_of(*t)) {
      const double bits = unseen_ - std::log2(static_cast<double>(count));
      const auto [at, first] = bits_.emplace(value, bits);
      if (!first) at->second = std::min(at->second, bits);
    }
  }
}

double Chance::bits(Index at, Index elements) const {
  double sum = 0.0;
  for (Index i = at; i < at + elements; ++i) {
    const std::uint64_t value = bits_at(*output_.actual, i);
    const auto found = bits_.find(value);
    const double bits = found == bits_.end() ? unseen_ : found->second;
    const bool again = i > at && value == bits_at(*output_.actual, i - 1);
    sum += again ? std::min(bits, again_) : bits;
  }
  return sum;
}

bool Chance::tells(const std::vector<Index>& pieces, Index width, std::size_t failing,
                   std::size_t places) const {
  double news = 0.0;
  for (const Index at : pieces) news += bits(at, width);
  const auto k = static_cast<double>(pieces.size());
  // log2 of failing over k, from above.
  const double which = k * std::log2(std::exp(1.0) * static_cast<double>(failing) / k);
  return news > which + std::log2(static_cast<double>(places)) + kCertain;
}

double Weighing::gain(const std::vector<Output>& outputs) const {
  return added_up(outputs, [&](const Output& o, std::size_t n) {
    return bits_of(o, before_.explained_since(outputs, n));
  });
}

bool Weighing::names_call(const std::vector<Output>& outputs) const {
  if (left_of(outputs) > 0) return false;
  double following = 0.0;
  double others = 0.0;
  double digits = 0.0;  // of f32 scales: what they are off by
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    const Output& o = outputs[n];
    const std::vector<Index> each = one_a_scale(o, before_.explained_since(outputs, n));
    (o.follows ? following : others) += static_cast<double>(each.size());
    if (o.follows || o.expected->dtype() != Dtype::f32) continue;
    for (const Index i : each) {
      const double bits = bits_off(o, i);
      digits += std::isinf(bits) ? 0.0 : bits;
    }
  }
  if (others > 0.0 && following >= kFollowing && (others >= kWitnesses / 2.0 || digits >= kCertain))
    return true;
  return (others > 0.0 ? others : following) >= kWitnesses;
}

double Weighing::place_told(const std::vector<Output>& outputs) const {
  double bits = 0.0;
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    const Output& o = outputs[n];
    if (o.follows) continue;  // as the scales do
    const double tile = static_cast<double>(o.tile.rows * o.tile.columns);
    const double all = std::floor(static_cast<double>(o.compared_rows * o.columns) / tile);
    const double some =
        static_cast<double>(one_a_scale(o, before_.explained_since(outputs, n)).size());
    if (some < 1.0 || some >= all) continue;
    bits += (std::lgamma(all + 1.0) - std::lgamma(some + 1.0) - std::lgamma(all - some + 1.0)) /
            std::log(2.0);
  }
  return bits;
}

bool Weighing::names(const Claims& claims, const std::vector<Output>& outputs, double family,
                     double most) const {
  double cost = 0.0;
  bool any = false;
  for (const Claim& c : claims) {
    // True as it stands.
    if (c.kind == FindingKind::symptom || c.kind == FindingKind::follows) continue;
    any = true;
    cost += family;
    for (std::size_t n = 0; n < outputs.size(); ++n) {
      const Output& o = outputs[n];
      const bool own = c.where.tensor.find(o.name) != std::string::npos;
      if (!own || c.elements >= static_cast<double>(o.differing)) continue;
      cost += bits_of_runs(c.where.rows, o.rows) + bits_of_runs(c.where.columns, o.columns);
    }
  }
  return !any || std::min(gain(outputs), most) - cost >= kCertain;
}

bool is_a_place(const RunResult& trial, Rows of) {
  if (trial.broken == 0) return true;
  for (std::size_t o = 0; o < trial.credits.size(); ++o) {
    const VariantMatch& c = trial.credits[o];
    if (!c.by_columns && is_everywhere_but_not_all(trial.patches[o], c)) return false;
    if (!c.by_columns &&
        !is_in_place(trial.patches[o], c,
                     o < trial.idle.size() ? trial.idle[o] : std::vector<std::uint8_t>{}, of))
      return false;
  }
  return true;
}

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
      short_of = short_of || c.beside > 0 || below_threshold(outputs[o], trial.patches[o], c);
    }
    if (gives < 0 || short_of) return true;
  }
  // What spoils more units than it gives is no place: what it gives are those that it spares.
  const auto spoils = [](const VariantMatch& c) { return c.spoiled > c.hits; };
  if (std::any_of(trial.credits.begin(), trial.credits.end(), spoils)) return true;
  const bool of_part =
      trial.broken > 0 ||
      std::ranges::any_of(trial.credits, [](const VariantMatch& c) { return c.astray > 0; });
  return (h.target == Target::format && of_part) || contradicts_scales(h, trial) ||
         gives_one_output_alone(h, trial) || parts_codes_from_scales(trial, outputs) ||
         gives_weights_alone(trial, outputs);
}

bool is_of_whole(const Hypotheses& list) {
  return std::ranges::find(list, Target::format, [](const Hypothesis* h) { return h->target; }) !=
         list.end();
}

}  // namespace mxo

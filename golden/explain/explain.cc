// Measure first, guess last: what the output says by itself, then altered calls, then patterns.
#include "golden/explain/explain.h"

#include <algorithm>
#include <cmath>

#include "golden/explain/compared_outputs.h"
#include "golden/explain/find/quantiser/quantiser.h"
#include "golden/explain/name/pattern.h"
#include "golden/explain/product.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/score.h"
#include "golden/explain/settled.h"
#include "golden/explain/shown.h"
#include "golden/explain/steps.h"

namespace mxo {
namespace {

constexpr double kSameDb = 200.0;  ///< beyond what any rounding leaves
constexpr double kNearDb = 30.0;   ///< from here on a cause that gives other bits is worth a word

/// A product no scale of which is a factor of a whole line of its output: a factor of all of it is
/// no misread scale, and needs no altered call.
bool sums_many_scales(const Call& call) {
  const std::optional<Product> p = product_of(call);
  if (!p) return false;
  const auto many = [&](const ProductSide& f) {
    if (f.scales == nullptr) return true;
    if (p->wgrad) return p->block < p->k;
    // Of scales that lie flat, more than one a line.
    const bool shaped = f.scales->rank() == f.codes->rank();
    return p->block < p->k && (shaped ? f.scales->shape().back() > 1
                                      : f.scales->elements() * p->k > f.codes->elements());
  };
  return many(p->a) && many(p->b);
}

/// Whether codes are said to follow from scales that have no cause, or another.
bool follows(const Claim& claim) { return claim.kind == Kind::follows; }

std::string percent(double share) {
  const double hundredths = std::floor(share * 1000.0 + 0.5) / 10.0;
  std::string text = std::to_string(share < 1.0 && hundredths >= 100.0 ? 99.9 : hundredths);
  return text.substr(0, text.find('.') + 2) + " %";
}

/// What outputs and altered calls say of the operator as a whole.
Shown shown_by_measuring(Backend& backend, const Call& call, std::vector<Output> outputs,
                         const NamedTensors& expected, const Progress& progress) {
  Shown shown{{}, std::move(outputs), {}, {}};
  std::vector<Claim>& claims = shown.claims;
  if (only_moves(call)) {
    claims = shown_by_runs(backend, call, shown.outputs, progress, shown.nearest, Extent::all);
    if (left_of(shown.outputs) == 0 && claims.size() == 1) return shown;
    Settled::forget(shown.outputs);
    claims.clear();
  }
  claims = shown_by_outputs(call, shown.outputs, expected);
  if (sums_many_scales(call)) {
    for (Output& o : shown.outputs)
      append(claims, named_by(shown.outputs, [&] { return recover_one_factor(o); }));
  }
  if (left_of(shown.outputs) > 0)
    append(claims, shown_by_runs(backend, call, shown.outputs, progress, shown.nearest));
  for (Output& o : shown.outputs) {
    for (const auto& recovered :
         {recover_order, recover_axes, recover_column_order, recover_tiles, recover_exchanged})
      append(claims, named_by(shown.outputs, [&] { return recovered(o); }));
  }
  show_looks(call, shown.outputs, claims);
  if (is_patchwork(claims, left_of(shown.outputs))) {
    // One cause that gives every bit says more than what several parts look like.
    const Settled settled(shown.outputs);
    Settled::forget(shown.outputs);
    std::vector<Claim> whole = shown_as_one_order(shown.outputs);
    if (whole.empty()) {
      whole = shown_by_runs(backend, call, shown.outputs, progress, shown.nearest, Extent::all);
    }
    if (left_of(shown.outputs) == 0 && whole.size() == 1) {
      claims = std::move(whole);
    } else {
      settled.restore(shown.outputs);
    }
  }
  if (std::any_of(claims.begin(), claims.end(), follows) &&
      (claims.size() > 1 || left_of(shown.outputs) > 0)) {
    // Codes that follow from scales say nothing where altered calls give both, each its part.
    const Settled settled(shown.outputs);
    Settled::forget(shown.outputs);
    std::vector<Claim> runs = shown_by_runs(backend, call, shown.outputs, progress, shown.nearest);
    if (left_of(shown.outputs) == 0) {
      claims = std::move(runs);
    } else {
      settled.restore(shown.outputs);
    }
  }
  return shown;
}

}  // namespace

std::string_view name_of(ExplainVerdict verdict) {
  switch (verdict) {
    case ExplainVerdict::same: return "same";
    case ExplainVerdict::explained: return "explained";
    case ExplainVerdict::partly: return "partly";
    case ExplainVerdict::unknown: break;
  }
  return "unknown";
}

std::string Explanation::sentence() const {
  if (verdict == ExplainVerdict::same) return "bit-identical as it is";
  std::string text(name_of(verdict));
  if (verdict == ExplainVerdict::unknown) return "no known cause: " + pattern;
  text += ": ";
  for (std::size_t i = 0; i < causes.size() && i < 3; ++i) {
    text += (i > 0 ? "; " : "");
    if (causes.size() > 1 || verdict == ExplainVerdict::partly)
      text += percent(causes[i].share) + ": ";
    text += causes[i].sentence;
  }
  return text;
}

Explanation explain(Backend& backend, const Call& call, const NamedTensors& expected,
                    const NamedTensors& actual, const Progress& progress) {
  if (progress) progress(0.0, "differences");
  if (auto told = told_by_shape(backend, call, expected, actual)) return *std::move(told);
  Outputs outputs = outputs_of(call, expected, actual);
  Explanation e;
  for (const Output& o : outputs.list) {
    e.elements += o.owed * o.columns;
    e.differing += o.differing;
  }
  e.sqnr_db = sqnr_of(outputs.list);
  const auto note = [&e](const std::string& words) {
    if (!words.empty()) e.pattern += (e.pattern.empty() ? "" : "; ") + words;
  };
  for (const std::string& name : outputs.missing) note(name + " is missing and was not compared");
  for (const Output& o : outputs.list) {
    if (o.owed == o.rows) continue;
    note("rows " + std::to_string(o.owed) + " to " + std::to_string(o.rows - 1) + " of " + o.name +
         " belong to no group and were not compared");
  }
  if (e.differing == 0) return e;
  keep_first_step(call, outputs);
  note(outputs.later);
  const Index considered = left_of(outputs.list);

  Shown shown;
  if (has_steps(call)) {
    shown = shown_by_steps(backend, call, outputs.list, expected, progress);
  }
  if (shown.claims.empty() || left_of(shown.outputs) > 0 || !shown.pattern.empty()) {
    Shown measured = shown_by_measuring(backend, call, std::move(outputs.list), expected, progress);
    if (shown.claims.empty() || measured.judged() > shown.judged()) shown = std::move(measured);
  }
  std::vector<Claim>& claims = shown.claims;
  std::stable_sort(claims.begin(), claims.end(),
                   [](const Claim& a, const Claim& b) { return a.judged() > b.judged(); });
  double not_judged = 0.0;
  for (Claim& c : claims) {
    not_judged += c.elements - c.judged();
    e.causes.push_back({std::move(c.id), std::move(c.sentence),
                        std::min(1.0, c.judged() / static_cast<double>(considered)), c.where,
                        c.kind});
  }
  const bool all = left_of(shown.outputs) == 0 && shown.pattern.empty() && not_judged < 1.0;
  e.verdict = all                ? ExplainVerdict::explained
              : e.causes.empty() ? ExplainVerdict::unknown
                                 : ExplainVerdict::partly;
  if (not_judged >= 1.0) {
    const long long more = std::llround(not_judged);
    note(std::to_string(more) +
         (more == 1 ? " more element that differs was" : " more elements that differ were") +
         " too many to compute with their cause");
  }
  for (const Output& o : shown.outputs) note(pattern_of(o));
  note(scales_seen(call, shown.outputs));
  note(magnitudes_seen(call, shown.outputs));
  note(shown.pattern);
  if (e.verdict == ExplainVerdict::unknown && shown.nearest.gain_db >= kNearDb) {
    // Where no number is farther, what differs is the sign of a zero, or no number.
    const bool numbers = shown.nearest.gain_db >= kSameDb;
    note((numbers ? "the same numbers"
                  : std::to_string(std::lround(shown.nearest.gain_db)) + " dB nearer") +
         ", but not these bits, if " + shown.nearest.phrase);
  }
  return e;
}

}  // namespace mxo

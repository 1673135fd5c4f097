// Measure first, guess last: what the output says by itself, then altered calls, then patterns.
#include "golden/explain/explain.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>

#include "formats/error.h"
#include "golden/explain/compared_outputs.h"
#include "golden/explain/hypotheses.h"
#include "golden/explain/name/pattern.h"
#include "golden/explain/output.h"
#include "golden/explain/product.h"
#include "golden/explain/recover/degenerate_scales.h"
#include "golden/explain/recover/quantiser.h"
#include "golden/explain/recover/recover.h"
#include "golden/explain/recover/scales.h"
#include "golden/explain/recover/slots.h"
#include "golden/explain/search.h"
#include "golden/explain/settled.h"
#include "golden/explain/steps.h"

namespace mxo {
namespace {

constexpr Index kFewLooks = 4;    ///< one in so many of what is unknown
constexpr double kNearDb = 30.0;  ///< from here on a cause that gives other bits is worth a word

void append(std::vector<Claim>& to, std::vector<Claim> more) {
  for (Claim& c : more) to.push_back(std::move(c));
}

/// What outputs say by themselves.
std::vector<Claim> shown_by_outputs(const Call& call, std::vector<Output>& outputs,
                                    const NamedTensors& expected) {
  std::vector<Claim> claims = recover_zero_blocks(call, outputs);
  for (Output& o : outputs) {
    append(claims, recover_stride(o));
    append(claims, recover_running(o));
    append(claims, recover_late(o));
    append(claims, recover_padding(call, o, expected));
    append(claims, recover_unwritten(o));
    append(claims, recover_row_order(o));
    append(claims, recover_moved(o));
    append(claims, recover_moved_runs(o));
    append(claims, recover_added(o));
  }
  // Scales that moved beside codes that are right were made of no other amax.
  const auto is_codes = [](const Output& o) { return o.name == "codes" && o.differing == 0; };
  const bool right = std::any_of(outputs.begin(), outputs.end(), is_codes);
  for (Output& o : outputs) {
    if (right && o.name == "scales") append(claims, recover_exchanged(o));
  }
  append(claims, recover_quantiser(call, outputs));
  return claims;
}

/// What altered calls give, measured ones first.
std::vector<Claim> shown_by_runs(Backend& backend, const Call& call, std::vector<Output>& outputs,
                                 const Progress& progress, Nearest& nearest,
                                 Extent extent = Extent::part) {
  std::vector<Hypothesis> list;
  for (const Output& o : outputs) {
    add_measured_rows(call, o, list);
    add_measured_scales(call, o, list);
    add_measured_blocks(call, o, list);
  }
  add_measured_slots(backend, call, outputs, list);
  add_measured_slot_rows(backend, call, outputs, list);
  for (Hypothesis& h : list) h.measured = true;
  for (Hypothesis& h : hypotheses_about(call)) list.push_back(std::move(h));
  // What is known of some lines only is said where nothing is known of all of them.
  std::vector<Hypothesis> of_lines;
  const auto is_of_lines = [](const Hypothesis& h) {
    return !h.only.rows.empty() || !h.only.columns.empty();
  };
  std::copy_if(list.begin(), list.end(), std::back_inserter(of_lines), is_of_lines);
  std::erase_if(list, is_of_lines);
  const auto searched = [&](std::vector<Hypothesis> some) {
    return search(backend, call, outputs, std::move(some), progress, nearest, extent);
  };
  std::vector<Claim> claims = searched(std::move(list));
  if (extent == Extent::all) return claims;
  list.clear();
  for (const Output& o : outputs) {
    add_misread_parts(call, o, list);
    add_measured_lanes(call, o, list);
  }
  for (Hypothesis& h : list) h.measured = true;
  add_stale_stages(call, list);
  for (std::vector<Hypothesis>* more : {&list, &of_lines}) {
    if (left_of(outputs) > 0 && !more->empty()) append(claims, searched(std::move(*more)));
  }
  return claims;
}

/// A product no scale of which is a factor of a whole line of its output: a factor of all of it is
/// no misread scale, and needs no altered call.
bool sums_many_scales(const Call& call) {
  const std::optional<Product> p = product_of(call);
  if (!p) return false;
  const auto many = [&](const ProductSide& f) { return f.scales == nullptr || p->block < p->k; };
  return many(p->a) && many(p->b);
}

/// What was found out, and the outputs with what it explains settled.
struct Shown {
  std::vector<Claim> claims;
  std::vector<Output> outputs;
  Nearest nearest;
  std::string pattern;  ///< of what the steps of an operator leave open
  double judged() const {
    double sum = 0.0;
    for (const Claim& c : claims) sum += c.judged();
    return sum;
  }
};

/// Whether `call` gives the outputs that are owed.
bool gives(Backend& backend, const Call& call, const NamedTensors& owed) {
  try {
    NamedTensors made = run_call(backend, call);
    return std::all_of(owed.begin(), owed.end(), [&](const auto& entry) {
      const auto at = made.find(entry.first);
      return at != made.end() &&
             make_output(call, entry.first, entry.second, at->second).differing == 0;
    });
  } catch (const Error&) {
    return false;  // it is not the call that made them
  }
}

/// Causes in the one call that made an output of an operator of many steps, and its other outputs.
void show_step(Backend& backend, const StepCall& step, Output& output, Shown& shown,
               const Progress& progress) {
  NamedTensors owed;
  NamedTensors came;
  std::vector<Output*> own;
  for (const StepCall::Same& same : step.outputs) {
    for (Output& o : shown.outputs) {
      if (o.name != same.own) continue;
      owed.emplace(same.inner, *o.expected);
      came.emplace(same.inner, *o.actual);
      own.push_back(&o);
    }
  }
  if (!gives(backend, step.call, owed)) return;
  const Explanation inner = explain(backend, step.call, owed, came, progress);
  if (inner.causes.empty()) return;
  double rest = 0.0;
  for (const Output* o : own) rest += static_cast<double>(o->left);
  const std::string prefix = output.name + " as " + step.call.op + ": ";
  for (const Cause& cause : inner.causes) {
    Claim claim{cause.id, prefix + cause.sentence, cause.where};
    claim.where.tensor = output.name;
    for (const StepCall::Same& same : step.outputs) {
      if (same.inner == cause.where.tensor) claim.where.tensor = same.own;
    }
    claim.elements = cause.share * static_cast<double>(inner.differing);
    rest -= claim.elements;
    shown.claims.push_back(std::move(claim));
  }
  if (inner.verdict == ExplainVerdict::explained) rest = 0.0;
  if (rest >= 1.0) shown.pattern += (shown.pattern.empty() ? "" : "; ") + prefix + inner.pattern;
  for (Output* o : own) {
    for (std::size_t i = 0; i < o->marks.size(); ++i) o->settle(static_cast<Index>(i));
  }
}

/// An output that is bit for bit what other casts of the operands give.
bool show_other_casts(Backend& backend, const Call& call, Output& output, Shown& shown) {
  for (const StepAlternative& other : step_alternatives(backend, call, output.name)) {
    NamedTensors came;
    came.emplace(other.step.outputs.front().inner, *output.actual);
    if (!gives(backend, other.step.call, came)) continue;
    Claim claim{other.id, output.name + ": operands are " + other.phrase, {}};
    claim.where.tensor = output.name;
    claim.elements = static_cast<double>(output.left);
    for (std::size_t i = 0; i < output.marks.size(); ++i) output.settle(static_cast<Index>(i));
    shown.claims.push_back(std::move(claim));
    return true;
  }
  return false;
}

/// The outputs of an operator of many steps, each as the call that made it.
Shown shown_by_steps(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                     const NamedTensors& expected, const Progress& progress) {
  Shown shown{{}, outputs, {}, {}};
  for (Output& o : shown.outputs) {
    if (o.left == 0) continue;
    try {
      if (show_other_casts(backend, call, o, shown)) continue;
      for (const StepCall& step : step_calls(backend, call, expected, o.name)) {
        if (o.left > 0) show_step(backend, step, o, shown, progress);
      }
    } catch (const Error&) {
      continue;  // the operands of the step are not there, or none that it takes
    }
  }
  return shown;
}

/// Several causes, or one that only says what the output looks like.
bool is_patchwork(const std::vector<Claim>& claims, Index left) {
  if (claims.empty()) return false;
  return claims.size() > 1 || left > 0 || claims.front().id == "never_written.nan" ||
         claims.front().id == "never_written.zero" || claims.front().id.starts_with("rows.");
}

/// A tensor has one format: another one that gives the NaN of some rows only is no cause of it.
bool is_format_of_a_part(const Claim& claim) {
  return claim.id.starts_with("format") && !claim.where.rows.empty();
}

std::string percent(double share) {
  const double hundredths = std::floor(share * 1000.0 + 0.5) / 10.0;
  std::string text = std::to_string(share < 1.0 && hundredths >= 100.0 ? 99.9 : hundredths);
  return text.substr(0, text.find('.') + 2) + " %";
}

/// Whether elements that are expected to be equal came equal, as far as some that differ show.
bool follows_from_values(const Output& output) {
  Index seen = 0;
  std::map<std::uint64_t, std::uint64_t> came;
  for (std::size_t i = 0; i < output.marks.size() && seen < 4096; ++i) {
    if (output.marks[i] != Mark::differs) continue;
    ++seen;
    const auto at = static_cast<Index>(i);
    const auto [known, first] = came.emplace(output.wanted(at), output.came(at));
    if (!first && known->second != output.came(at)) return false;
  }
  return true;
}

/// The one order of one output, or the one function of its values, that gives every element that
/// differs; empty if there is none.
std::vector<Claim> shown_as_one_order(std::vector<Output>& outputs) {
  std::vector<Output*> wrong;
  for (Output& o : outputs) {
    if (o.left > 0) wrong.push_back(&o);
  }
  if (wrong.size() != 1) return {};
  for (const auto& recovered : {recover_order, recover_axes, recover_mapped}) {
    if (recovered == recover_mapped && !follows_from_values(*wrong.front())) continue;
    std::vector<Claim> claims = recovered(*wrong.front());
    const bool all = wrong.front()->left == 0 && claims.size() == 1;
    if (all && !claims.front().id.starts_with("row.") && !claims.front().id.starts_with("bit."))
      return claims;
    Settled::forget(outputs);
  }
  return {};
}

/// What values look like where nothing else is known.  A few of them that look alike, while all
/// others are unknown, have no cause of their own.
void show_looks(std::vector<Output>& outputs, std::vector<Claim>& claims) {
  for (const auto& recovered : {recover_factors, recover_mapped, recover_scaled}) {
    const Index before = left_of(outputs);
    for (Output& o : outputs) {
      if (o.left == 0) continue;
      const std::vector<Mark> marks = o.marks;
      const Index left = o.left;
      std::vector<Claim> more = recovered(o);
      if ((before - left_of(outputs)) * kFewLooks < before) {
        o.marks = marks;
        o.left = left;
      } else {
        append(claims, std::move(more));
      }
    }
  }
}

/// What outputs and altered calls say of the operator as a whole.
Shown shown_by_measuring(Backend& backend, const Call& call, std::vector<Output> outputs,
                         const NamedTensors& expected, const Progress& progress) {
  Shown shown{{}, std::move(outputs), {}, {}};
  std::vector<Claim>& claims = shown.claims;
  claims = shown_by_outputs(call, shown.outputs, expected);
  if (sums_many_scales(call)) {
    for (Output& o : shown.outputs) append(claims, recover_one_factor(o));
  }
  if (left_of(shown.outputs) > 0)
    append(claims, shown_by_runs(backend, call, shown.outputs, progress, shown.nearest));
  for (Output& o : shown.outputs) {
    append(claims, recover_order(o));
    append(claims, recover_axes(o));
    append(claims, recover_column_order(o));
    append(claims, recover_tiles(o));
    append(claims, recover_exchanged(o));
  }
  show_looks(shown.outputs, claims);
  if (is_patchwork(claims, left_of(shown.outputs))) {
    // One cause that gives every bit says more than what several parts look like.
    const Settled settled(shown.outputs);
    Settled::forget(shown.outputs);
    std::vector<Claim> whole = shown_as_one_order(shown.outputs);
    if (whole.empty()) {
      whole = shown_by_runs(backend, call, shown.outputs, progress, shown.nearest, Extent::all);
    }
    if (left_of(shown.outputs) == 0 && whole.size() == 1 && !is_format_of_a_part(whole.front())) {
      claims = std::move(whole);
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
                        std::min(1.0, c.judged() / static_cast<double>(considered)), c.where});
  }
  const bool all = left_of(shown.outputs) == 0 && shown.pattern.empty() && not_judged < 1.0;
  e.verdict = all                ? ExplainVerdict::explained
              : e.causes.empty() ? ExplainVerdict::unknown
                                 : ExplainVerdict::partly;
  if (not_judged >= 1.0) {
    note(std::to_string(std::llround(not_judged)) +
         " more elements that differ were too many to compute with their cause");
  }
  for (const Output& o : shown.outputs) note(pattern_of(o));
  note(shown.pattern);
  if (e.verdict == ExplainVerdict::unknown && shown.nearest.gain_db >= kNearDb) {
    note(std::to_string(std::lround(shown.nearest.gain_db)) +
         " dB nearer, but not these bits, if " + shown.nearest.phrase);
  }
  return e;
}

}  // namespace mxo

// Measure first, guess last: what the output says by itself, then altered calls, then patterns.
#include "golden/explain/explain.h"

#include <iterator>
#include <nlohmann/json.hpp>

#include "golden/explain/confirm/score.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/quantiser/quantiser.h"
#include "golden/explain/finders.h"
#include "golden/explain/steps/steps.h"
#include "golden/judge/declared_type.h"

namespace mxo {
namespace {

constexpr double kSameDb = 200.0;  ///< beyond what any rounding leaves
constexpr double kNearDb = 30.0;   ///< from here on a cause that gives other bits is worth a word

std::string percent(double share) {
  const double hundredths = std::floor(share * 1000.0 + 0.5) / 10.0;
  std::string text = std::to_string(share < 1.0 && hundredths >= 100.0 ? 99.9 : hundredths);
  return text.substr(0, text.find('.') + 2) + " %";
}

std::string said(const Explanation& e, bool kinds) {
  const std::string more = e.pattern.empty() ? "" : "; " + e.pattern;
  if (e.verdict == ExplainVerdict::same) return "bit-identical in all that is compared" + more;
  if (e.verdict == ExplainVerdict::unknown) return "no known cause: " + e.pattern;
  // All of it is told, but not what made it so.
  const bool seen = e.verdict == ExplainVerdict::partly && e.causes.size() == 1 &&
                    e.causes.front().kind == FindingKind::look && e.causes.front().share >= 1.0;
  std::string text(seen ? "seen, its cause not known" : name_of(e.verdict));
  for (std::size_t i = 0; i < e.causes.size() && i < 3; ++i) {
    const Cause& cause = e.causes[i];
    text += i == 0 ? ": " : "; ";
    if (kinds) text += cause.is_symptom() ? "(symptom) " : "(cause) ";
    if (e.causes.size() > 1 || (e.verdict == ExplainVerdict::partly && !seen))
      text += percent(cause.share) + ": ";
    text += cause.sentence;
  }
  return text;
}

/// What the finders say of an operator as a whole.
class Measuring {
 public:
  Measuring(const Case& c, const Progress& progress) : c_{c}, progress_(progress) {}

  Claims claims() {
    // What an altered call gives of rows that are only moved says more than what they look like.
    if (only_moves(c_.call)) {
      Claims one = by_runs(Extent::all);
      if (gives_all(one)) return one;
      forget_explained(c_.outputs);
    }
    Claims claims;
    for (const Turn turn : {Turn::rule, Turn::seen}) append(claims, found(c_, turn));
    append(claims, by_runs(Extent::part));
    for (const Turn turn : {Turn::order, Turn::look}) append(claims, found(c_, turn));
    const bool several = claims.size() > 1 || left_of(c_.outputs) > 0;
    // One cause that gives every bit says more than several, or than what it looks like.
    if (!claims.empty() && (several || claims.front().yields))
      try_instead(claims, [&] { return one_cause(several); });
    // Codes that follow from scales say nothing where altered calls give both, each its part.
    const auto follows = [](const Claim& claim) { return claim.kind == FindingKind::follows; };
    if (std::ranges::any_of(claims, follows) && (claims.size() > 1 || left_of(c_.outputs) > 0))
      try_instead(claims, [&] { return by_runs(Extent::part); });
    keep_call_alone(c_, claims);
    name_by_fewest_causes(c_, claims);
    count_each(c_, claims);
    // What values look like says more than a cause that outputs of other steps speak against.
    const auto spoken_against = [&](const Claim& c) { return !kept_elsewhere(c_, c).empty(); };
    if (std::ranges::any_of(claims, spoken_against))
      try_instead(claims, [&] { return one_look(); });
    for (Claim& claim : claims) claim.sentence += kept_elsewhere(c_, claim);
    return claims;
  }

  const Nearest& nearest() const { return nearest_; }

 private:
  bool gives_all(const Claims& claims) const {
    return claims.size() == 1 && left_of(c_.outputs) == 0;
  }

  /// Puts what `find` claims of all that differs in the place of `claims`, if it explains all.
  template <typename Find>
  void try_instead(Claims& claims, Find find) {
    const Snapshot before(c_.outputs);
    forget_explained(c_.outputs);
    Claims others = find();
    if (left_of(c_.outputs) == 0) {
      claims = std::move(others);
    } else {
      before.restore(c_.outputs);
    }
  }

  /// The order or function of values, or else the altered call, that gives every bit; in place of
  /// what is seen of all only if no output of another step speaks against it.
  Claims one_cause(bool several) {
    for (const Finder& finder : finders()) {
      if (!finder.of_all) continue;
      Claims one = finder.find(c_);
      if (gives_all(one) && one.front().kind == FindingKind::cause) return one;
      forget_explained(c_.outputs);
    }
    Claims one = by_runs(Extent::all);
    if (!gives_all(one) || (!several && !kept_elsewhere(c_, one.front()).empty()))
      forget_explained(c_.outputs);
    return one;
  }

  /// The one function of what is expected that gives every bit.
  Claims one_look() {
    Claims one = found(c_, Turn::look);
    if (!gives_all(one) || one.front().kind != FindingKind::cause) forget_explained(c_.outputs);
    return one;
  }

  /// What altered calls give, measured ones first.
  Claims by_runs(Extent extent) {
    if (left_of(c_.outputs) == 0 || (extent == Extent::all && gives_none_)) return {};
    const bool nothing_told =
        std::ranges::all_of(c_.outputs, [](const Output& o) { return o.left == o.differing; });
    const auto searched = [&](List list) {
      if (left_of(c_.outputs) == 0 || list.empty()) return Claims{};
      return search(c_.backend, c_.call, c_.outputs, std::move(list), progress_, nearest_, extent);
    };
    List list = proposed(c_, Turn::measured);
    std::ranges::move(proposed(c_, Turn::listed), std::back_inserter(list));
    // What is known of some lines only is said where nothing is known of all of them.
    List of_lines;
    std::ranges::copy_if(list, std::back_inserter(of_lines), &Hypothesis::is_of_lines);
    std::erase_if(list, std::mem_fn(&Hypothesis::is_of_lines));
    std::stable_partition(list.begin(), list.end(), std::not_fn(&Hypothesis::last));
    Claims claims = searched(std::move(list));
    if (extent == Extent::all || left_of(c_.outputs) == 0) return claims;
    append(claims, searched(proposed(c_, Turn::costly)));
    append(claims, searched(std::move(of_lines)));
    gives_none_ = nothing_told && claims.empty();
    return claims;
  }

  const Case c_;
  const Progress& progress_;
  Nearest nearest_;
  bool gives_none_ = false;  ///< no altered call gives any part of what differs
};

/// What is known of some outputs: of the calls that made them, or else by the finders.
Shown shown_of(const Case& c, const Progress& progress) {
  Shown shown;
  if (has_steps(c.call)) shown = shown_by_steps(c.backend, c.call, c.outputs, c.expected, progress);
  // A parameter of a layer says more than its last step, which did not come; an altered call more
  // than what a step yields to it.
  const bool yields = std::ranges::any_of(shown.claims, &Claim::yields);
  const bool layer = c.call.op == "moe_layer" && !c.call.set.flag("keep_stages", false);
  if (!layer && !yields && !shown.claims.empty() && left_of(shown.outputs) == 0 &&
      shown.pattern.empty())
    return shown;
  Measuring measuring(c, progress);
  Claims claims = measuring.claims();
  Shown measured{std::move(claims), std::move(c.outputs), measuring.nearest(), {}};
  const bool whole = left_of(measured.outputs) == 0 &&
                     (layer || std::ranges::none_of(measured.claims, &Claim::yields));
  const bool better = whole || shown.claims.empty() || measured.judged() > shown.judged();
  return std::move(better ? measured : shown);
}

/// Adds what is known of the outputs of later steps that do not follow from what is known; up to
/// one of which not all is known.
void show_later(const Case& c, const NamedTensors& actual, std::vector<std::vector<Output>> later,
                Shown& shown, const Progress& progress) {
  for (std::vector<Output>& step : later) {
    if (left_of(shown.outputs) > 0 || !shown.pattern.empty()) return;
    std::erase_if(step, [&](const Output& o) {
      return follows_from_steps(c.backend, c.call, c.expected, actual, o) ||
             follows_from_calls(c, shown.claims, o);
    });
    if (step.empty()) continue;
    Shown more = shown_of({c.backend, c.call, c.expected, actual, step}, progress);
    append(shown.claims, std::move(more.claims));
    std::ranges::move(more.outputs, std::back_inserter(shown.outputs));
    shown.pattern = more.pattern;
  }
}

}  // namespace

std::string_view name_of(ExplainVerdict verdict) {
  constexpr std::string_view kNames[] = {"same", "explained", "partly", "unknown"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::string Explanation::sentence() const { return said(*this, false); }
std::string Explanation::sentence_with_kinds() const { return said(*this, true); }

Explanation explain(Backend& backend, const Call& call, const NamedTensors& expected,
                    const NamedTensors& actual, const Progress& progress) {
  if (progress) progress(0.0, "differences");
  if (auto told = told_by_shape(backend, call, expected, actual)) return *std::move(told);
  Outputs outputs = outputs_of(call, expected, actual);
  Explanation e;
  for (const Output& o : outputs.list) {
    e.elements += o.compared_rows * o.columns;
    e.differing += o.differing;
  }
  e.sqnr_db = sqnr_of(outputs.list);
  const auto note = [&e](const std::string& words) {
    if (!words.empty()) list_words(e.pattern, words, "; ");
  };
  for (const std::string& name : outputs.missing) note(name + " is missing and was not compared");
  for (const Output& o : outputs.list)
    if (o.compared_rows != o.rows)
      note("rows " + std::to_string(o.compared_rows) + " to " + std::to_string(o.rows - 1) +
           " of " + o.name + " belong to no group and were not compared");
  for (const Output& o : outputs.list) {
    const std::string unlike = other_shape_or_type(*o.expected, *o.actual);
    if (unlike.empty() || e.differing > 0) continue;
    e.verdict = ExplainVerdict::unknown;
    note(o.name + ": " + unlike);
  }
  if (e.differing == 0) return e;
  keep_first_step(call, outputs);
  note(outputs.later);
  const Case first_step{backend, call, expected, actual, outputs.list};
  Shown shown = shown_of(first_step, progress);
  if (left_of(shown.outputs) == 0 && shown.pattern.empty())
    show_later(first_step, actual, std::move(outputs.later_steps), shown, progress);
  Index considered = 0;
  for (const Output& o : shown.outputs) considered += o.differing;
  Claims& claims = shown.claims;
  // What follows from something else comes after it.
  const auto rank = [](const Claim& c) {
    return std::pair(c.kind == FindingKind::follows, -c.judged());
  };
  std::ranges::stable_sort(claims, {}, rank);
  double not_judged = 0.0;
  bool only_seen = false;
  for (Claim& c : claims) {
    only_seen = only_seen || c.kind == FindingKind::look;
    not_judged += c.elements - c.judged();
    e.causes.push_back({std::move(c.id), std::move(c.sentence),
                        std::min(1.0, c.judged() / static_cast<double>(considered)), c.where,
                        c.kind, c.yields});
  }
  // What follows from something that nobody knows is no cause.
  const auto follows = [](const Cause& cause) { return cause.kind == FindingKind::follows; };
  std::vector<Cause> idle;
  if (left_of(shown.outputs) > 0 && std::ranges::all_of(e.causes, follows)) e.causes.swap(idle);
  const bool all =
      left_of(shown.outputs) == 0 && shown.pattern.empty() && not_judged < 1.0 && !only_seen;
  e.verdict = all                ? ExplainVerdict::explained
              : e.causes.empty() ? ExplainVerdict::unknown
                                 : ExplainVerdict::partly;
  if (not_judged >= 1.0) {
    const long long more = std::llround(not_judged);
    note(std::to_string(more) +
         (more == 1 ? " more element that differs was" : " more elements that differ were") +
         " too many to compute with their cause");
  }
  if (only_seen) note("that is what values look like: what made them so is not known");
  for (const Output& o : shown.outputs) {
    note(pattern_of(o));
    note(operands_seen(call, o));
  }
  note(scales_seen(call, shown.outputs));
  note(rows_of_tiles_seen(call, shown.outputs));
  note(magnitudes_seen(call, shown.outputs));
  note(shown.pattern);
  for (const Cause& cause : idle) note(cause.sentence);
  // Integers are not near one another.
  const bool floats = std::ranges::any_of(shown.outputs, [](const Output& o) {
    const Dtype type = o.expected->dtype();
    return o.left > 0 && type != Dtype::i32 && type != Dtype::i64;
  });
  if (e.verdict == ExplainVerdict::unknown && floats && shown.nearest.gain_db >= kNearDb) {
    // Where no number is farther, what differs is the sign of a zero, or no number.
    const bool numbers = shown.nearest.gain_db >= kSameDb;
    note((numbers ? "the same numbers"
                  : std::to_string(std::lround(shown.nearest.gain_db)) + " dB nearer") +
         ", but not these bits, if " + shown.nearest.phrase);
  }
  return e;
}

std::string to_json(const Explanation& explanation) {
  using Json = nlohmann::ordered_json;
  Json json{{"schema", "mxo-explain/1"},
            {"verdict", name_of(explanation.verdict)},
            {"elements", explanation.elements},
            {"differing", explanation.differing}};
  json["causes"] = Json::array();
  for (const Cause& cause : explanation.causes) {
    Json where = Json::object();
    const auto put = [&where](const char* key, const std::string& text) {
      if (!text.empty()) where[key] = text;
    };
    put("tensor", cause.where.tensor);
    put("groups", cause.where.groups);
    put("rows", cause.where.rows);
    put("columns", cause.where.columns);
    put("blocks", cause.where.blocks);
    json["causes"].push_back({{"id", cause.id},
                              {"kind", cause.is_symptom() ? "symptom" : "cause"},
                              {"sentence", cause.sentence},
                              {"share", cause.share},
                              {"where", where}});
  }
  json["pattern"] = explanation.pattern;
  return json.dump(2);
}

}  // namespace mxo

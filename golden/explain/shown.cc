// What is told besides the finders: what the altered calls behind claims give of the outputs, the
// calls that made the outputs of an operator of many steps, and what gives outputs another shape.
#include "formats/error.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/finders.h"
#include "golden/explain/steps/steps.h"

namespace mxo {
namespace {

constexpr std::size_t kMostKept = 4;  ///< outputs that are named one by one
constexpr double kNearlyAll = 0.9;    ///< of what is explained, beside which the rest is chance

/// The outputs of the altered call that a claim is of; none where it is of no such call.
std::optional<NamedTensors> made_by(const Case& c, const Claim& claim) {
  std::vector<const Hypothesis*> altered;
  Call call = c.call;
  for (const Hypothesis& h : claim.made_by) {
    if (!h.alter(call)) return std::nullopt;
    altered.push_back(&h);
  }
  if (altered.empty()) return std::nullopt;
  return outputs_under(c.backend, call, altered);
}

/// What such a call gives of an output; null where it gives none of its size.
const Tensor* model_of(const std::optional<NamedTensors>& made, const Output& o) {
  if (!made || !made->contains(o.name)) return nullptr;
  const Tensor& model = made->at(o.name);
  return model.bytes() == o.expected->bytes() ? &model : nullptr;
}

/// Whether `call` gives the outputs that are expected.
bool gives(Backend& backend, const Call& call, const NamedTensors& expected_output) {
  try {
    NamedTensors made = run_call(backend, call);
    return std::all_of(expected_output.begin(), expected_output.end(), [&](const auto& entry) {
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
  NamedTensors expected_output;
  NamedTensors got;
  std::vector<Output*> own;
  for (const StepCall::Same& same : step.outputs) {
    for (Output& o : shown.outputs) {
      if (o.name != same.own) continue;
      expected_output.emplace(same.inner, *o.expected);
      got.emplace(same.inner, *o.actual);
      own.push_back(&o);
    }
  }
  if (!gives(backend, step.call, expected_output)) return;
  const Explanation inner = explain(backend, step.call, expected_output, got, progress);
  if (inner.causes.empty()) return;
  const std::string prefix = output.name + " as " + step.call.op + ": ";
  for (const Cause& cause : inner.causes) {
    Claim claim{cause.id, prefix + cause.sentence, cause.where};
    claim.where.tensor = output.name;
    for (const StepCall::Same& same : step.outputs)
      if (same.inner == cause.where.tensor) claim.where.tensor = same.own;
    claim.elements = cause.share * static_cast<double>(inner.differing);
    claim.kind = cause.kind;
    claim.yields = cause.yields;
    shown.claims.push_back(std::move(claim));
  }
  if (inner.verdict != ExplainVerdict::explained)
    shown.pattern += (shown.pattern.empty() ? "" : "; ") + prefix + inner.pattern;
  for (Output* o : own) o->mark_all();
}

/// An output that is bit for bit what other casts of the operands give.
bool show_other_casts(Backend& backend, const Call& call, Output& output, Shown& shown) {
  for (const auto& alternatives : {step_alternatives, cast_alternatives}) {
    for (const StepAlternative& other : alternatives(backend, call, output.name)) {
      NamedTensors got;
      got.emplace(other.step.outputs.front().inner, *output.actual);
      if (!gives(backend, other.step.call, got)) continue;
      Claim claim{other.id, output.name + ": " + other.phrase, {}};
      claim.where.tensor = output.name;
      claim.elements = static_cast<double>(output.left);
      output.mark_all();
      shown.claims.push_back(std::move(claim));
      return true;
    }
  }
  return false;
}

constexpr int kMostAlike = 2;        ///< further settings that are named beside the first
constexpr Index kLeastOfCodes = 64;  ///< codes that differ, of other blocks without scales

bool same_size(const Tensor& a, const Tensor& b) {
  return a.elements() == b.elements() && size_of(a.dtype()) == size_of(b.dtype());
}

/// Elements of outputs that came otherwise than `made`; none where a shape is not that of `made`.
std::optional<Index> differing(const Call& call, const NamedTensors& made,
                               const NamedTensors& got) {
  Index n = 0;
  for (const auto& [name, tensor] : got) {
    const auto at = made.find(name);
    if (at == made.end()) return std::nullopt;
    const bool alike = at->second.rank() != tensor.rank() || at->second.shape() == tensor.shape();
    if (!same_size(at->second, tensor) || !alike) return std::nullopt;
    n += make_output(call, name, at->second, tensor).differing;
  }
  return n;
}

}  // namespace

void count_each(const Case& c, Claims& claims) {
  for (Claim& claim : claims) {
    if (left_of(c.outputs) == 0) return;
    const std::optional<NamedTensors> made = made_by(c, claim);
    Index in_all = 0;   // given, where more are than was claimed
    Index of_them = 0;  // altered
    std::string place;  // that holds all that is given, and of what is altered nothing else
    for (Output& o : c.outputs) {
      const Tensor* model = model_of(made, o);
      if (model == nullptr || o.left == 0) continue;
      const auto is_altered = [&](Index i) { return bits_at(*model, i) != o.expected_bits(i); };
      const auto is_given = [&](Index i) {
        return is_altered(i) && bits_at(*model, i) == o.actual_bits(i);
      };
      Index altered = 0;
      Index right = 0;
      std::vector<Index> given;
      for (Index i = 0; i < compared(o); ++i) {
        altered += is_altered(i);
        right += is_altered(i) && nth(o.marks, i) == Mark::same;
        if (is_given(i)) given.push_back(i);
      }
      if (right * 100 > altered || std::ssize(given) * 10 < altered * 9) continue;
      const Index before = o.left;
      for (const Index i : given) o.mark_explained(i);
      if (o.left == before) continue;
      claim.elements += static_cast<double>(before - o.left);
      in_all += std::ssize(given);
      of_them += altered;
      const Place all = place_of(o, is_given);
      const bool is_place = std::ranges::all_of(all.rows, [&](Index r) {
        return std::ranges::all_of(all.columns, [&](Index column) {
          const Index i = r * o.columns + column;
          return !is_altered(i) || is_given(i);
        });
      });
      place = is_place && claim.where.tensor == o.name ? all.words : "";
      claim.where = is_place ? all.where : Where{claim.where.tensor, {}, {}, {}, {}};
    }
    if (in_all == 0) continue;
    Hypotheses causes;
    for (const Hypothesis& h : claim.made_by) causes.push_back(&h);
    claim.sentence = phrase_of(causes) + ", in " +
                     (place.empty() ? std::to_string(in_all) + " of the " +
                                          std::to_string(of_them) + " elements that it alters"
                                    : place);
  }
}

void keep_call_alone(const Case& c, Claims& claims) {
  if (claims.size() < 2) return;
  const auto most = std::ranges::max_element(claims, {}, &Claim::elements);
  double all = 0.0;
  for (const Claim& claim : claims) all += claim.elements;
  if (most->elements < kNearlyAll * all) return;
  std::optional<NamedTensors> made = made_by(c, *most);
  if (!made) return;
  for (const Output& o : c.outputs) {
    if (made->contains(o.name)) resize_rows(made->at(o.name), *o.expected);
    const Tensor* model = model_of(made, o);
    if (model == nullptr) return;
    for (Index i = 0; i < compared(o); ++i)
      if (nth(o.marks, i) == Mark::explained && bits_at(*model, i) != o.actual_bits(i)) return;
  }
  most->elements = all;
  claims = {std::move(*most)};
}

void name_by_fewest_causes(const Case& c, Claims& claims) {
  const auto is_pair = [](const Claim& claim) { return claim.made_by.size() > 1; };
  if (claims.size() < 2 || std::ranges::none_of(claims, is_pair)) return;
  const auto gives = [](const Tensor* model, const Output& o, Index i) {
    return model != nullptr && nth(o.marks, i) == Mark::explained &&
           bits_at(*model, i) == o.actual_bits(i);
  };
  for (Claim& claim : claims) {
    const std::optional<NamedTensors> made = made_by(c, claim);
    const auto tells_all = [&](const Claim& other) {
      const std::optional<NamedTensors> more = made_by(c, other);
      bool any = false;
      for (const Output& o : c.outputs) {
        const Tensor* own = model_of(made, o);
        const Tensor* its = model_of(more, o);
        for (Index i = 0; i < compared(o); ++i) {
          if (!gives(own, o, i)) continue;
          any = true;
          if (!gives(its, o, i)) return false;
        }
      }
      return any;
    };
    for (const Claim& other : claims) {
      if (&other == &claim || !is_pair(other)) continue;
      for (const Hypothesis& h : other.made_by) {
        Claim one = claim;
        one.made_by = {h};
        if (h.name == claim.id || !tells_all(one)) continue;
        one.id = h.name;
        one.sentence = h.phrase;
        for (const Output& o : c.outputs) {
          const Place place = place_of(o, [&](Index i) { return gives(model_of(made, o), o, i); });
          if (place.elements > 0)
            one.sentence += (one.sentence == h.phrase ? ", in " : " and ") + place.words;
        }
        claim = std::move(one);
        break;
      }
    }
  }
}

std::string kept_elsewhere(const Case& c, const Claim& claim) {
  if (c.outputs.size() == c.expected.size()) return {};
  const std::optional<NamedTensors> made = made_by(c, claim);
  if (!made) return {};
  std::vector<std::string> kept;
  for (const auto& [name, model] : *made) {
    const auto want = c.expected.find(name);
    const auto came = c.actual.find(name);
    const bool other = output_named(c.outputs, name) == nullptr;
    if (want == c.expected.end() || came == c.actual.end() || !other) continue;
    const auto differs = [&, &name = name](const Tensor& t) {
      return t.bytes() != want->second.bytes() ||
             make_output(c.call, name, want->second, t).differing > 0;
    };
    if (!differs(came->second) && differs(model)) kept.push_back(name);
  }
  if (kept.empty()) return {};
  std::string words;
  const std::size_t told = kept.size() > kMostKept ? kMostKept - 1 : kept.size();
  for (std::size_t i = 0; i < told; ++i) {
    const bool last = i + 1 == kept.size();
    words += (i == 0 ? "" : last ? " and " : ", ") + kept[i];
  }
  if (told < kept.size()) words += " and " + std::to_string(kept.size() - told) + " more outputs";
  return ", but " + words + (kept.size() > 1 ? " are" : " is") + " as expected";
}

bool follows_from_calls(const Case& c, const Claims& claims, const Output& output) {
  return std::any_of(claims.begin(), claims.end(), [&](const Claim& claim) {
    const std::optional<NamedTensors> made = made_by(c, claim);
    const Tensor* model = model_of(made, output);
    return model != nullptr && model->dtype() == output.expected->dtype() &&
           make_output(c.call, output.name, *model, *output.actual).differing == 0;
  });
}

Shown shown_by_steps(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                     const NamedTensors& expected, const Progress& progress) {
  Shown shown{{}, outputs, {}, {}};
  for (Output& o : shown.outputs) {
    if (o.left == 0) continue;
    try {
      if (show_other_casts(backend, call, o, shown)) continue;
      for (StepCall& step : step_calls(backend, call, expected, o.name)) {
        step.call.work = call.work;
        if (o.left > 0) show_step(backend, step, o, shown, progress);
      }
    } catch (const Error&) {
      continue;  // the operands of the step are not there, or none that it takes
    }
  }
  return shown;
}

bool follows_from_steps(Backend& backend, const Call& call, const NamedTensors& expected,
                        const NamedTensors& actual, const Output& output) {
  NamedTensors made = expected;
  for (auto& [name, tensor] : made) {
    const auto at = actual.find(name);
    if (at != actual.end() && at->second.shape() == tensor.shape()) tensor = at->second;
  }
  try {
    const std::vector<StepCall> steps = step_calls(backend, call, made, output.name);
    return std::any_of(steps.begin(), steps.end(), [&](const StepCall& step) {
      return std::any_of(step.outputs.begin(), step.outputs.end(), [&](const StepCall::Same& same) {
        return same.own == output.name &&
               gives(backend, step.call, NamedTensors{{same.inner, *output.actual}});
      });
    });
  } catch (const Error&) {
    return false;
  }
}

std::optional<Explanation> told_by_shape(Backend& backend, const Call& call,
                                         const NamedTensors& expected, const NamedTensors& actual) {
  Explanation e;
  std::string found;
  std::string missing;
  std::string tensor;
  for (const auto& [name, expected_output] : expected) {
    const auto at = actual.find(name);
    if (at == actual.end()) {
      list_words(missing, name);
      continue;
    }
    e.elements += expected_output.elements();
    if (same_size(expected_output, at->second)) {
      e.differing += make_output(call, name, expected_output, at->second).differing;
      continue;
    }
    e.differing += expected_output.elements();
    list_words(found,
               name + " came as " + describe(at->second.operand()) + " rather than " +
                   describe(expected_output.operand()),
               "; ");
    list_words(tensor, name);
  }
  // Codes alone tell whose blocks they are: their scales, of another shape, did not come.
  const bool codes_alone = found.empty();
  if (codes_alone && (missing != "scales" || e.differing < kLeastOfCodes)) return std::nullopt;
  if (codes_alone) {
    found = "scales did not come";
    e.sqnr_db = sqnr_of(outputs_of(call, expected, actual).list);
    tensor = "codes";
  }
  List list;
  add_shape_hypotheses(call, list);
  if (codes_alone) std::erase_if(list, [](const Hypothesis& h) { return h.subject != "block"; });
  std::string shaped;
  int alike = 0;
  for (const Hypothesis& h : list) {
    try {
      Call altered = call;
      if (!h.alter(altered)) continue;
      const std::optional<Index> n = differing(altered, run_call(backend, altered), actual);
      if (!n) continue;
      if (*n == 0 && e.causes.empty()) {
        e.causes.push_back({h.name, h.phrase, 1.0, {}});
        e.causes.back().where.tensor = tensor;
      } else if (*n == 0 && alike < kMostAlike) {
        e.causes.front().sentence += (alike++ == 0 ? "; equivalently, " : ", or ") + h.phrase;
      } else if (h.subject == "block") {
        shaped += (shaped.empty() ? "" : ", or ") + h.phrase;
      }
    } catch (const Error&) {
      continue;  // no valid call: it cannot be what happened
    }
  }
  if (!e.causes.empty()) {
    e.verdict = ExplainVerdict::explained;
    e.causes.front().sentence += " (" + found + ")";
    return e;
  }
  if (shaped.empty() || codes_alone) return std::nullopt;
  e.verdict = ExplainVerdict::unknown;
  e.pattern = found + ", the shape (not the bits) that comes if " + shaped;
  return e;
}

}  // namespace mxo

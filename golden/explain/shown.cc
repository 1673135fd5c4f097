// What is told besides the finders: an operator of many steps, by the call that made each of its
// outputs; an output of another shape than is expected, by what gives that shape.
#include <algorithm>

#include "formats/error.h"
#include "golden/explain/explain.h"
#include "golden/explain/finders.h"
#include "golden/explain/hypotheses.h"
#include "golden/explain/steps/steps.h"

namespace mxo {
namespace {

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
    for (const StepCall::Same& same : step.outputs) {
      if (same.inner == cause.where.tensor) claim.where.tensor = same.own;
    }
    claim.elements = cause.share * static_cast<double>(inner.differing);
    claim.kind = cause.kind;
    claim.yields = cause.yields;
    shown.claims.push_back(std::move(claim));
  }
  if (inner.verdict != ExplainVerdict::explained) {
    shown.pattern += (shown.pattern.empty() ? "" : "; ") + prefix + inner.pattern;
  }
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
      missing += (missing.empty() ? "" : ", ") + name;
      continue;
    }
    e.elements += expected_output.elements();
    if (same_size(expected_output, at->second)) {
      e.differing += make_output(call, name, expected_output, at->second).differing;
      continue;
    }
    e.differing += expected_output.elements();
    found += (found.empty() ? "" : "; ") + name + " came as " + describe(at->second.operand()) +
             " rather than " + describe(expected_output.operand());
    tensor += (tensor.empty() ? "" : ", ") + name;
  }
  // Codes alone tell whose blocks they are: their scales, of another shape, did not come.
  const bool codes_alone = found.empty();
  if (codes_alone && (missing != "scales" || e.differing < kLeastOfCodes)) return std::nullopt;
  if (codes_alone) {
    found = "scales did not come";
    e.sqnr_db = sqnr_of(outputs_of(call, expected, actual).list);
    tensor = "codes";
  }
  std::vector<Hypothesis> list;
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

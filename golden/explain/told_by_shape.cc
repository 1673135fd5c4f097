// An output of another shape than is expected: what gives that shape, and whether it gives the
// bits.
#include <algorithm>

#include "formats/error.h"
#include "golden/explain/explain.h"
#include "golden/explain/hypotheses.h"
#include "golden/explain/shown.h"

namespace mxo {
namespace {

constexpr int kMostAlike = 2;  ///< further settings that are named beside the first

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

std::optional<Explanation> told_by_shape(Backend& backend, const Call& call,
                                         const NamedTensors& expected, const NamedTensors& actual) {
  Explanation e;
  std::string found;
  std::string tensor;
  for (const auto& [name, expected_output] : expected) {
    const auto at = actual.find(name);
    if (at == actual.end()) continue;
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
  if (found.empty()) return std::nullopt;
  std::vector<Hypothesis> list;
  add_shape_hypotheses(call, list);
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
      } else if (*n == 0 && alike++ < kMostAlike) {
        e.causes.front().sentence += "; equivalently, " + h.phrase;
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
  if (shaped.empty()) return std::nullopt;
  e.verdict = ExplainVerdict::unknown;
  e.pattern = found + ", the shape (not the bits) that comes if " + shaped;
  return e;
}

}  // namespace mxo

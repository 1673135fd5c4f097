// Verdicts of planted faults.
#include "golden/museum/judged.h"

#include <algorithm>
#include <limits>

#include "golden/judge/judge_call.h"
#include "golden/reports/text.h"

namespace mxo {

std::vector<TensorVerdict> judged(const Planted& planted, const CompareOptions& options) {
  NamedTensors inputs;
  for (const auto& [name, tensor] : planted.call.inputs) inputs.emplace(name, *tensor);
  return judge_call({planted.call.op, inputs, planted.call.set}, planted.expected, planted.actual,
                    options)
      .outputs;
}

bool all_pass(const std::vector<TensorVerdict>& verdicts) {
  return std::none_of(verdicts.begin(), verdicts.end(),
                      [](const TensorVerdict& v) { return v.outcome == Outcome::fail; });
}

std::string in_short(const std::vector<TensorVerdict>& verdicts) {
  if (all_pass(verdicts)) {
    std::string notes;
    for (const TensorVerdict& verdict : verdicts) {
      if (!verdict.note.empty()) notes += (notes.empty() ? ": " : "; ") + verdict.note;
    }
    return "PASS" + notes;
  }
  Index differing = 0;
  Index elements = 0;
  double sqnr = std::numeric_limits<double>::infinity();
  for (const TensorVerdict& verdict : verdicts) {
    differing += verdict.all.differing;
    elements += verdict.all.elements;
    sqnr = std::min(sqnr, verdict.all.sqnr);
  }
  return "FAIL " + std::to_string(differing) + " of " + std::to_string(elements) + ", SQNR " +
         decibel_text(sqnr);
}

}  // namespace mxo

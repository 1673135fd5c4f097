// Faults planted, and the gate asked.
#include "golden/museum/audit.h"

#include <algorithm>
#include <limits>

#include "golden/judge/group_rows.h"
#include "golden/judge/outputs.h"

namespace mxo {
namespace {

NamedTensors operands_of(const Call& call) {
  NamedTensors inputs;
  for (const auto& [name, tensor] : call.inputs) inputs.emplace(name, *tensor);
  return inputs;
}

std::vector<TensorVerdict> judged(const Planted& planted, const NamedTensors& inputs,
                                  const CompareOptions& options) {
  std::vector<OutputInQuestion> outputs;
  for (const auto& [name, tensor] : planted.expected) {
    OutputInQuestion output{name, {}, nullptr};
    output.owed.expected = &tensor;
    output.owed.format = tensor.dtype();
    output.owed.groups = groups_of(planted.call.op, name, inputs, planted.call.set, tensor);
    const auto at = planted.actual.find(name);
    if (at != planted.actual.end()) output.actual = &at->second;
    outputs.push_back(std::move(output));
  }
  return judge_outputs({planted.call.op, inputs, planted.call.set}, std::move(outputs), options);
}

bool passes(const std::vector<TensorVerdict>& verdicts) {
  return std::none_of(verdicts.begin(), verdicts.end(),
                      [](const TensorVerdict& v) { return v.outcome == Outcome::fail; });
}

}  // namespace

Audited audit(Backend& backend, World& world, const Exhibit& exhibit, std::uint64_t seed,
              const CompareOptions& options, const OwnGate& own) {
  const Planted planted = plant(backend, world, exhibit, seed);
  const NamedTensors inputs = operands_of(planted.call);
  Audited result;
  result.exhibit = &exhibit;
  const auto bits = judged(planted, inputs, {});
  result.harmless = passes(bits);
  result.passes = own ? own(planted) : passes(judged(planted, inputs, options));
  result.sqnr = std::numeric_limits<double>::infinity();
  for (const TensorVerdict& verdict : bits) {
    result.sqnr = std::min(result.sqnr, verdict.all.sqnr);
    result.max_ulp = std::max(result.max_ulp, verdict.all.max_ulp);
    result.differing += verdict.all.differing;
    result.elements += verdict.all.elements;
  }
  return result;
}

}  // namespace mxo

// From named outputs to questions for the judge.
#include "golden/judge/judge_call.h"

#include "formats/error.h"
#include "golden/judge/group_rows.h"

namespace mxo {
namespace {

/// Throws Error(argument) naming the outputs there are.
const Tensor& expected_of(std::string_view op, const NamedTensors& expected,
                          const std::string& name) {
  const auto at = expected.find(name);
  if (at != expected.end()) return at->second;
  std::string known;
  for (const auto& [key, tensor] : expected) known += (known.empty() ? "" : ", ") + key;
  throw Error(Fault::argument, (op.empty() ? "" : std::string(op) + ": ") + name +
                                   ": found no such output, needs one of " + known);
}

}  // namespace

ExpectedOutput expected_output_of(const JudgedCall& call, std::string_view name,
                                  const Tensor& expected) {
  ExpectedOutput expected_output;
  expected_output.expected = &expected;
  expected_output.format = expected.dtype();
  expected_output.groups = groups_of(call.op, name, call.inputs, call.parameters, expected);
  return expected_output;
}

CaseVerdict judge_call(const JudgedCall& call, const NamedTensors& expected,
                       const NamedTensors& actual, const CompareOptions& options,
                       WhichOutputs which) {
  std::vector<JudgedOutput> outputs;
  for (const auto& [name, tensor] : which == WhichOutputs::given ? actual : expected) {
    const Tensor& want = expected_of(call.op, expected, name);
    const auto at = actual.find(name);
    outputs.push_back(
        {name, expected_output_of(call, name, want), at == actual.end() ? nullptr : &at->second});
  }
  const std::string op(call.op);
  CaseVerdict verdict{op.empty() ? "compare" : op, op, Outcome::not_compared, {}, {}};
  take(verdict, judge_outputs(call, std::move(outputs), options));
  if (which == WhichOutputs::expected) return verdict;
  for (const auto& [name, tensor] : expected) {
    if (actual.contains(name)) continue;
    verdict.note += (verdict.note.empty() ? "not given, not compared: " : ", ") + name;
  }
  return verdict;
}

void take(CaseVerdict& verdict, std::vector<TensorVerdict> outputs) {
  for (TensorVerdict& output : outputs) {
    verdict.outcome = worse_of(verdict.outcome, output.outcome);
    verdict.outputs.push_back(std::move(output));
  }
}

}  // namespace mxo

// The one judge of a call: each output against what is expected, with the groups of its operator.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include "golden/judge/outputs.h"

namespace mxo {

/// A call, what is expected of it, and what a kernel gave.
struct AnsweredCall {
  std::string id;  ///< of the case, where it has one
  std::string op;
  Parameters parameters;
  NamedTensors inputs;
  NamedTensors expected;
  NamedTensors actual;
};

enum class WhichOutputs {
  expected,  ///< each that is expected; one that ACTUAL lacks fails
  given,     ///< each that ACTUAL has; one that is not expected is Error(argument), one that ACTUAL
             ///< lacks is named in the verdict's note
};

/// What is expected of output `name`: its bits, and the groups that the operator gives it.
ExpectedOutput expected_output_of(const JudgedCall& call, std::string_view name,
                                  const Tensor& expected);

/// The verdict on a call whose outputs are at hand; `id` of the case is the operator's name, or
/// "compare" where no operator is known.
CaseVerdict judge_call(const JudgedCall& call, const NamedTensors& expected,
                       const NamedTensors& actual, const CompareOptions& options = {},
                       WhichOutputs which = WhichOutputs::expected);

/// Adds the verdicts of a case's outputs.
void take(CaseVerdict& verdict, std::vector<TensorVerdict> outputs);

}  // namespace mxo

// All outputs of one call against the expected ones, as one judgement.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <string>
#include <vector>

#include "golden/judge/comparator.h"
#include "ops/catalogue.h"

namespace mxo {

/// The call whose outputs are judged; an empty `op` says that nothing is known of it.
struct JudgedCall {
  std::string_view op;
  const NamedTensors& inputs;
  const Parameters& parameters;
};

struct JudgedOutput {
  std::string name;
  ExpectedOutput expected_output;
  const Tensor* actual = nullptr;  ///< null: missing, which is FAIL
};

/// One verdict for each output.  Codes with their scales ("codes" and "scales", "x.codes" and
/// "x.scales") are one tensor: gates of distance and the figures are taken of the values, and a
/// scale that differs is judged by the codes it multiplies.  A pair whose shapes or formats do not
/// let it be dequantised is held to bits, and its note says so.  Under gate bound an output that
/// is a sum gets its certified bound.  Where bits fail and all outputs would pass another gate
/// with a reason, the note names it.
/// Throws Error(argument) for a sum without a bound.
std::vector<TensorVerdict> judge_outputs(const JudgedCall& call, std::vector<JudgedOutput> outputs,
                                         const CompareOptions& options);

}  // namespace mxo

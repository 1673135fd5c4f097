// What explain has found out so far, and the ways besides the finders.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "golden/explain/case/output.h"
#include "golden/explain/confirm/altered_call_runner.h"
#include "golden/explain/explain.h"

namespace mxo {

/// What was found out, and the outputs with what it explains explained.
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

/// The outputs of an operator of many steps, each as the call that made it.
Shown shown_by_steps(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                     const NamedTensors& expected, const Progress& progress);

/// Whether an output of an operator of many steps is what its step makes of the actual outputs of
/// the steps before.
bool follows_from_steps(Backend& backend, const Call& call, const NamedTensors& expected,
                        const NamedTensors& actual, const Output& output);

/// Where an output has another shape than is expected, and something known gives it: whether the
/// bits are those, too.
std::optional<Explanation> told_by_shape(Backend& backend, const Call& call,
                                         const NamedTensors& expected, const NamedTensors& actual);

}  // namespace mxo

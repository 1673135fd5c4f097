// The outputs of a call beside those that were expected.
// Thread safety: functions of their arguments; any threads at once.
#pragma once

#include <string>
#include <vector>

#include "golden/explain/case/output.h"

namespace mxo {

struct Outputs {
  std::vector<Output> list;
  std::vector<std::string> missing;
  std::vector<std::vector<Output>> later_steps;  ///< that differ after the first step that does
  std::string later;  ///< the first step that differs, and how many outputs differ after it
};

/// `actual` beside `expected`.
Outputs outputs_of(const Call& call, const NamedTensors& expected, const NamedTensors& actual);

/// Of an operator of many steps only those outputs stay that belong to its first wrong step.
void keep_first_step(const Call& call, Outputs& outputs);

/// Signal to noise of all outputs, in dB; -infinity where one has a NaN or an infinity of its own.
double sqnr_of(const std::vector<Output>& outputs);

}  // namespace mxo

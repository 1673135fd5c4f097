// The certified bound of rows that come back to their tokens and are summed by slots.
#pragma once

#include <string_view>

#include "golden/judge/comparator.h"
#include "ops/catalogue.h"

namespace mxo {

/// True of out of combine and dx of dispatch_backward, of any rank.
bool sums_slots(std::string_view op, std::string_view output);

/// out[t, d] = sum over the k slots of w[t, s] * row(t, s)[d], any order of f32 additions, the
/// products rounded or not:
///
///   |out - exact| <= gamma_k * sum_s |w row| + k * 2^-149 + half a step of the output
///
/// Rows are found by the routing alone, as ops/expert_plan.h lays them out.  Throws Error(shape)
/// where operands contradict it.
ErrorBound slots_bound(std::string_view op, std::string_view output, const NamedTensors& inputs,
                       const Parameters& set, Dtype out);

}  // namespace mxo

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
///   stray = gamma_k * sum_s |w row| + k * 2^-149
///
/// Rows are found by the routing alone, as ops/expert_plan.h lays them out.  The bound refers to
/// `inputs`.  Throws Error(shape)
/// where operands contradict it.
ErrorBound slots_bound(std::string_view op, std::string_view output, const NamedTensors& inputs,
                       const Parameters& set);

}  // namespace mxo

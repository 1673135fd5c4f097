// What one product has to do with the difference of two runs' log-probabilities.
#pragma once

#include <string>

#include "golden/files/trace.h"

namespace mxo::tools {

/// One run's record of a product.
struct SideOfTrace {
  const std::string& directory;
  const Trace& trace;
  const TraceRecord& record;
};

/// Prints how far the log-probabilities of the step are apart, and how much of that the product's
/// own difference makes to first order, sum_i d(sum of log-probabilities) / dy_i (b_i - a_i), where
/// one of the runs kept the derivatives.  Prints nothing unless both recorded log-probabilities.
void print_share(const SideOfTrace& a, const SideOfTrace& b);

}  // namespace mxo::tools

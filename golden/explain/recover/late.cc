// All of an output written some elements late or early.
#include <algorithm>

#include "golden/explain/recover/recover.h"

namespace mxo {
namespace {

constexpr Index kMost = 64;       ///< elements late
constexpr Index kLeastTold = 24;  ///< elements that differ

/// Whether every element came as what is expected `by` elements after it, the ends apart.
bool is_moved(const Output& output, Index by) {
  const Index n = output.owed * output.columns;
  Index told = 0;
  for (Index i = std::max<Index>(0, -by); i < std::min(n, n - by); ++i) {
    if (output.came(i) != output.wanted(i + by)) return false;
    told += output.marks[static_cast<std::size_t>(i)] == Mark::differs;
  }
  return told >= kLeastTold;
}

}  // namespace

std::vector<Claim> recover_late(Output& output) {
  if (output.left < kLeastTold || output.left != output.differing) return {};
  for (Index n = 1; n <= kMost; ++n) {
    for (const Index by : {-n, n}) {
      // Whole rows that lie elsewhere are rows that moved.
      if (n % output.columns == 0) continue;
      if (!is_moved(output, by)) continue;
      const auto bytes = n * static_cast<Index>(size_of(output.expected->dtype()));
      Claim claim;
      claim.id = "elements.shifted";
      claim.sentence = "all of " + output.name + " is written " + std::to_string(n) +
                       (n == 1 ? " element " : " elements ") + (by < 0 ? "late" : "early") + " (" +
                       std::to_string(bytes) + (bytes == 1 ? " byte)" : " bytes)") +
                       ", across rows and tiles";
      claim.where.tensor = output.name;
      claim.elements = static_cast<double>(output.left);
      for (std::size_t i = 0; i < output.marks.size(); ++i) output.settle(static_cast<Index>(i));
      return {claim};
    }
  }
  return {};
}

}  // namespace mxo

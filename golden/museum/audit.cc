// Faults planted, and judged by the gate.
#include "golden/museum/audit.h"

#include <algorithm>
#include <limits>

#include "golden/museum/judged.h"

namespace mxo {
Audited audit(Backend& backend, World& world, const Exhibit& exhibit, std::uint64_t seed,
              const CompareOptions& options, const OwnGate& own) {
  const Planted planted = plant(backend, world, exhibit, seed);
  Audited result;
  result.exhibit = &exhibit;
  const auto bits = judged(planted);
  result.harmless = all_pass(bits);
  result.passes = own ? own(planted) : all_pass(judged(planted, options));
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

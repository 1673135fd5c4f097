// The named sums.
#include "ops/sums.h"

#include <string>

#include "formats/error.h"

namespace mxo {

Accumulation sum_named(std::string_view name) {
  std::string known;
  for (const Accumulation& sum : {kExact, kFmaChain}) {
    if (sum.name == name) return sum;
    known += known.empty() ? "" : ", ";
    known += sum.name;
  }
  throw Error(Fault::argument, "unknown sum '" + std::string(name) + "'; there are " + known);
}

}  // namespace mxo

// What explain says of a fault.
#include "golden/museum/alternatives.h"
#include "golden/museum/museum.h"

namespace mxo {

Looked look_at(Backend& backend, World& world, const Exhibit& exhibit, std::uint64_t seed) {
  const Planted p = plant(backend, world, exhibit, seed);
  Looked seen{explain(backend, p.call, p.expected, p.actual), false};
  if (exhibit.names == "same") {
    seen.named = seen.explanation.verdict == ExplainVerdict::same &&
                 contains_one(seen.explanation.pattern, exhibit.place);
  } else if (exhibit.names == "unknown") {
    seen.named = seen.explanation.verdict == ExplainVerdict::unknown;
  } else if (!seen.explanation.causes.empty()) {
    const Cause& first = seen.explanation.causes.front();
    seen.named =
        starts_with_one(first.id, exhibit.names) && contains_one(first.sentence, exhibit.place);
  }
  return seen;
}

}  // namespace mxo

// All rooms, and what explain says in them.
#include "golden/museum/museum.h"

#include <vector>

namespace mxo {
namespace {

/// True if `text` has one of the parts of `list`, separated by '|'.  `begins`: at its beginning.
bool any_of(std::string_view text, std::string_view list, bool begins) {
  if (list.empty()) return true;
  while (true) {
    const std::size_t bar = list.find('|');
    const std::string_view one = list.substr(0, bar);
    if (begins ? text.starts_with(one) : text.find(one) != std::string_view::npos) return true;
    if (bar == std::string_view::npos) return false;
    list = list.substr(bar + 1);
  }
}

}  // namespace

std::span<const Exhibit> exhibits() {
  static const std::vector<Exhibit> all = [] {
    std::vector<Exhibit> list;
    for (const auto room : {product_exhibits(), scale_exhibits(), range_exhibits(),
                            quantiser_exhibits(), layer_exhibits(), rank_exhibits()}) {
      list.insert(list.end(), room.begin(), room.end());
    }
    return list;
  }();
  return all;
}

Planted plant(Backend& backend, World& world, const Exhibit& exhibit, std::uint64_t seed) {
  return exhibit.plant_ranks != nullptr ? exhibit.plant_ranks(backend, world, seed)
                                        : exhibit.plant(backend, seed);
}

Looked look_at(Backend& backend, World& world, const Exhibit& exhibit, std::uint64_t seed) {
  const Planted p = plant(backend, world, exhibit, seed);
  Looked seen{explain(backend, p.call, p.expected, p.actual), false};
  if (exhibit.names == "same") {
    seen.named = seen.explanation.verdict == ExplainVerdict::same &&
                 any_of(seen.explanation.pattern, exhibit.place, false);
  } else if (exhibit.names == "unknown") {
    seen.named = seen.explanation.verdict == ExplainVerdict::unknown;
  } else if (!seen.explanation.causes.empty()) {
    const Cause& first = seen.explanation.causes.front();
    seen.named =
        any_of(first.id, exhibit.names, true) && any_of(first.sentence, exhibit.place, false);
  }
  return seen;
}

}  // namespace mxo

// All tables of faults.
#include "golden/museum/museum.h"

#include <vector>

#include "formats/error.h"

namespace mxo {
std::span<const Exhibit> exhibits() {
  static const std::vector<Exhibit> all = [] {
    std::vector<Exhibit> list;
    for (const auto table :
         {product_exhibits(), scale_exhibits(), range_exhibits(), huge_exhibits(),
          quantiser_exhibits(), quantised_tensor_exhibits(), layer_exhibits(), rank_exhibits()}) {
      list.insert(list.end(), table.begin(), table.end());
    }
    return list;
  }();
  return all;
}

Planted plant(Backend& backend, World& world, const Exhibit& exhibit, std::uint64_t seed) {
  Planted planted{exhibit.operands(backend, world, seed), {}, {}};
  planted.expected = run_call(backend, planted.call);
  Answer wrong = exhibit.answer(backend, planted.call, planted.expected);
  if (!wrong) {
    throw Error(Fault::internal, "museum: row " + std::to_string(exhibit.number) +
                                     " does not show in operands of its own");
  }
  planted.actual = std::move(*wrong);
  return planted;
}

}  // namespace mxo

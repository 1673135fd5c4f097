// Every second k takes its scales from a neighbouring row: K is laid out twice.
#include <algorithm>
#include <cstring>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/product/sides.h"

namespace mxo {
namespace {

/// Every line along k twice; the second time it is that of second(line).
Tensor twice_along_k(
    const Tensor& t, const std::function<Index(Index)>& second = [](Index line) { return line; }) {
  std::vector<Index> shape = t.shape();
  const Index lines = t.elements() / std::max<Index>(1, shape.back());
  const std::size_t bytes = static_cast<std::size_t>(shape.back()) * size_of(t.dtype());
  shape.back() *= 2;
  Tensor twice(t.dtype(), std::move(shape));
  const auto at = [bytes](Index line) { return static_cast<std::size_t>(line) * bytes; };
  for (Index line = 0; line < lines; ++line) {
    std::memcpy(twice.data() + at(2 * line), t.data() + at(line), bytes);
    std::memcpy(twice.data() + at(2 * line + 1), t.data() + at(second(line)), bytes);
  }
  return twice;
}

/// The scales of each line, and after them those of the line `by` further.
bool add_scales_of_neighbour(Call& call, Side side, Index by) {
  const std::optional<Product> p = product_of(call);
  if (!p) return false;
  const ProductSides s{*p, side};
  const ProductSide& own = s.factor();
  const Index lines = s.lines();
  const Tensor* scales = own.scales;
  if (scales == nullptr || scales->rank() != own.codes->rank() || size_of(own.format) != 1 ||
      matrices_of(*scales).rows != lines)
    return false;
  const std::string name = own.scales_name;
  call.replace(name, twice_along_k(*scales, [=](Index line) {
                 return line - line % lines + std::clamp<Index>(line % lines + by, 0, lines - 1);
               }));
  return true;
}

/// Every second k with the second scales of its line.  K is laid out twice, with codes of the other
/// k, and of these, so that each has scales of its own.
NamedTensors product_of_every_second_k(Backend& backend, Call call, Side side, Index parity) {
  const std::optional<Product> p = product_of(call);
  const ProductSides s{*p, side};
  const std::string name = s.factor().codes_name;
  const ProductSide other = s.other().factor();
  Tensor codes = twice_along_k(*s.factor().codes);
  for (Index i = 0; i < codes.elements(); ++i) {
    const bool second = i / p->k % 2 != 0;
    if ((i % p->k % 2 == parity) != second) codes.data()[i] = std::byte{0};
  }
  call.replace(name, std::move(codes));
  call.replace(other.codes_name, twice_along_k(*other.codes));
  if (other.scales != nullptr && other.scales->rank() == other.codes->rank())
    call.replace(other.scales_name, twice_along_k(*other.scales));
  return run_call(backend, call);
}

}  // namespace

void add_scales_of_every_second_k(const Product& p, List& list) {
  for (const Side side : kSides) {
    const ProductSide& f = ProductSides{p, side}.factor();
    for (const auto& [parity, by] : {std::pair<Index, Index>{1, 1}, {1, -1}, {0, 1}, {0, -1}}) {
      if (f.scales == nullptr || f.scales->rank() != f.codes->rank()) continue;
      add_altered(list, f.scales_name + "=every_second_k",
                  filled("every second k, from {} on, takes the scales of {} of the row {}", parity,
                         f.name, by > 0 ? "after" : "before"),
                  [side, by = by](Call& c) { return add_scales_of_neighbour(c, side, by); })
          .run = [side, parity = parity](Backend& backend, const Call& c) {
        return product_of_every_second_k(backend, c, side, parity);
      };
    }
  }
}

}  // namespace mxo

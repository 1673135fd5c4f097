// Walks of the lines of a product.
#include "golden/explain/find/product/sides.h"

#include <algorithm>

namespace mxo {

Sides::Line Sides::codes_of(Index g, Index i) const {
  Product plain = p;
  plain.a.scales = plain.b.scales = nullptr;
  return Sides{plain, side}.line(g, i);
}

std::vector<Index> Sides::differing(const Output& y, Index g, Index i, Index most) const {
  std::vector<Index> found;
  const Sides with = other();
  for (Index j = with.first(g); j < with.last(g); ++j) {
    if (static_cast<Index>(found.size()) == most) break;
    if (mark(y, g, i, j) == Mark::differs) found.push_back(j);
  }
  return found;
}

std::vector<Index> Sides::failing(const Output& y, Index g) const {
  std::vector<Index> found;
  for (Index i = first(g); i < last(g); ++i) {
    if (!differing(y, g, i, 1).empty()) found.push_back(i);
  }
  return found;
}

std::vector<LineAt> Sides::failing(const Output& y) const {
  std::vector<LineAt> found;
  for (Index g = 0; g < p.groups(); ++g) {
    for (const Index i : failing(y, g)) found.push_back({g, i});
  }
  return found;
}

Index group_of_row(const Product& p, Index row) {
  const auto after = std::upper_bound(p.ends.begin(), p.ends.end(), row);
  return std::min<Index>(after - p.ends.begin(), p.groups() - 1);
}

std::vector<Index> bounds_of(const Product& p) {
  std::vector<Index> bounds{0};
  bounds.insert(bounds.end(), p.ends.begin(), p.ends.end());
  return bounds;
}

Reading read_axis(const std::string& operand, const Tensor& given, int axis,
                  std::function<Index(Index)> source) {
  Index inner = 1;
  for (int a = axis + 1; a < given.rank(); ++a) inner *= given.extent(a);
  if (inner > 1 || axis + 1 == given.rank()) {
    return read_lines(operand, axis, std::move(source));
  }
  // Lines of one element, one after the other, are none of the last axis.
  const Index lines = given.extent(axis);
  return read_elements(operand, [source = std::move(source), lines](Index i) {
    const Index from = source(i % lines);
    return from < 0 || from >= lines ? Index{-1} : i - i % lines + from;
  });
}

}  // namespace mxo

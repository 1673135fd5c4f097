// Products of which one side is read early or late along the depth, and what is said of their sums.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "golden/explain/recover/scales.h"
#include "tests/golden/came.h"
#include "tests/golden/small_products.h"

namespace mxo {

/// Codes of which each element of a row is the one `by` on: beyond the row the next row's, the
/// same with the tensor in a ring, zero, or the row in a ring.
inline Tensor columns_on(const Tensor& t, Index by, int beyond) {
  const Index k = t.shape().back();
  const Index n = t.elements();
  return filled<std::uint8_t>(t.dtype(), t.shape(), [&](Index i) -> Index {
    const Index c = i % k + by;
    const auto at = [&](Index from) { return Index{t.as<std::uint8_t>()[from]}; };
    switch (beyond) {
      case 0: return i + by < 0 || i + by >= n ? 0 : at(i + by);
      case 1: return at((i + by + n) % n);
      case 2: return c < 0 || c >= k ? 0 : at(i + by);
      default: return at(i - i % k + (c + k) % k);
    }
  });
}

/// The same of rows, in groups.
inline Tensor rows_on(const Tensor& t, Index by, int beyond, const std::vector<Index>& ends) {
  const Index width = t.shape().back();
  const Index n = t.shape().front();
  return filled<std::uint8_t>(t.dtype(), t.shape(), [&](Index i) -> Index {
    const Index r = i / width;
    const auto at = [&](Index row) { return Index{t.as<std::uint8_t>()[row * width + i % width]}; };
    std::size_t g = 0;
    while (ends[g] <= r) ++g;
    const Index first = g == 0 ? 0 : ends[g - 1];
    const Index depth = ends[g] - first;
    switch (beyond) {
      case 0: return r + by < 0 || r + by >= n ? 0 : at(r + by);
      case 1: return at((r + by + n) % n);
      case 2: return r + by < first || r + by >= ends[g] ? 0 : at(r + by);
      default: return at(first + ((r - first + by) % depth + depth) % depth);
    }
  });
}

/// What is said of the sums of `call` that came as those of `wrong`, or as `edit` makes them.
template <typename Edit>
std::vector<Hypothesis> found(const Call& call, const Call& wrong, const Edit& edit) {
  const Product p = *product_of(call);
  Tensor actual = sums_of(*product_of(wrong));
  edit(actual.as<float>());
  Came came(sums_of(p), std::move(actual));
  std::vector<Hypothesis> list;
  add_depth_shifts(p, came.output, list);
  return list;
}
inline std::vector<Hypothesis> found(const Call& call, const Call& wrong) {
  return found(call, wrong, [](float*) {});
}

inline Call with(const Call& call, const std::string& name, Tensor t) {
  Call wrong = call;
  wrong.replace(name, std::move(t));
  return wrong;
}

}  // namespace mxo

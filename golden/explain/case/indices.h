// Lists of indices: all of a range, or so many of a list, evenly spread.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "formats/tensor.h"

namespace mxo {

/// 0 to n - 1.
inline std::vector<Index> range_of(Index n) {
  std::vector<Index> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), Index{0});
  return all;
}

/// At most `most` of a list, evenly spread over it, the first among them.
template <typename T>
std::vector<T> evenly_spread(std::vector<T> all, Index most) {
  const auto n = static_cast<Index>(all.size());
  if (n <= most) return all;
  for (Index i = 0; i < most; ++i)
    all[static_cast<std::size_t>(i)] = all[static_cast<std::size_t>(i * n / most)];
  all.resize(static_cast<std::size_t>(std::max<Index>(most, 0)));
  return all;
}

/// The same of first to last - 1.
inline std::vector<Index> evenly_spread(Index first, Index last, Index most) {
  const Index n = std::max<Index>(last - first, 0);
  std::vector<Index> kept = range_of(std::min(n, std::max<Index>(most, 0)));
  const auto count = static_cast<Index>(kept.size());
  for (Index& i : kept) i = first + i * n / count;
  return kept;
}

}  // namespace mxo

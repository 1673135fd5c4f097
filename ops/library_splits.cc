// The table of splits, searched.
#include "ops/library_splits.h"

#include <algorithm>
#include <iterator>

#include "ops/library_split_layers.h"
#include "ops/library_split_steps.h"

namespace mxo {
namespace {

constexpr Index kMostRows = 131072;

bool is_blockwise(LibraryProduct kind) {
  return kind == LibraryProduct::fp8_blockwise || kind == LibraryProduct::fp8_blockwise_f32;
}

}  // namespace

std::optional<int> library_parts(LibraryProduct kind, Index m, Index n, Index k) {
  using namespace library_splits;
  if (!library_was_asked(n, k) || m < 1 || m > kMostRows) return std::nullopt;
  if (is_blockwise(kind) && m % 4 != 0) return std::nullopt;
  const auto* layer = std::find_if(std::begin(kLayers), std::end(kLayers), [&](const Layer& l) {
    return l.kind == kind && l.n == n && l.k == k;
  });
  if (layer == std::end(kLayers)) return 1;
  const std::uint32_t* first = kSteps + layer->first;
  const std::uint32_t* past =
      std::upper_bound(first, first + layer->count, m,
                       [](Index rows, std::uint32_t step) { return rows < step / 16; });
  const auto parts = static_cast<int>(past[-1] % 16);
  if (parts == 0) return std::nullopt;
  return parts;
}

bool library_was_asked(Index n, Index k) {
  using namespace library_splits;
  return std::any_of(std::begin(kAsked), std::end(kAsked),
                     [&](const Shape& shape) { return shape.n == n && shape.k == k; });
}

}  // namespace mxo

// The table of splits, searched.
#include "ops/library_splits.h"

#include <algorithm>
#include <iterator>

#include "ops/library_splits_data.h"

namespace mxo {
namespace {

constexpr Index kMostRows = 131072;

const LibraryLayer* layer_of(LibraryProduct kind, Index n, Index k) {
  const auto* found =
      std::find_if(std::begin(kLibraryLayers), std::end(kLibraryLayers),
                   [&](const LibraryLayer& l) { return l.kind == kind && l.n == n && l.k == k; });
  return found == std::end(kLibraryLayers) ? nullptr : found;
}

bool is_blockwise(LibraryProduct kind) {
  return kind == LibraryProduct::fp8_blockwise || kind == LibraryProduct::fp8_blockwise_f32;
}

}  // namespace

std::optional<int> library_parts(LibraryProduct kind, Index m, Index n, Index k) {
  const LibraryLayer* layer = layer_of(kind, n, k);
  if (layer == nullptr || m < 1 || m > kMostRows) return std::nullopt;
  if (is_blockwise(kind) && m % 4 != 0) return std::nullopt;
  const std::uint32_t* first = kLibrarySteps + layer->first;
  const std::uint32_t* past =
      std::upper_bound(first, first + layer->count, m,
                       [](Index rows, std::uint32_t step) { return rows < step / 16; });
  const auto parts = static_cast<int>(past[-1] % 16);
  if (parts == 0) return std::nullopt;
  return parts;
}

bool library_was_asked(LibraryProduct kind, Index n, Index k) {
  return layer_of(kind, n, k) != nullptr;
}

}  // namespace mxo

// Rectangles of strided matrices, and copying them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/tensor_view.h"

namespace mxo::cpu {

/// A corner of a matrix in memory; strides in elements.
template <typename Byte>
struct Tile {
  Byte* data = nullptr;
  Index stride_r = 0;
  Index stride_k = 1;
};

/// Cached: through the caches.  Streamed: around them, for results larger than they are.
enum class Stores : std::uint8_t { cached, streamed };

/// to(r, k) = from(r, k) for elements of 1, 2 or 4 bytes.  Only bytes that are transposed stream.
void copy_tile(Tile<const std::byte> from, Tile<std::byte> to, Index rows, Index columns,
               std::size_t element_bytes, Stores stores = Stores::cached);

}  // namespace mxo::cpu

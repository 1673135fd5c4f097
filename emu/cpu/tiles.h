// Rectangles of strided matrices, and copying them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emu/cpu/layout_kernels.h"

namespace mxo::cpu {

/// A corner of a matrix in memory; strides in elements.
template <typename Byte>
struct Tile {
  Byte* data = nullptr;
  Index stride_r = 0;
  Index stride_k = 1;
};

/// to(r, k) = from(r, k) for elements of 1, 2 or 4 bytes.  Only what is transposed streams.
void copy_tile(const LayoutKernels& kernels, Tile<const std::byte> from, Tile<std::byte> to,
               Index rows, Index columns, std::size_t element_bytes,
               Stores stores = Stores::cached);
/// to[i * to_step] = from[i * from_step] likewise.
void copy_row(const std::byte* from, Index from_step, std::byte* to, Index to_step, Index n,
              std::size_t element_bytes);

}  // namespace mxo::cpu

// Copies of rectangles.
#include "emu/cpu/tiles.h"

#include <cstdint>
#include <cstring>

namespace mxo::cpu {
namespace {

template <typename T>
void copy_elements(Tile<const std::byte> from, Tile<std::byte> to, Index rows, Index columns) {
  const auto* source = reinterpret_cast<const T*>(from.data);
  auto* target = reinterpret_cast<T*>(to.data);
  for (Index r = 0; r < rows; ++r) {
    for (Index k = 0; k < columns; ++k) {
      target[r * to.stride_r + k * to.stride_k] = source[r * from.stride_r + k * from.stride_k];
    }
  }
}

void copy_by_elements(Tile<const std::byte> from, Tile<std::byte> to, Index rows, Index columns,
                      std::size_t element_bytes) {
  if (element_bytes == 1) {
    copy_elements<std::uint8_t>(from, to, rows, columns);
  } else if (element_bytes == 2) {
    copy_elements<std::uint16_t>(from, to, rows, columns);
  } else {
    copy_elements<std::uint32_t>(from, to, rows, columns);
  }
}

/// from has adjacent columns, to adjacent rows.
void transpose(const LayoutKernels& kernels, Tile<const std::byte> from, Tile<std::byte> to,
               Index rows, Index columns, std::size_t element_bytes, Stores stores) {
  if (element_bytes == 1) {
    kernels.transpose_bytes(reinterpret_cast<const std::uint8_t*>(from.data), from.stride_r,
                            reinterpret_cast<std::uint8_t*>(to.data), to.stride_k, rows, columns,
                            stores);
  } else {
    kernels.transpose_words(reinterpret_cast<const std::uint16_t*>(from.data), from.stride_r,
                            reinterpret_cast<std::uint16_t*>(to.data), to.stride_k, rows, columns,
                            stores);
  }
}

}  // namespace

void copy_tile(const LayoutKernels& kernels, Tile<const std::byte> from, Tile<std::byte> to,
               Index rows, Index columns, std::size_t element_bytes, Stores stores) {
  if (from.stride_k == 1 && to.stride_k == 1) {
    const auto size = static_cast<Index>(element_bytes);
    if (columns == 0) return;
    for (Index r = 0; r < rows; ++r) {
      std::memcpy(to.data + r * to.stride_r * size, from.data + r * from.stride_r * size,
                  static_cast<std::size_t>(columns * size));
    }
  } else if (element_bytes <= 2 && from.stride_k == 1 && to.stride_r == 1) {
    transpose(kernels, from, to, rows, columns, element_bytes, stores);
  } else if (element_bytes <= 2 && from.stride_r == 1 && to.stride_k == 1) {
    transpose(kernels, {from.data, from.stride_k, 1}, {to.data, 1, to.stride_r}, columns, rows,
              element_bytes, stores);
  } else {
    copy_by_elements(from, to, rows, columns, element_bytes);
  }
}

void copy_row(const std::byte* from, Index from_step, std::byte* to, Index to_step, Index n,
              std::size_t element_bytes) {
  copy_by_elements({from, 0, from_step}, {to, 0, to_step}, 1, n, element_bytes);
}

}  // namespace mxo::cpu

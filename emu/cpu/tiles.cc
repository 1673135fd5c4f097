// Copies of rectangles; transposition of bytes in 16 x 16 squares.
#include "emu/cpu/tiles.h"

#include <cstdint>
#include <cstring>

#include "emu/cpu/simd/interleave.h"
#include "emu/cpu/simd/streaming.h"

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

/// to[k][r] = from[r][k] for 16 rows of 16 bytes.
void transpose_bytes_16(const std::byte* from, Index from_stride, std::byte* to, Index to_stride) {
  transpose_square(reinterpret_cast<const std::uint8_t*>(from), from_stride,
                   reinterpret_cast<std::uint8_t*>(to), to_stride);
}

constexpr Index kLine = 64;  // bytes of a cache line: four squares below each other

/// to[k][r] = from[r][k] for 64 rows of 16 bytes, written as 16 whole lines: lines a power of two
/// apart share a cache set, and a line that is written in parts would leave it in between.
void transpose_lines(const std::byte* from, Index from_stride, std::byte* to, Index to_stride,
                     Stores stores) {
  alignas(64) std::byte lines[16 * kLine];
  for (Index r = 0; r < kLine; r += 16) {
    transpose_bytes_16(from + r * from_stride, from_stride, lines + r, kLine);
  }
  for (Index k = 0; k < 16; ++k) {
    if (stores == Stores::streamed) {
      stream_aligned(to + k * to_stride, lines + k * kLine, kLine);
    } else {
      std::memcpy(to + k * to_stride, lines + k * kLine, kLine);
    }
  }
}

/// from has adjacent columns, to adjacent rows.
void transpose_bytes(Tile<const std::byte> from, Tile<std::byte> to, Index rows, Index columns,
                     Stores stores) {
  const Index whole_r = rows / 16 * 16;
  const Index whole_k = columns / 16 * 16;
  const Index lines_r = rows / kLine * kLine;
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(to.data) % kLine == 0 && to.stride_k % kLine == 0;
  const Stores line_stores = aligned ? stores : Stores::cached;
  for (Index k = 0; k < whole_k; k += 16) {
    for (Index r = 0; r < lines_r; r += kLine) {
      transpose_lines(from.data + r * from.stride_r + k, from.stride_r,
                      to.data + r + k * to.stride_k, to.stride_k, line_stores);
    }
    for (Index r = lines_r; r < whole_r; r += 16) {
      transpose_bytes_16(from.data + r * from.stride_r + k, from.stride_r,
                         to.data + r + k * to.stride_k, to.stride_k);
    }
  }
  if (line_stores == Stores::streamed) finish_streams();
  // The rows below the squares, then all rows of the columns to their right.
  const auto rest = [&](Index r, Index k, Index count_r, Index count_k) {
    copy_elements<std::uint8_t>({from.data + r * from.stride_r + k, from.stride_r, 1},
                                {to.data + r + k * to.stride_k, 1, to.stride_k}, count_r, count_k);
  };
  rest(whole_r, 0, rows - whole_r, whole_k);
  rest(0, whole_k, rows, columns - whole_k);
}

}  // namespace

void copy_tile(Tile<const std::byte> from, Tile<std::byte> to, Index rows, Index columns,
               std::size_t element_bytes, Stores stores) {
  if (from.stride_k == 1 && to.stride_k == 1) {
    const auto size = static_cast<Index>(element_bytes);
    if (columns == 0) return;
    for (Index r = 0; r < rows; ++r) {
      std::memcpy(to.data + r * to.stride_r * size, from.data + r * from.stride_r * size,
                  static_cast<std::size_t>(columns * size));
    }
  } else if (element_bytes == 1 && from.stride_k == 1 && to.stride_r == 1) {
    transpose_bytes(from, to, rows, columns, stores);
  } else if (element_bytes == 1 && from.stride_r == 1 && to.stride_k == 1) {
    transpose_bytes({from.data, from.stride_k, 1}, {to.data, 1, to.stride_r}, columns, rows,
                    stores);
  } else if (element_bytes == 1) {
    copy_elements<std::uint8_t>(from, to, rows, columns);
  } else if (element_bytes == 2) {
    copy_elements<std::uint16_t>(from, to, rows, columns);
  } else {
    copy_elements<std::uint32_t>(from, to, rows, columns);
  }
}

}  // namespace mxo::cpu

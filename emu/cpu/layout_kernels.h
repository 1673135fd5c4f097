// Transposition of bytes and words, and tiles of scales: one table per instruction set.
#pragma once

#include <cstdint>

#include "emu/cpu/isa.h"
#include "formats/tensor_view.h"

namespace mxo::cpu {

/// Cached: ordinary stores.  Streamed: non-temporal ones, for results larger than the caches.
enum class Stores : std::uint8_t { cached, streamed };

/// Moves bytes unchanged; steps in elements.  Streamed stores need finish_streams() after them.
struct LayoutKernels {
  /// to[k][r] = from[r][k].
  void (*transpose_bytes)(const std::uint8_t* from, Index from_step, std::uint8_t* to,
                          Index to_step, Index rows, Index columns, Stores stores) noexcept;
  void (*transpose_words)(const std::uint16_t* from, Index from_step, std::uint16_t* to,
                          Index to_step, Index rows, Index columns, Stores stores) noexcept;
  /// `columns` of 128 rows of scales, a multiple of 16, to 128x4 tiles one after the other
  /// (formats/scale_layout.h), and back.
  void (*swizzle)(const std::uint8_t* scales, Index step, Index columns,
                  std::uint8_t* tiles) noexcept;
  void (*unswizzle)(const std::uint8_t* tiles, Index columns, std::uint8_t* scales,
                    Index step) noexcept;
};

const LayoutKernels& layout_kernels(Isa isa);

}  // namespace mxo::cpu

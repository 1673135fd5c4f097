// Non-temporal stores, where the machine has them; plain ones elsewhere.
#pragma once

#include <cstddef>

#include "formats/tensor_view.h"

namespace mxo::cpu {

inline constexpr std::size_t kCacheLine = 64;  ///< bytes

/// Copies n bytes of any alignment; whole cache lines with non-temporal stores.
void stream(std::byte* to, const std::byte* from, std::size_t n) noexcept;
/// The same for zeros.
void stream_zeros(std::byte* to, std::size_t n) noexcept;
/// Copies `bytes`, a multiple of 16; both ends on multiples of 16.
void stream_aligned(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
/// Makes streamed stores visible to other threads: call it before signalling them.
void finish_streams() noexcept;

}  // namespace mxo::cpu

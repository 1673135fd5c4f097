// Plain stores, for machines without non-temporal ones.
#include <cstring>

#include "emu/cpu/streaming.h"

namespace mxo::cpu {

void stream(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  std::memcpy(to, from, n);
}

void stream_zeros(std::byte* to, std::size_t n) noexcept { std::memset(to, 0, n); }

void stream_aligned(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  std::memcpy(to, from, bytes);
}

void finish_streams() noexcept {}

}  // namespace mxo::cpu

// MOVNTDQ and SFENCE, which every x86-64 has.
#include <emmintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "emu/cpu/streaming.h"

namespace mxo::cpu {
namespace {

/// Bytes before the first whole line at `to`.
std::size_t bytes_before_line(const std::byte* to, std::size_t n) {
  return std::min<std::size_t>(-reinterpret_cast<std::uintptr_t>(to) & (kCacheLine - 1), n);
}

}  // namespace

void stream(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  const std::size_t head = bytes_before_line(to, n);
  std::memcpy(to, from, head);
  std::size_t i = head;
  for (; i + kCacheLine <= n; i += kCacheLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(to + i, from + i, n - i);
}

void stream_zeros(std::byte* to, std::size_t n) noexcept {
  const std::size_t head = bytes_before_line(to, n);
  std::memset(to, 0, head);
  std::size_t i = head;
  for (; i + 16 <= n; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_setzero_si128());
  }
  std::memset(to + i, 0, n - i);
}

void stream_aligned(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  const auto* source = reinterpret_cast<const __m128i*>(from);
  auto* target = reinterpret_cast<__m128i*>(to);
  for (std::size_t i = 0; i < bytes / 16; ++i) {
    _mm_stream_si128(target + i, _mm_load_si128(source + i));
  }
}

void finish_streams() noexcept { _mm_sfence(); }

}  // namespace mxo::cpu

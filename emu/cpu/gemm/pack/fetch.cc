// Lines that lie across memory are turned by tiles of 16 bytes squared.
#include "emu/cpu/gemm/pack/fetch.h"

#include <emmintrin.h>

#include <algorithm>
#include <cstring>

namespace mxo::cpu {
namespace {

// 16 rows of 16 bytes to 16 columns: four rounds, each of which interleaves rows i and i + 8.
void transpose_tile(const std::uint8_t* in, Index in_step, std::uint8_t* out, Index out_step) {
  __m128i a[16];
  __m128i b[16];
  for (int i = 0; i < 16; ++i) {
    a[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i * in_step));
  }
  for (int i = 0; i < 8; ++i) {
    b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]);
    b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
  }
  for (int i = 0; i < 8; ++i) {
    a[2 * i] = _mm_unpacklo_epi8(b[i], b[i + 8]);
    a[2 * i + 1] = _mm_unpackhi_epi8(b[i], b[i + 8]);
  }
  for (int i = 0; i < 8; ++i) {
    b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]);
    b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
  }
  for (int i = 0; i < 8; ++i) {
    auto* even = reinterpret_cast<__m128i*>(out + 2 * i * out_step);
    auto* odd = reinterpret_cast<__m128i*>(out + (2 * i + 1) * out_step);
    _mm_storeu_si128(even, _mm_unpacklo_epi8(b[i], b[i + 8]));
    _mm_storeu_si128(odd, _mm_unpackhi_epi8(b[i], b[i + 8]));
  }
}

// The same for 8 rows of 8 words, three rounds.
void transpose_tile(const std::uint16_t* in, Index in_step, std::uint16_t* out, Index out_step) {
  __m128i a[8];
  __m128i b[8];
  for (int i = 0; i < 8; ++i) {
    a[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i * in_step));
  }
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = _mm_unpacklo_epi16(a[i], a[i + 4]);
    b[2 * i + 1] = _mm_unpackhi_epi16(a[i], a[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm_unpacklo_epi16(b[i], b[i + 4]);
    a[2 * i + 1] = _mm_unpackhi_epi16(b[i], b[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    auto* even = reinterpret_cast<__m128i*>(out + 2 * i * out_step);
    auto* odd = reinterpret_cast<__m128i*>(out + (2 * i + 1) * out_step);
    _mm_storeu_si128(even, _mm_unpacklo_epi16(a[i], a[i + 4]));
    _mm_storeu_si128(odd, _mm_unpackhi_epi16(a[i], a[i + 4]));
  }
}

/// Columns of `in` become rows of `out`: whole tiles, then what is left one by one.
template <typename Element>
void transpose(const Element* in, Index in_step, int lanes, int count, Element* out) {
  constexpr int kTile = 16 / sizeof(Element);
  const int whole_lanes = lanes / kTile * kTile;
  const int whole_count = count / kTile * kTile;
  for (int c = 0; c < whole_count; c += kTile) {
    for (int i = 0; i < whole_lanes; i += kTile) {
      transpose_tile(in + c * in_step + i, in_step, out + i * kRun + c, kRun);
    }
  }
  for (int c = 0; c < count; ++c) {
    for (int i = c < whole_count ? whole_lanes : 0; i < lanes; ++i) {
      out[i * kRun + c] = in[c * in_step + i];
    }
  }
}

}  // namespace

template <typename Element>
void Fetched<Element>::fetch(const Factor& f, Index first, int lanes, Index start, int count) {
  const Element* from =
      static_cast<const Element*>(f.codes.data) + f.start + first * f.row_step + start * f.step;
  if (f.step == 1 && count == kRun) {
    for (int i = 0; i < lanes; ++i) lane_[i] = from + i * f.row_step;
    return;
  }
  for (int i = 0; i < lanes; ++i) lane_[i] = copy_[i];
  if (count < kRun) std::memset(copy_, 0, sizeof(copy_[0]) * static_cast<std::size_t>(lanes));
  if (f.row_step == 1) {
    transpose(from, f.step, lanes, count, copy_[0]);
    return;
  }
  for (int i = 0; i < lanes; ++i) {
    for (int c = 0; c < count; ++c) copy_[i][c] = from[i * f.row_step + c * f.step];
  }
}

template class Fetched<std::uint8_t>;
template class Fetched<std::uint16_t>;

}  // namespace mxo::cpu

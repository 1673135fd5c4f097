// Transposition of the squares that pieces of 16 bytes are, as many of them as a vector has pieces.
#pragma once

#include <utility>

#include "emu/cpu/lanes/lanes.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {

/// As many pieces of 16 bytes as a vector has, `apart` numbers from each other.
template <typename Tag, typename Number>
HWY_API hn::Vec<Tag> pieces(Tag tag, const Number* from, Index apart) {
  if constexpr (hn::MaxLanes(tag) * sizeof(Number) == 16) {
    return hn::LoadU(tag, from);
  } else {
    const hn::Half<Tag> half;
    constexpr Index kPieces = hn::MaxLanes(half) * sizeof(Number) / 16;
    return hn::Combine(tag, pieces(half, from + kPieces * apart, apart), pieces(half, from, apart));
  }
}

/// Their way back.
template <typename Tag, typename Number>
HWY_API void store_pieces(Tag tag, hn::Vec<Tag> v, Number* to, Index apart) {
  if constexpr (hn::MaxLanes(tag) * sizeof(Number) == 16) {
    hn::StoreU(v, tag, to);
  } else {
    const hn::Half<Tag> half;
    constexpr Index kPieces = hn::MaxLanes(half) * sizeof(Number) / 16;
    store_pieces(half, hn::LowerHalf(half, v), to, apart);
    store_pieces(half, hn::UpperHalf(half, v), to + kPieces * apart, apart);
  }
}

template <bool upper, typename Lanes, std::size_t... i>
HWY_API Lanes shuffled(Lanes a, Lanes b, std::index_sequence<i...>) {
  return __builtin_shufflevector(
      a, b, (i % 2 * sizeof...(i) + i / 2 + (upper ? sizeof...(i) / 2 : 0))...);
}

/// a0 b0 a1 b1 ... of the lower or the upper half of each piece.  (Highway's plain C++ goes lane by
/// lane; in GCC's spelling it is an instruction of every x86-64 and Arm.)
template <bool upper, typename Tag>
HWY_API hn::Vec<Tag> interleaved(Tag tag, hn::Vec<Tag> a, hn::Vec<Tag> b) {
  if constexpr (HWY_TARGET == HWY_EMU128) {
    using Number = hn::TFromD<Tag>;
    typedef Number Lanes __attribute__((vector_size(16)));
    Lanes x, y;
    __builtin_memcpy(&x, a.raw, 16);
    __builtin_memcpy(&y, b.raw, 16);
    x = shuffled<upper>(x, y, std::make_index_sequence<16 / sizeof(Number)>());
    __builtin_memcpy(a.raw, &x, 16);
    return a;
  } else if constexpr (upper) {
    return hn::InterleaveUpper(tag, a, b);
  } else {
    return hn::InterleaveLower(tag, a, b);
  }
}

/// In each square row[j] lane i becomes row[i] lane j.  Each round interleaves row i with row
/// i + half, which rotates the bits (row, lane) of an element's place by one; as many rounds as a
/// lane's number has bits exchange the two.
template <typename Tag, int kRows>
HWY_API void transpose_squares(Tag tag, hn::Vec<Tag> (&row)[kRows]) {
  static_assert(kRows * sizeof(hn::TFromD<Tag>) == 16);
#pragma GCC unroll 4
  for (int round = 1; round < kRows; round *= 2) {
    hn::Vec<Tag> next[kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kRows / 2; ++i) {
      next[2 * i] = interleaved<false>(tag, row[i], row[i + kRows / 2]);
      next[2 * i + 1] = interleaved<true>(tag, row[i], row[i + kRows / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) row[i] = next[i];
  }
}

/// in[r][k] to out[k][r], for as many r as the vector has lanes and as many k as a piece: put(k,
/// the vector of all r).  A step known to the compiler spares it an address to each piece.
template <typename Tag, typename Number, typename Step, typename Put>
HWY_API void transpose(Tag tag, const Number* in, Step step, Put put) {
  constexpr int kRows = 16 / sizeof(Number);
  hn::Vec<Tag> x[kRows];
#pragma GCC unroll 16
  for (int k = 0; k < kRows; ++k) x[k] = pieces(tag, in + k * step, kRows * step);
  transpose_squares(tag, x);
#pragma GCC unroll 16
  for (int k = 0; k < kRows; ++k) put(k, x[k]);
}

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

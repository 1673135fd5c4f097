// Vectors of 16 bytes and their interleaving, in the spelling that GCC and clang share: SSE2 on
// x86, NEON on Arm.  For code that every machine of its family can run.
#pragma once

#include <cstdint>
#include <cstring>

#include "formats/tensor_view.h"

namespace mxo::cpu {

template <typename Element>
struct Vector16 {
  typedef Element Lanes __attribute__((vector_size(16)));
  static constexpr int kLanes = 16 / static_cast<int>(sizeof(Element));
  Lanes lanes;

  static Vector16 load(const void* from) {
    Vector16 v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  void store(void* to) const { std::memcpy(to, this, sizeof *this); }
};

/// a0 b0 a1 b1 ... of the lower halves.
inline Vector16<std::uint8_t> interleave_lower(Vector16<std::uint8_t> a, Vector16<std::uint8_t> b) {
  return {__builtin_shufflevector(a.lanes, b.lanes, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22,
                                  7, 23)};
}
/// The same of the upper halves.
inline Vector16<std::uint8_t> interleave_upper(Vector16<std::uint8_t> a, Vector16<std::uint8_t> b) {
  return {__builtin_shufflevector(a.lanes, b.lanes, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                  14, 30, 15, 31)};
}
inline Vector16<std::uint16_t> interleave_lower(Vector16<std::uint16_t> a,
                                                Vector16<std::uint16_t> b) {
  return {__builtin_shufflevector(a.lanes, b.lanes, 0, 8, 1, 9, 2, 10, 3, 11)};
}
inline Vector16<std::uint16_t> interleave_upper(Vector16<std::uint16_t> a,
                                                Vector16<std::uint16_t> b) {
  return {__builtin_shufflevector(a.lanes, b.lanes, 4, 12, 5, 13, 6, 14, 7, 15)};
}
inline Vector16<std::uint32_t> interleave_lower(Vector16<std::uint32_t> a,
                                                Vector16<std::uint32_t> b) {
  return {__builtin_shufflevector(a.lanes, b.lanes, 0, 4, 1, 5)};
}
inline Vector16<std::uint32_t> interleave_upper(Vector16<std::uint32_t> a,
                                                Vector16<std::uint32_t> b) {
  return {__builtin_shufflevector(a.lanes, b.lanes, 2, 6, 3, 7)};
}

/// row[j] lane i becomes row[i] lane j, for as many rows as lanes.  Each round interleaves row i
/// with row i + half, which rotates the bits (row, lane) of an element's place by one; as many
/// rounds as a lane's number has bits exchange the two.
template <typename Element>
void transpose_vectors(Vector16<Element> (&row)[Vector16<Element>::kLanes]) {
  constexpr int kLanes = Vector16<Element>::kLanes;
  for (int round = 1; round < kLanes; round *= 2) {
    Vector16<Element> next[kLanes];
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = interleave_lower(row[i], row[i + kLanes / 2]);
      next[2 * i + 1] = interleave_upper(row[i], row[i + kLanes / 2]);
    }
    std::memcpy(row, next, sizeof row);
  }
}

/// to[k][r] = from[r][k] for a square as wide as a vector; steps in elements.
template <typename Element>
void transpose_square(const Element* from, Index from_step, Element* to, Index to_step) {
  constexpr int kLanes = Vector16<Element>::kLanes;
  Vector16<Element> row[kLanes];
  for (int i = 0; i < kLanes; ++i) row[i] = Vector16<Element>::load(from + i * from_step);
  transpose_vectors(row);
  for (int i = 0; i < kLanes; ++i) row[i].store(to + i * to_step);
}

}  // namespace mxo::cpu

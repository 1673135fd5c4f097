// What the loops of products and of packing share: tags of Highway's vectors, fused steps, and the
// transposition of squares.
#pragma once

#include <cmath>
#include <utility>

#include "emu/cpu/gemm/kernels/kernels.h"
#include "emu/cpu/lanes/lanes.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {

constexpr hn::Repartition<double, decltype(kInts)> kDoubles;
constexpr hn::RebindToSigned<decltype(kDoubles)> kLongs;
constexpr hn::Rebind<std::int32_t, decltype(kDoubles)> kIntsOfDoubles;
constexpr hn::Rebind<float, decltype(kDoubles)> kFloatsOfDoubles;
using D = hn::Vec<decltype(kDoubles)>;

constexpr int kLanes = hn::MaxLanes(kInts);
constexpr int kLanes64 = kLanes / 2;
constexpr int kNr = 2 * kLanes;  // a row of a register tile is two vectors
/// MR: 2 kMr vectors of sums, two of B and one of A are registers.
constexpr int kMr = kLanes == 16 ? 12 : kLanes == 8 ? 6 : 4;

/// a * b + c, rounded once.
template <typename Vector>
HWY_API Vector fused(Vector a, Vector b, Vector c) {
  if constexpr (HWY_NATIVE_FMA) {
    return hn::MulAdd(a, b, c);
  } else {
    const hn::DFromV<Vector> tag;
    HWY_ALIGN hn::TFromD<decltype(tag)> x[kLanes], y[kLanes], z[kLanes];
    hn::Store(a, tag, x);
    hn::Store(b, tag, y);
    hn::Store(c, tag, z);
    for (std::size_t i = 0; i < hn::MaxLanes(tag); ++i) z[i] = std::fma(x[i], y[i], z[i]);
    return hn::Load(tag, z);
  }
}

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

/// Transposes the squares that the pieces of so many rows are: in[r][k] to out[k][r], for as many r
/// as the vector has lanes and as many k as a piece.
template <typename Tag, typename Number, typename Put>
HWY_API void transpose(Tag tag, const Number* in, Index step, Put put) {
  constexpr int kRows = 16 / sizeof(Number);
  hn::Vec<Tag> x[kRows];
#pragma GCC unroll 4
  for (int k = 0; k < kRows; ++k) x[k] = pieces(tag, in + k * step, kRows * step);
#pragma GCC unroll 2
  for (int round = 1; round < kRows; round *= 2) {
    hn::Vec<Tag> next[kRows];
#pragma GCC unroll 2
    for (int k = 0; k < kRows / 2; ++k) {
      next[2 * k] = hn::InterleaveLower(tag, x[k], x[k + kRows / 2]);
      next[2 * k + 1] = hn::InterleaveUpper(tag, x[k], x[k + kRows / 2]);
    }
#pragma GCC unroll 4
    for (int k = 0; k < kRows; ++k) x[k] = next[k];
  }
#pragma GCC unroll 4
  for (int k = 0; k < kRows; ++k) put(k, x[k]);
}

/// What packing.cc has of a table.
void set_packing(Kernels& table);

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

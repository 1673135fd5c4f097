// K-vectors that lie across memory are transposed by squares of 16 bytes.
#include "emu/cpu/gemm/pack/scratch.h"

#include <algorithm>
#include <cstring>

#include "emu/cpu/simd/interleave.h"

namespace mxo::cpu {
namespace {

/// Columns of `in` become rows of `out`: whole tiles, then what is left one by one.
template <typename Element>
void transpose(const Element* in, Index in_step, int lanes, int count, Element* out) {
  constexpr int kTile = 16 / sizeof(Element);
  const int whole_lanes = lanes / kTile * kTile;
  const int whole_count = count / kTile * kTile;
  for (int c = 0; c < whole_count; c += kTile) {
    for (int i = 0; i < whole_lanes; i += kTile) {
      transpose_square(in + c * in_step + i, in_step, out + i * kRun + c, kRun);
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

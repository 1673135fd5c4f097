// Transposition of bytes and words by squares of 16 bytes, and the tiles of scales.
#include <hwy/cache_control.h>

#include "emu/cpu/lanes/tables.h"
#include "emu/cpu/lanes/transpose.h"
#include "formats/scale_layout.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {
namespace {

constexpr Index kLine = 64;  // bytes of a cache line
constexpr Index kPieces = static_cast<Index>(hn::MaxLanes(kBytes)) / 16;

/// A line of each of as many columns as a piece has numbers.  Lines a power of two apart share a
/// cache set, and one that is written in parts would leave it in between.
template <typename Number, typename Step>
HWY_INLINE void transpose_lines(const Number* from, Step from_step, Number* to, Index to_step,
                                Stores stores) {
  constexpr hn::Repartition<Number, decltype(kBytes)> tag;
  constexpr Index kSquare = 16 / sizeof(Number);
  const auto put = [=](auto numbers, Number* at) HWY_ATTR {
    if (stores == Stores::streamed) {
      hn::Stream(numbers, tag, at);
    } else {
      hn::StoreU(numbers, tag, at);
    }
  };
  if constexpr (kPieces * 16 == kLine) {
    transpose(tag, from, from_step,
              [=](Index k, auto column) HWY_ATTR { put(column, to + k * to_step); });
  } else {
    constexpr Index kNumbers = kLine / sizeof(Number);
    constexpr Index kPart = kPieces * kSquare;
    alignas(64) Number lines[kSquare * kNumbers];
    for (Index r = 0; r < kNumbers; r += kPart) {
      Number* part = lines + r;
      transpose(tag, from + r * from_step, from_step, [=](Index k, auto column) HWY_ATTR {
        hn::StoreU(column, tag, part + k * kNumbers);
      });
    }
    for (Index k = 0; k < kSquare; ++k) {
      for (Index r = 0; r < kNumbers; r += kPart) {
        put(hn::Load(tag, lines + k * kNumbers + r), to + k * to_step + r);
      }
    }
  }
}

template <typename Number>
HWY_INLINE void transpose_square(const Number* from, Index from_step, Number* to, Index to_step) {
  constexpr hn::CappedTag<Number, 16 / sizeof(Number)> tag;
  transpose(tag, from, from_step,
            [=](Index k, auto column) HWY_ATTR { hn::StoreU(column, tag, to + k * to_step); });
}

/// Whole squares of less than a line of each column, or of at most a line of each row, which they
/// use up before others take its place: rows a power of two apart share a cache set, too.
template <typename Number>
HWY_INLINE void transpose_narrow(const Number* from, Index from_step, Number* to, Index to_step,
                                 Index rows, Index columns) {
  constexpr Index kSquare = 16 / sizeof(Number);
  for (Index r = 0; r < rows; r += kSquare) {
    for (Index k = 0; k < columns; k += kSquare) {
      transpose_square(from + r * from_step + k, from_step, to + r + k * to_step, to_step);
    }
  }
}

/// Whole squares of more columns than a line has.
template <typename Number, typename Step>
HWY_INLINE void transpose_wide(const Number* from, Step from_step, Number* to, Index to_step,
                               Index rows, Index columns, Stores stores) {
  constexpr Index kSquare = 16 / sizeof(Number);
  constexpr Index kLineRows = kLine / sizeof(Number);
  for (Index k = 0; k < columns; k += kSquare) {
    const Number* in = from + k;
    Number* out = to + k * to_step;
    Index r = 0;
    for (; r + kLineRows <= rows; r += kLineRows) {
      transpose_lines(in + r * from_step, from_step, out + r, to_step, stores);
    }
    for (; r < rows; r += kSquare) {
      transpose_square(in + r * from_step, from_step, out + r, to_step);
    }
  }
}

template <typename Number>
HWY_FLATTEN void transpose_plane(const Number* from, Index from_step, Number* to, Index to_step,
                                 Index rows, Index columns, Stores stores) noexcept {
  constexpr Index kSquare = 16 / sizeof(Number);
  constexpr Index kNumbers = kLine / sizeof(Number);
  const Index squares_r = rows / kSquare * kSquare;
  const Index squares_k = columns / kSquare * kSquare;
  const bool in_lines = kPieces * 16 == kLine && from_step == kNumbers;
  const bool wide = columns > kNumbers || in_lines || stores == Stores::streamed;
  if (rows >= kNumbers && wide) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(to) % std::uintptr_t{kLine} == 0 &&
                         to_step % kNumbers == 0;
    const Stores way = aligned ? stores : Stores::cached;
    if (from_step == kNumbers) {
      constexpr std::integral_constant<Index, kNumbers> one_line;
      transpose_wide(from, one_line, to, to_step, squares_r, squares_k, way);
    } else {
      transpose_wide(from, from_step, to, to_step, squares_r, squares_k, way);
    }
  } else {
    transpose_narrow(from, from_step, to, to_step, squares_r, squares_k);
  }
  // The rows below the squares, then all rows of the columns to their right.
  for (Index r = squares_r; r < rows; ++r) {
    for (Index k = 0; k < squares_k; ++k) to[k * to_step + r] = from[r * from_step + k];
  }
  for (Index r = 0; r < rows; ++r) {
    for (Index k = squares_k; k < columns; ++k) to[k * to_step + r] = from[r * from_step + k];
  }
}

constexpr hn::Repartition<std::uint32_t, decltype(kBytes)> kTileWords;
using W = hn::Vec<decltype(kTileWords)>;

/// Four whole tiles at a time: rows r, r + 32, r + 64, r + 96 give line r of each tile, one word
/// from each.
HWY_FLATTEN void swizzle(const std::uint8_t* scales, Index step, Index columns,
                         std::uint8_t* tiles) noexcept {
  for (Index c = 0; c < columns; c += 16, tiles += 4 * kTileBytes) {
    for (Index r = 0; r < 32; r += kPieces) {
      W line[4];
#pragma GCC unroll 4
      for (Index i = 0; i < 4; ++i) {
        line[i] = hn::BitCast(kTileWords, pieces(kBytes, scales + c + (r + 32 * i) * step, step));
      }
      transpose_squares(kTileWords, line);
#pragma GCC unroll 4
      for (Index i = 0; i < 4; ++i) {
        hn::StoreU(hn::BitCast(kBytes, line[i]), kBytes, tiles + i * kTileBytes + r * 16);
      }
    }
  }
}

HWY_FLATTEN void unswizzle(const std::uint8_t* tiles, Index columns, std::uint8_t* scales,
                           Index step) noexcept {
  for (Index c = 0; c < columns; c += 16, tiles += 4 * kTileBytes) {
    for (Index r = 0; r < 32; r += kPieces) {
      W line[4];
#pragma GCC unroll 4
      for (Index i = 0; i < 4; ++i) {
        line[i] = hn::BitCast(kTileWords, hn::LoadU(kBytes, tiles + i * kTileBytes + r * 16));
      }
      transpose_squares(kTileWords, line);
#pragma GCC unroll 4
      for (Index i = 0; i < 4; ++i) {
        store_pieces(kBytes, hn::BitCast(kBytes, line[i]), scales + c + (r + 32 * i) * step, step);
      }
    }
  }
}

}  // namespace

const LayoutKernels kLayoutKernels{transpose_plane<std::uint8_t>, transpose_plane<std::uint16_t>,
                                   swizzle, unswizzle};

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

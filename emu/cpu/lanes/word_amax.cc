// The largest magnitudes of bf16, which order as integers: of blocks, of rows, of columns.
#include "emu/cpu/lanes/words.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {
namespace {

/// Rows read side by side: memory feeds so many streams faster than one.
constexpr Index kRowsRead = 16;

/// The largest magnitudes of each lane over a block.
HWY_INLINE H lanes_of_block(const std::uint16_t* x, Index width) {
  const Index step = shorts();
  H best = hn::Zero(kShorts);
  H other = best;
  Index i = 0;
  for (; i + 2 * step <= width; i += 2 * step) {
    best = joined(best, x + i);
    other = joined(other, x + i + step);
  }
  best = hn::Max(best, other);
  if (i + step <= width) {
    best = joined(best, x + i);
    i += step;
  }
  if (i < width) {
    alignas(64) std::uint16_t padded[kMaxShorts] = {};
    __builtin_memcpy(padded, x + i, static_cast<std::size_t>(width - i) * 2);
    best = joined(best, padded);
  }
  return best;
}

/// a and b with half as many lanes each, which alternate in units of a lane of `d`.
template <typename D>
HWY_INLINE H folded(D d, H a, H b) {
  const auto lower = hn::InterleaveLower(d, hn::BitCast(d, a), hn::BitCast(d, b));
  const auto upper = hn::InterleaveUpper(d, hn::BitCast(d, a), hn::BitCast(d, b));
  return hn::Max(hn::BitCast(kShorts, lower), hn::BitCast(kShorts, upper));
}

/// Of so many rows; returns the columns that whole vectors held.
template <Index rows>
HWY_INLINE Index join_columns(const std::uint16_t* x, Index stride, Index columns,
                              std::uint16_t* top) {
  const Index step = shorts();
  Index k = 0;
  for (; k + step <= columns; k += step) {
    H best = hn::LoadU(kShorts, top + k);
    for (Index i = 0; i < rows; ++i) best = joined(best, x + i * stride + k);
    hn::StoreU(best, kShorts, top + k);
  }
  return k;
}

}  // namespace

/// Eight blocks at a time: three foldings leave one lane of each in every 16 bytes.
HWY_FLATTEN void amax_blocks(const void* from, Index blocks, Index width,
                             std::uint16_t* top) noexcept {
  constexpr Index kTogether = 8;
  constexpr hn::Repartition<std::uint32_t, decltype(kInts)> pairs;
  constexpr hn::Repartition<std::uint64_t, decltype(kInts)> fours;
  constexpr hn::CappedTag<std::uint16_t, kTogether> one_each;
  const auto* x = static_cast<const std::uint16_t*>(from);
  Index b = 0;
  for (; b + kTogether <= blocks; b += kTogether, x += kTogether * width) {
    const auto two = [=](Index i) HWY_ATTR {
      return folded(kShorts, lanes_of_block(x + i * width, width),
                    lanes_of_block(x + (i + 1) * width, width));
    };
    const auto four = [=](Index i) HWY_ATTR { return folded(pairs, two(i), two(i + 2)); };
    alignas(64) std::uint16_t parts[kMaxShorts];
    hn::Store(folded(fours, four(0), four(4)), kShorts, parts);
    auto best = hn::Load(one_each, parts);
    for (Index i = kTogether; i < shorts(); i += kTogether) {
      best = hn::Max(best, hn::Load(one_each, parts + i));
    }
    hn::StoreU(best, one_each, top + b);
  }
  for (; b < blocks; ++b, x += width) {
    top[b] = hn::GetLane(hn::MaxOfLanes(kShorts, lanes_of_block(x, width)));
  }
}

HWY_FLATTEN std::uint16_t amax_rows(const void* from, Index stride, Index rows,
                                    Index columns) noexcept {
  const auto* x = static_cast<const std::uint16_t*>(from);
  const Index step = shorts();
  H top = hn::Zero(kShorts);
  Index r = 0;
  for (; r + kRowsRead <= rows; r += kRowsRead, x += kRowsRead * stride) {
    H other = top;
    Index k = 0;
    for (; k + 2 * step <= columns; k += 2 * step) {
      for (Index i = 0; i < kRowsRead; ++i) {
        top = joined(top, x + i * stride + k);
        other = joined(other, x + i * stride + k + step);
      }
    }
    top = hn::Max(top, other);
    if (k == columns) continue;
    for (Index i = 0; i < kRowsRead; ++i) {
      top = hn::Max(top, lanes_of_block(x + i * stride + k, columns - k));
    }
  }
  for (; r < rows; ++r, x += stride) top = hn::Max(top, lanes_of_block(x, columns));
  return hn::GetLane(hn::MaxOfLanes(kShorts, top));
}

HWY_FLATTEN void amax_columns(const void* from, Index stride, Index rows, Index columns,
                              std::uint16_t* top) noexcept {
  const auto* x = static_cast<const std::uint16_t*>(from);
  for (Index r = 0; r < rows;) {
    const bool together = rows - r >= kRowsRead;
    const Index count = together ? kRowsRead : 1;
    Index k = together ? join_columns<kRowsRead>(x, stride, columns, top)
                       : join_columns<1>(x, stride, columns, top);
    for (; k < columns; ++k) {
      for (Index i = 0; i < count; ++i) {
        const auto word = static_cast<std::uint16_t>(x[i * stride + k] & 0x7FFF);
        if (word > top[k]) top[k] = word;
      }
    }
    r += count;
    x += count * stride;
  }
}

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

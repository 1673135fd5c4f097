// The quantiser of one band of bf16: magnitudes as integers, scales from a table, codes in 16-bit
// lanes.
#include <cstring>

#include "emu/cpu/quantize_any_blocks_band.h"

namespace mxo::cpu {
namespace {

constexpr Index kTallColumns = 512;  // of a panel of many rows: it stays in second caches

std::uint32_t wide(std::uint16_t word) { return std::uint32_t{word} << 16; }

}  // namespace

std::uint32_t BandQuantizer::amax_of_words(const Band& band, Index k, Index count) const {
  return wide(words_->amax_rows(words_at(band, 0, k), band.x.stride_r, band.rows, count));
}

/// What a block is scaled by; its factor is NaN where words do not give its codes, and its scale
/// is not to be relied on then.
BlockFactor BandQuantizer::make_word_factor(std::uint16_t top) const {
  if (!is_finite_word(wide(top))) return {quiet_nan(), 0};
  alignas(4) std::byte stored[4] = {};
  const float factor = choose_(wide(top), rule_, input_max_, stored);
  const bool fits = usual_ || ordinary(wide(top), factor);
  const bool suits = fits && suits_words(wide(top), factor);
  return {suits ? factor : quiet_nan(), bit_cast<std::uint32_t>(stored)};
}

/// Stores the scales of n blocks; their factors, and whether words give the codes of all.
template <typename Stored>
bool BandQuantizer::word_factors(const std::uint16_t* top, Index n, Stored* scales, Index step,
                                 float* factors) const {
  const auto make = [this](std::uint16_t amax) { return make_word_factor(amax); };
  bool every = true;
  for (Index b = 0; b < n; ++b) {
    const BlockFactor chosen = table_ ? table_->at(top[b], make) : make(top[b]);
    if constexpr (sizeof(Stored) == 4) {
      scales[b * step] = bit_cast<Stored>(chosen.stored);
    } else {
      scales[b * step] = static_cast<Stored>(chosen.stored);
    }
    factors[b] = chosen.factor;
    every = every && chosen.factor == chosen.factor;
  }
  return every;
}
bool BandQuantizer::word_factors(const Band& band, Index first, const std::uint16_t* top, Index n,
                                 float* factors) const {
  std::byte* to = band.scales + first * band.scale_stride * scale_bytes_;
  if (scale_bytes_ == 4) {
    return word_factors(top, n, reinterpret_cast<float*>(to), band.scale_stride, factors);
  }
  return word_factors(top, n, reinterpret_cast<std::uint8_t*>(to), band.scale_stride, factors);
}

/// Blocks of several columns, panel by panel: amax, scales, codes.
void BandQuantizer::word_blocks(const Band& band) const {
  const Index most =
      band.rows == 1 ? std::min(kRowColumns, band.width * kPanelColumns) : kTallColumns;
  if (band.width > most) {
    for (Index k = 0; k < band.columns; k += band.width) {
      const Index count = std::min(band.width, band.columns - k);
      write_block(band, k, count, choose(amax_of(band, k, count), band, k / band.width));
    }
    return;
  }
  const Index panel = most / band.width * band.width;
  for (Index k = 0; k < band.columns; k += panel) {
    word_panel(band, k, std::min(panel, band.columns - k));
  }
}

void BandQuantizer::word_panel(const Band& band, Index k, Index columns) const {
  const Index whole = columns / band.width;
  const Index rest = columns % band.width;
  std::uint16_t top[kPanelColumns];
  const std::byte* x = words_at(band, 0, k);
  alignas(64) std::uint16_t by_column[kTallColumns];
  if (band.rows != 1) {  // of no rows the largest is 0
    std::fill_n(by_column, columns, std::uint16_t{0});
    words_->amax_columns(x, band.x.stride_r, band.rows, columns, by_column);
    x = reinterpret_cast<const std::byte*>(by_column);
  }
  words_->amax(x, whole, band.width, top);
  if (rest > 0) words_->amax(x + whole * band.width * 2, 1, rest, top + whole);

  float factors[kPanelColumns];
  const Index blocks = whole + (rest > 0 ? 1 : 0);
  const bool every = word_factors(band, k / band.width, top, blocks, factors);
  const Stores stores = stores_of(band, band.width);
  if (!every) return word_panel_singly(band, k, columns, factors);
  for (Index r = 0; r < band.rows; ++r) {
    code_words(band, r, k, whole, band.width, factors, stores);
    if (rest > 0) {
      code_words(band, r, k + whole * band.width, 1, rest, factors + whole, Stores::cached);
    }
  }
}

/// The same where some blocks are not for words.
void BandQuantizer::word_panel_singly(const Band& band, Index k, Index columns,
                                      const float* factors) const {
  for (Index at = 0; at < columns; at += band.width) {
    const Index count = std::min(band.width, columns - at);
    const float factor = factors[at / band.width];
    const Chosen chosen = factor == factor
                              ? Chosen{factor, true, true}
                              : choose(amax_of(band, k + at, count), band, (k + at) / band.width);
    write_block(band, k + at, count, chosen);
  }
}

bool BandQuantizer::column_factors(const Band& band, Index k, Index count, const std::uint16_t* top,
                                   float* even, float* odd) const {
  bool every = true;
  for (Index at = 0; at < count; at += kPanelColumns) {
    const Index n = std::min(kPanelColumns, count - at);
    const Index lines =
        ceil_div(n, static_cast<Index>(kCacheLine)) * static_cast<Index>(kCacheLine);
    float factors[kPanelColumns];
    every = word_factors(band, k + at, top + at, n, factors) && every;
    std::fill(factors + n, factors + lines, 1.0f);
    for (Index i = 0; i < lines / 2; ++i) {
      even[at / 2 + i] = factors[2 * i];
      odd[at / 2 + i] = factors[2 * i + 1];
    }
  }
  return every;
}

/// One scale a column.
void BandQuantizer::word_columns(const Band& band) const {
  // Of more rows than second caches hold, third ones hold so many columns.
  const Index most = band.rows > kMxBlock ? kTallColumns : kPanelColumns;
  constexpr auto kLine = static_cast<Index>(kCacheLine);
  const Index panels = ceil_div(band.columns, most);
  const Index panel = ceil_div(ceil_div(band.columns, panels), kLine) * kLine;
  for (Index k = 0; k < band.columns; k += panel) {
    const Index count = std::min(panel, band.columns - k);
    std::uint16_t top[kPanelColumns];
    float even[kPanelColumns / 2];
    float odd[kPanelColumns / 2];
    std::fill_n(top, count, std::uint16_t{0});
    join_columns(band, k, count, top);
    if (!column_factors(band, k, count, top, even, odd)) {
      one_scale_per_column(band, k, count);
      continue;
    }
    WordRows columns = columns_of(band, k, count);
    // What is read next: the panel beside this one, or the first of the band below.
    if (band.rows <= kTallRows) {
      columns.ahead = k + count < band.columns ? count : band.rows * band.x.stride_r - k;
    }
    write_columns(columns, even, odd);
  }
}

}  // namespace mxo::cpu

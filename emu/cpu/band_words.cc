// The quantiser of one band of bf16: magnitudes as integers, scales from a table, codes in 16-bit
// lanes.
#include <cstring>

#include "emu/cpu/band_quantizer.h"

namespace mxo::cpu {
namespace {

constexpr Index kTallColumns = 512;  // of a panel of many rows: it stays in second caches
constexpr Index kTallRows = 512;     // no panel of more stays there

std::uint32_t wide(std::uint16_t word) { return std::uint32_t{word} << 16; }

}  // namespace

std::uint32_t BandQuantizer::amax_of_words(const Band& band, Index k, Index count) const {
  std::uint16_t top = 0;
  for (Index r = 0; r < band.rows; ++r) {
    std::uint16_t of_row = 0;
    words_->amax(words_at(band, r, k), 1, count, &of_row);
    top = std::max(top, of_row);
  }
  return wide(top);
}

/// What a block of finite elements is scaled by; its factor is NaN where words do not give its
/// codes.
BlockFactor BandQuantizer::word_factor(std::uint16_t amax) const {
  const auto make = [this](std::uint16_t top) {
    alignas(4) std::byte stored[4] = {};
    const float factor = choose_(wide(top), rule_, input_max_, stored);
    BlockFactor made{factor, bit_cast<std::uint32_t>(stored)};
    const bool fits = usual_ || ordinary(wide(top), factor);
    if (!fits || !suits_words(wide(top), factor)) made.factor = quiet_nan();
    return made;
  };
  return table_ ? table_->at(amax, make) : make(amax);
}
void BandQuantizer::store_scale(const Band& band, Index block, std::uint32_t stored) const {
  std::byte* to = band.scales + block * band.scale_stride * scale_bytes_;
  if (scale_bytes_ == 4) {
    std::memcpy(to, &stored, 4);
  } else {
    *to = static_cast<std::byte>(stored);
  }
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

  const Index first = k / band.width;
  float factors[kPanelColumns];
  bool every = true;
  for (Index b = 0; b < whole + (rest > 0 ? 1 : 0); ++b) {
    if (is_finite_word(wide(top[b]))) {
      const BlockFactor chosen = word_factor(top[b]);
      store_scale(band, first + b, chosen.stored);
      factors[b] = chosen.factor;
    } else {
      factors[b] = quiet_nan();
    }
    every = every && factors[b] == factors[b];
  }
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

/// One scale a column.
void BandQuantizer::word_columns(const Band& band) const {
  const bool tall = band.rows > kMxBlock && band.rows <= kTallRows;
  const Index panel = tall ? kTallColumns : kPanelColumns;
  for (Index k = 0; k < band.columns; k += panel) {
    const Index count = std::min(panel, band.columns - k);
    alignas(64) std::uint16_t top[kPanelColumns];
    float factors[kPanelColumns];
    std::fill_n(top, count, std::uint16_t{0});
    words_->amax_columns(words_at(band, 0, k), band.x.stride_r, band.rows, count, top);
    bool every = true;
    for (Index i = 0; i < count && every; ++i) {
      every = is_finite_word(wide(top[i]));
      if (!every) break;
      const BlockFactor chosen = word_factor(top[i]);
      store_scale(band, k + i, chosen.stored);
      factors[i] = chosen.factor;
      every = factors[i] == factors[i];
    }
    if (!every) {
      one_scale_per_column(band, k, count);
      continue;
    }
    const Stores stores = stores_of(band, kCacheLine);
    for (Index r = 0; r < band.rows; ++r) {
      auto* codes = reinterpret_cast<std::uint8_t*>(band.codes.data + r * band.codes.stride_r + k);
      words_->columns[static_cast<int>(word_rule_)](words_at(band, r, k), count, factors, codes,
                                                    stores);
    }
  }
}

}  // namespace mxo::cpu

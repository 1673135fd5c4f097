// The quantiser of one band: rows that share scales, cut to what kernels take.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "emu/cpu/bands.h"
#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/factor_table.h"
#include "emu/cpu/short_blocks.h"
#include "emu/cpu/streaming.h"
#include "ops/quantize.h"

namespace mxo::cpu {

/// x of `count` neighbours, scaled by factors[i * step], as codes: the definition.
struct ElementLoop {
  CodeScaling how;
  ElementRule rule;
  void (*run)(const void* x, Index count, const float* factors, Index step, const ElementLoop& loop,
              std::uint8_t* codes);
};

/// What x is multiplied or divided by.
using ChooseScale = float (*)(std::uint32_t amax, const ScaleRule& rule, float input_max,
                              std::byte* stored);

inline constexpr Index kShortBlock = 64;  // of one row: scaled with their neighbours

inline constexpr Index kRowColumns = 8192;  // of one row at a time: it stays in first caches

inline bool is_finite_word(std::uint32_t magnitude) { return magnitude < 0x7F800000u; }

/// What every band of one call shares.
class BandQuantizer {
 public:
  BandQuantizer(const Quantize& op, const EncodeKernels& codec);

  void operator()(const Band& band) const {
    if (band.columns == 0) {  // a row without elements still has its scale
      choose({}, band, 0);
      return;
    }
    if (in_words(band) && band.width == 1) return word_columns(band);
    if (in_words(band)) return word_blocks(band);
    if (band.width == 1) return one_scale_per_column(band);
    const bool packed = band.x.stride_k == 1 && band.codes.stride_k == 1;
    if (band.rows == 1 && band.width <= kShortBlock && packed && band.given == nullptr) {
      return short_blocks(band);
    }
    for (Index k = 0; k < band.columns; k += band.width) {
      const Index count = std::min(band.width, band.columns - k);
      write_block(band, k, count, choose(amax_of(band, k, count), band, k / band.width));
    }
  }

  /// Under the rule; `seen` joins every NaN as well.
  struct Amax {
    std::uint32_t ruled = 0;
    std::uint32_t seen = 0;
  };
  Amax amax_of(const Band& band, Index k, Index count) const {
    const NanRule first = usual_ && !in_words(band) ? nan_ : NanRule::propagate;
    Amax amax;
    if (usual_ && band.given != nullptr) return amax;
    amax.seen = in_words(band) ? amax_of_words(band, k, count) : amax_under(first, band, k, count);
    const bool again = first != nan_ && is_nan_word(amax.seen);
    amax.ruled = again ? amax_under(nan_, band, k, count) : amax.seen;
    return amax;
  }

  /// What a block is scaled by, and which kernels give its codes.
  struct Chosen {
    float factor;
    bool by_kernel;
    bool by_words;
  };
  Chosen choose(const Amax& amax, const Band& band, Index block) const {
    std::byte* stored = band.scales + block * band.scale_stride * scale_bytes_;
    float factor = 0.0f;
    if (band.given != nullptr) {
      const F32Scale scale = given_scale(band.given[block * band.given_stride], rule_.f32);
      *reinterpret_cast<float*>(stored) = scale.stored;
      factor = scale.factor;
    } else {
      factor = choose_(amax.ruled, rule_, input_max_, stored);
    }
    const bool fits = usual_ || ordinary(amax.seen, factor);
    return {factor, rounds_even_ && fits, fits && suits_words(amax.seen, factor)};
  }

  void write_block(const Band& band, Index k, Index count, const Chosen& chosen) const {
    if (chosen.by_words && in_words(band)) {
      const Stores stores =
          k % static_cast<Index>(kCacheLine) == 0 ? stores_of(band, count) : Stores::cached;
      if (band.rows == 1) return code_words(band, 0, k, 1, count, &chosen.factor, stores);
      words_->rows[static_cast<int>(word_rule_)](word_rows(band, k, count, stores), chosen.factor);
      return;
    }
    for_runs(band, k, count, [&](Index r, Index at, Index n, const void* x) {
      write_codes(band, r, at, n, [&](std::uint8_t* codes) {
        if (chosen.by_kernel) return run_(x, n, chosen.factor, codes);
        elements_.run(x, n, &chosen.factor, 0, elements_, codes);
      });
    });
  }

  /// Adjacent bf16 whose largest magnitudes are asked.
  bool in_words(const Band& band) const {
    return words_ != nullptr && band.given == nullptr && band.x.stride_k == 1 &&
           band.codes.stride_k == 1;
  }
  /// Of a band in words with one scale a column: joins its magnitudes to top.
  void join_columns(const Band& band, Index k, Index count, std::uint16_t* top) const {
    words_->amax_columns(words_at(band, 0, k), band.x.stride_r, band.rows, count, top);
  }
  /// Stores the scales of columns; their factors, those of every other column apart and up to a
  /// whole line of codes, and whether words give the codes of all.
  bool column_factors(const Band& band, Index k, Index count, const std::uint16_t* top, float* even,
                      float* odd) const;
  WordRows columns_of(const Band& band, Index k, Index count) const {
    return word_rows(band, k, count, stores_of(band, kCacheLine));
  }
  void write_columns(const WordRows& columns, const float* even, const float* odd) const {
    words_->columns[static_cast<int>(word_rule_)](columns, even, odd);
  }

 private:
  bool suits_words(std::uint32_t seen, float factor) const {
    const auto word = bit_cast<std::uint32_t>(factor) & 0x7FFFFFFFu;
    return is_finite_word(seen) && is_finite_word(word) && !(divides_ && word == 0);
  }
  Stores stores_of(const Band& band, Index width) const {
    const auto at = reinterpret_cast<std::uintptr_t>(band.codes.data);
    const bool lines = (at | static_cast<std::uintptr_t>(band.codes.stride_r)) % kCacheLine == 0;
    const bool whole = width % static_cast<Index>(kCacheLine) == 0 || width == kMxBlock;
    return streams_ && lines && whole ? Stores::streamed : Stores::cached;
  }
  const std::byte* words_at(const Band& band, Index r, Index k) const {
    return band.x.data + (r * band.x.stride_r + k) * 2;
  }
  WordRows word_rows(const Band& band, Index k, Index count, Stores stores) const {
    return {words_at(band, 0, k),
            band.x.stride_r,
            band.rows,
            count,
            reinterpret_cast<std::uint8_t*>(band.codes.data + k),
            band.codes.stride_r,
            stores};
  }
  void code_words(const Band& band, Index r, Index k, Index blocks, Index width,
                  const float* factors, Stores stores) const {
    auto* codes = reinterpret_cast<std::uint8_t*>(band.codes.data + r * band.codes.stride_r + k);
    words_->blocks[static_cast<int>(word_rule_)](words_at(band, r, k), blocks, width, factors,
                                                 codes, stores);
  }

  std::uint32_t amax_of_words(const Band& band, Index k, Index count) const;
  BlockFactor make_word_factor(std::uint16_t top) const;
  template <typename Stored>
  bool word_factors(const std::uint16_t* top, Index n, Stored* scales, Index step,
                    float* factors) const;
  bool word_factors(const Band& band, Index first, const std::uint16_t* top, Index n,
                    float* factors) const;
  void word_blocks(const Band& band) const;
  void word_panel(const Band& band, Index k, Index columns) const;
  void word_panel_singly(const Band& band, Index k, Index columns, const float* factors) const;
  void word_columns(const Band& band) const;

  std::uint32_t amax_under(NanRule nan, const Band& band, Index k, Index count) const {
    std::uint32_t amax = 0;
    for_runs(band, k, count,
             [&](Index, Index, Index n, const void* x) { amax = input_.amax(x, n, amax, nan); });
    return amax;
  }

  /// True if no element is NaN, infinite or beyond what kernels saturate after scaling.  A factor
  /// may be -infinity.
  bool ordinary(std::uint32_t amax, float factor) const {
    return std::fabs(scaled(bit_cast<float>(amax), factor, elements_.how)) <= in_range_;
  }

  void short_blocks(const Band& band) const;
  void one_scale_per_column(const Band& band) const;
  void one_scale_per_column(const Band& band, Index k, Index count) const;

  /// Calls use(row, column, n, x) on adjacent elements of columns k .. k + count of every row.
  template <typename Use>
  void for_runs(const Band& band, Index k, Index count, Use use) const {
    alignas(64) std::byte copy[kPanelColumns * 4];
    const auto size = static_cast<Index>(x_bytes_);
    for (Index r = 0; r < band.rows; ++r) {
      for (Index at = k; at < k + count; at += kPanelColumns) {
        const Index n = std::min(kPanelColumns, k + count - at);
        const std::byte* x = band.x.data + (r * band.x.stride_r + at * band.x.stride_k) * size;
        if (band.x.stride_k != 1) {
          copy_row(x, band.x.stride_k, copy, 1, n, x_bytes_);
          x = copy;
        }
        use(r, at, n, x);
      }
    }
  }

  template <typename Write>
  void write_codes(const Band& band, Index r, Index at, Index n, Write write) const {
    std::byte* codes = band.codes.data + r * band.codes.stride_r + at * band.codes.stride_k;
    if (band.codes.stride_k == 1) return write(reinterpret_cast<std::uint8_t*>(codes));
    alignas(64) std::byte copy[kPanelColumns];
    write(reinterpret_cast<std::uint8_t*>(copy));
    copy_row(copy, 1, codes, band.codes.stride_k, n, 1);
  }

  const InputKernels& input_;
  std::size_t x_bytes_;
  Index scale_bytes_;
  float input_max_;
  ScaleRule rule_;
  NanRule nan_ = NanRule::propagate;
  ElementLoop elements_{};
  bool rounds_even_ = true;
  bool usual_ = true;       ///< the element rule is the kernels' own
  bool goes_away_ = false;  ///< ties away from zero, by the kernels after all
  bool divides_ = false;
  bool streams_ = false;                ///< past the caches
  const WordKernels* words_ = nullptr;  ///< where x is bf16 and they know the rule
  WordRule word_rule_ = WordRule::multiply;
  std::optional<const FactorTable> table_;
  float in_range_ = 0.0f;
  std::uint32_t (*short_amax_)(const void*, Index) = nullptr;
  void (*off_ties_)(const void*, Index, const float*, ZeroSign, float*) = nullptr;
  void (*rounded_)(const void*, Index, float, std::uint8_t*) noexcept = nullptr;
  std::unique_ptr<const ScaleSteps> steps_;
  void (*run_)(const void*, Index, float, std::uint8_t*) noexcept = nullptr;
  void (*by_column_)(const void*, Index, const float*, std::uint8_t*) noexcept = nullptr;
  ChooseScale choose_ = nullptr;
};

}  // namespace mxo::cpu

// Codes of K-vectors that are neighbours in memory to panels of bf16: each K-vector gets one unit,
// the greatest of its scales.
#include <algorithm>
#include <bit>
#include <cmath>

#include "emu/cpu/gemm/engines/bf16/bf16_tiles.h"
#include "emu/cpu/gemm/pack/integer_packer.h"
#include "emu/exact/binary32_bounds.h"
#include "emu/exact/integer_unit.h"

namespace mxo::cpu {
namespace {

/// Within these bounds on quanta and norms, results are 0 or normal bf16 numbers.
constexpr int kMinQuantum = -62;
constexpr double kMaxNorm = 0x1p62;
/// Stands for the quantum of a K-vector whose scales are too far apart for this engine.
constexpr int kFarQuantum = -4000;

class Bf16Packer {
 public:
  Bf16Packer(const Kernels& kernels, const Product& product, const Factor& factor,
             const KBlock& k_block, MicroPanel& panel, PackScratch& scratch)
      : kernels_(kernels),
        product_(product),
        factor_(factor),
        k_block_(k_block),
        panel_(panel),
        table_(bf16_table(factor.codes.dtype)),
        is_b_(panel.scale_step == kMaxNr),
        tiles_(is_b_ ? static_cast<std::uint16_t*>(panel.data)
                     : reinterpret_cast<std::uint16_t*>(scratch.columns)) {}

  void pack() {
    panel_.residuals.clear();
    panel_.residual_overflow = false;
    panel_.errors = {};
    read_k_vectors();
    encode();
    mark_specials();
    for (int lane = 0; lane < panel_.width; ++lane) bound(lane);
    for (int half = 0; half < halves(); ++half) {
      const int first = half * kTileLanes;
      avx512_count_small(blocks(), halves() * kTileWords, tiles_ + half * kTileWords,
                         small_ + first, counts_ + first);
    }
    for (int lane = 0; lane < panel_.width; ++lane) set_errors(lane);
    for (int block = 0; block < blocks() && !is_b_; ++block) {
      kernels_.interleave(
          kTileLanes, kTileLanes,
          reinterpret_cast<const std::uint32_t*>(tiles_ + block * kTileWords), kTileLanes,
          reinterpret_cast<std::uint32_t*>(panel_.data) + block * kTileWords / 2, kTileLanes);
    }
  }

 private:
  int blocks() const { return static_cast<int>(k_block_.blocks()); }
  int halves() const { return is_b_ ? 2 : 1; }

  void read_k_vectors() {
    static_assert(kMaxBf16K / kBlock <= BlockScales::kMax);
    for (int lane = 0; lane < panel_.width; ++lane) {
      BlockScales scales;
      read_scales(product_.form, factor_, panel_.first + lane, k_block_.start, blocks(), scales);
      top_[lane] = scales.top;
      if (scales.nan) tally_.specials |= 1u << lane;
      for (int b = 0; b < blocks(); ++b) {
        far_ = far_ || (!scales.nan && scales.shift[b] > kMaxBf16Shift);
        shift_[b][lane] = std::min<std::uint8_t>(scales.shift[b], kMaxBf16Shift);
      }
      panel_.bound[lane].nan = scales.nan;
    }
  }

  void encode() {
    const auto* codes = static_cast<const std::uint8_t*>(factor_.codes.data) + factor_.start +
                        panel_.first + k_block_.start * factor_.step;
    avx512_encode_bf16(table_, codes, factor_.step, panel_.width, halves(), blocks(), shift_,
                       tiles_, tally_);
  }

  void mark_specials() {
    panel_.specials = tally_.specials;
    for (std::uint32_t left = tally_.specials; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      panel_.bound[lane].special = true;
      panel_.bound[lane].nan = panel_.bound[lane].nan || has_nan(lane);
    }
  }

  bool has_nan(int lane) const {
    const float* values = code_values(factor_.codes.dtype);
    const auto* codes = static_cast<const std::uint8_t*>(factor_.codes.data) + factor_.start +
                        panel_.first + lane + k_block_.start * factor_.step;
    for (Index c = 0; c < k_block_.count; ++c) {
      if (std::isnan(values[codes[c * factor_.step]])) return true;
    }
    return false;
  }

  /// docs/exact_product.md, "Sums rounded in binary32".
  void bound(int lane) {
    small_[lane] = 0;
    panel_.unit[lane] = power_f64(top_[lane]);
    if ((tally_.specials >> lane & 1u) != 0 || tally_.min_magnitude[lane] == 0xFFFF) return;
    const auto norm_of = [](float squares) {
      return std::sqrt(static_cast<double>(squares)) * (1.0 + 0x1p-10);
    };
    const double of_block = norm_of(tally_.max_squares[lane]);
    place_[lane] = place_of_blocks(of_block);
    const int field = place_[lane] + table_.mantissa_bits + 127;
    small_[lane] = static_cast<std::uint16_t>(std::max(field, 1) << 7);
    KVectorBound& bound = panel_.bound[lane];
    const double scaled = norm_of(tally_.squares[lane]) * panel_.unit[lane];
    bound.norm2 = scaled * scaled;
    bound.quantum =
        (tally_.min_magnitude[lane] + 1) / 128 - 127 - table_.mantissa_bits + top_[lane];
    bound.roundings = static_cast<double>(k_block_.count) + 8;
    if (bound.quantum < kMinQuantum || scaled > kMaxNorm || far_) {
      panel_.residual_overflow = true;
      if (far_) bound.quantum = kFarQuantum;
    }
  }

  void set_errors(int lane) {
    if (small_[lane] == 0) return;
    const double place = power_f64(place_[lane]);
    panel_.errors.add_k_vector(lane, top_[lane], counts_[lane] * place, place);
  }

  const Kernels& kernels_;
  const Product& product_;
  const Factor& factor_;
  const KBlock& k_block_;
  MicroPanel& panel_;
  const Bf16Table& table_;
  bool is_b_;
  std::uint16_t* tiles_;
  bool far_ = false;  ///< some K-vector's scales lie too far apart
  Bf16Tally tally_;
  int top_[kMaxNr];
  int place_[kMaxNr];  ///< exponent of the last place of a sum of two such K-vectors
  std::uint8_t shift_[BlockScales::kMax][kMaxNr] = {};
  /// Elements below this word may lose bits in sums; counts_ is how many there are.
  alignas(64) std::uint16_t small_[kMaxNr] = {};
  alignas(64) std::uint16_t counts_[kMaxNr] = {};
};

}  // namespace

void pack_bf16(const Kernels& kernels, const Product& product, const Factor& factor,
               const KBlock& k_block, MicroPanel& panel, PackScratch& scratch) {
  Bf16Packer(kernels, product, factor, k_block, panel, scratch).pack();
}

}  // namespace mxo::cpu

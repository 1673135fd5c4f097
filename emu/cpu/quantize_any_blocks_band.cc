// The quantiser of one band in any type of x: which kernels a rule takes, and its short blocks.
#include "emu/cpu/quantize_any_blocks_band.h"

#include "emu/reference/elements.h"

namespace mxo::cpu {
namespace {

constexpr Index kManyBlocks = Index{1} << 14;     // from which on tables are worth filling
constexpr Index kStreamedCodes = Index{4} << 20;  // results larger than this leave the caches

template <typename X, FormatSpec S>
void write_elements(const void* x, Index count, const float* factors, Index step,
                    const ElementLoop& loop, std::uint8_t* codes) {
  const auto* from = static_cast<const X*>(x);
  for (Index i = 0; i < count; ++i) {
    const float v = scaled(to_float(from[i]), factors[i * step], loop.how);
    codes[i] = encode_element<S>(v, loop.rule).bits;
  }
}

template <FormatSpec S>
float choose_e8m0(std::uint32_t amax, const ScaleRule& rule, float, std::byte* stored) {
  const E8M0 scale = shared_scale<S>(bit_cast<float>(amax), rule.mode, rule.e8m0);
  *stored = static_cast<std::byte>(scale.bits);
  return factor_of(scale, bit_cast<float>(amax), rule.e8m0);
}

template <FormatSpec S>
float choose_f32(std::uint32_t amax, const ScaleRule& rule, float input_max, std::byte* stored) {
  const F32Scale scale = f32_scale<S>(bit_cast<float>(amax), rule.f32, input_max);
  *reinterpret_cast<float*>(stored) = scale.stored;
  return scale.factor;
}

float input_max_of(Dtype x) {
  return x == Dtype::f32    ? largest_finite<float>()
         : x == Dtype::bf16 ? largest_finite<BF16>()
                            : largest_finite<F16>();
}

}  // namespace

BandQuantizer::BandQuantizer(const Quantize& op, const EncodeKernels& codec)
    : input_(codec.input[input_index(op.x.dtype)]),
      x_bytes_(size_of(op.x.dtype)),
      scale_bytes_(static_cast<Index>(size_of(op.to.scales.dtype))),
      input_max_(input_max_of(op.x.dtype)),
      rule_(op.rule) {
  const bool mx = op.to.scales.dtype == Dtype::e8m0;
  nan_ = mx ? op.rule.e8m0.nan : op.rule.f32.nan;
  elements_.how = mx ? CodeScaling::multiply : op.rule.f32.code;
  elements_.rule = op.rule.element;
  const bool divides = !mx && op.rule.f32.code == CodeScaling::divide;
  const bool in_f32 = divides || multiplies_in_f32(elements_.how);  // what kernels compute
  rounds_even_ =
      in_f32 && elements_.rule.rounding == Rounding::even && elements_.rule.zero == ZeroSign::kept;
  usual_ = elements_.rule == ElementRule{};
  const QuantizeKernels& kernels =
      codec.quantize[format_index(op.to.codes.dtype)][input_index(op.x.dtype)];
  rounded_ = codec.quantize[format_index(op.to.codes.dtype)][0].scale_run;
  goes_away_ = elements_.rule.rounding == Rounding::ties_away && in_f32 && !divides;
  run_ = divides ? kernels.divide_run : kernels.scale_run;
  divides_ = divides;
  if (op.x.dtype == Dtype::bf16 && codec.words != nullptr && (rounds_even_ || goes_away_)) {
    words_ = &codec.words[format_index(op.to.codes.dtype)];
    const bool signed_zero = elements_.rule.zero == ZeroSign::kept;
    word_rule_ = divides        ? WordRule::divide
                 : rounds_even_ ? WordRule::multiply
                 : signed_zero  ? WordRule::ties_away
                                : WordRule::ties_away_unsigned_zero;
    streams_ = op.x.elements() >= kStreamedCodes;
    if (op.to.scales.elements() >= kManyBlocks) table_.emplace();
  }
  by_column_ = divides ? kernels.divide_columns : kernels.scale_columns;
  visit_minifloat8(op.to.codes.dtype, [&](auto tag) {
    constexpr FormatSpec kSpec = decltype(tag)::type::spec;
    choose_ = mx ? choose_e8m0<kSpec> : choose_f32<kSpec>;
    // Kernels saturate; what turns NaN instead lies half a step, 2^-m of it, above the largest.
    constexpr auto kLargest = static_cast<std::uint8_t>(kSpec.max_finite());
    const bool clamps = elements_.rule.fnuz_max > 0;
    const float largest =
        clamps ? static_cast<float>(elements_.rule.fnuz_max) : decode(Minifloat<kSpec>{kLargest});
    const bool saturates = elements_.rule.overflow == Overflow::saturate && !clamps;
    in_range_ = saturates ? largest_finite<float>() : largest * (1.0f + 0x1p-6f);
    visit_wide_float(op.x.dtype, [&](auto wide) {
      using X = typename decltype(wide)::type;
      elements_.run = write_elements<X, kSpec>;
      short_amax_ = amax_of_run<X>;
      off_ties_ = scale_off_ties<X>;
    });
    if (!mx || op.to.scales.elements() < kManyBlocks) return;
    steps_ = std::make_unique<const ScaleSteps>([&](std::uint32_t amax) {
      return shared_scale<kSpec>(bit_cast<float>(amax), rule_.mode, rule_.e8m0).bits;
    });
  });
}

/// Blocks of a few neighbours: their factors side by side, and one pass over the row.
void BandQuantizer::short_blocks(const Band& band) const {
  for (Index k = 0; k < band.columns; k += kPanelColumns / band.width * band.width) {
    const Index count = std::min(kPanelColumns / band.width * band.width, band.columns - k);
    float factors[kPanelColumns];
    const std::byte* x = band.x.data + k * static_cast<Index>(x_bytes_);
    bool in_range = true;
    for (Index at = 0; at < count; at += band.width) {
      const Index n = std::min(band.width, count - at);
      const std::uint32_t seen = short_amax_(x + at * static_cast<Index>(x_bytes_), n);
      const Index block = (k + at) / band.width;
      float factor = 0.0f;
      if (steps_ != nullptr && seen < 0x7F800000u) {
        const E8M0 scale{(*steps_)(seen)};
        band.scales[block * band.scale_stride] = static_cast<std::byte>(scale.bits);
        factor = factor_of(scale, rule_.e8m0.infinity);
      } else {
        const bool again = is_nan_word(seen) && nan_ == NanRule::ignore;
        const std::uint32_t ruled = again ? amax_under(nan_, band, k + at, n) : seen;
        factor = choose({ruled, seen}, band, block).factor;
      }
      in_range = in_range && (usual_ || ordinary(seen, factor));
      std::fill_n(factors + at, n, factor);
    }
    auto* codes = reinterpret_cast<std::uint8_t*>(band.codes.data + k);
    if (in_range && rounds_even_) {
      by_column_(x, count, factors, codes);
    } else if (in_range && goes_away_) {
      float v[kPanelColumns];
      off_ties_(x, count, factors, elements_.rule.zero, v);
      rounded_(v, count, 1.0f, codes);
    } else {
      elements_.run(x, count, factors, 1, elements_, codes);
    }
  }
}

void BandQuantizer::one_scale_per_column(const Band& band) const {
  for (Index k = 0; k < band.columns; k += kPanelColumns) {
    one_scale_per_column(band, k, std::min(kPanelColumns, band.columns - k));
  }
}
void BandQuantizer::one_scale_per_column(const Band& band, Index k, Index count) const {
  std::uint32_t amax[kPanelColumns] = {};
  std::uint32_t seen[kPanelColumns] = {};
  float factors[kPanelColumns];
  for_runs(band, k, count, [&](Index, Index, Index n, const void* x) {
    input_.amax_columns(x, n, nan_, amax);
    if (!usual_) input_.amax_columns(x, n, NanRule::propagate, seen);
  });
  bool by_kernel = true;
  for (Index i = 0; i < count; ++i) {
    const Chosen chosen = choose({amax[i], seen[i]}, band, k + i);
    factors[i] = chosen.factor;
    by_kernel = by_kernel && chosen.by_kernel;
  }
  for_runs(band, k, count, [&](Index r, Index at, Index n, const void* x) {
    write_codes(band, r, at, n, [&](std::uint8_t* codes) {
      if (by_kernel) return by_column_(x, n, factors, codes);
      elements_.run(x, n, factors, 1, elements_, codes);
    });
  });
}

}  // namespace mxo::cpu

// Quantisers of blocks of any extents: bands of rows over threads, kernels over their rows.
#include "emu/cpu/quantize_bands.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "emu/cpu/bands.h"
#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/short_blocks.h"
#include "emu/reference/elements.h"

namespace mxo::cpu {
namespace {

/// x of `count` neighbours, scaled by factors[i * step], as codes: the definition.
struct ElementLoop {
  CodeScaling how;
  ElementRule rule;
  void (*run)(const void* x, Index count, const float* factors, Index step, const ElementLoop& loop,
              std::uint8_t* codes);
};

template <typename X, FormatSpec S>
void write_elements(const void* x, Index count, const float* factors, Index step,
                    const ElementLoop& loop, std::uint8_t* codes) {
  const auto* from = static_cast<const X*>(x);
  for (Index i = 0; i < count; ++i) {
    const float v = scaled(to_float(from[i]), factors[i * step], loop.how);
    codes[i] = encode_element<S>(v, loop.rule).bits;
  }
}

/// What x is multiplied or divided by.
using ChooseScale = float (*)(std::uint32_t amax, const ScaleRule& rule, float input_max,
                              std::byte* stored);

template <FormatSpec S>
float choose_e8m0(std::uint32_t amax, const ScaleRule& rule, float, std::byte* stored) {
  const E8M0 scale = shared_scale<S>(bit_cast<float>(amax), rule.mode, rule.e8m0);
  *stored = static_cast<std::byte>(scale.bits);
  return factor_of(scale, rule.e8m0.infinity);
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

constexpr Index kShortBlock = 64;              // of one row: scaled with their neighbours
constexpr Index kManyBlocks = Index{1} << 14;  // from which on steps are worth finding

/// What every band of one call shares.
class BandQuantizer {
 public:
  BandQuantizer(const Quantize& op, const EncodeKernels& codec)
      : input_(codec.input[input_index(op.x.dtype)]),
        x_bytes_(size_of(op.x.dtype)),
        scale_bytes_(static_cast<Index>(size_of(op.to.scales.dtype))),
        input_max_(input_max_of(op.x.dtype)),
        rule_(op.rule) {
    const bool mx = op.to.scales.dtype == Dtype::e8m0;
    nan_ = mx ? op.rule.e8m0.nan : op.rule.f32.nan;
    elements_.how = mx ? CodeScaling::multiply : op.rule.f32.code;
    elements_.rule = op.rule.element;
    rounds_even_ =
        elements_.rule.rounding == Rounding::even && elements_.rule.zero == ZeroSign::kept;
    usual_ = elements_.rule == ElementRule{};
    const QuantizeKernels& kernels =
        codec.quantize[format_index(op.to.codes.dtype)][input_index(op.x.dtype)];
    const bool divides = !mx && op.rule.f32.code == CodeScaling::divide;
    rounded_ = codec.quantize[format_index(op.to.codes.dtype)][0].scale_run;
    goes_away_ = elements_.rule.rounding == Rounding::ties_away && !divides;
    run_ = divides ? kernels.divide_run : kernels.scale_run;
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

  void operator()(const Band& band) const {
    if (band.columns == 0) {  // a row without elements still has its scale
      choose({}, band, 0);
      return;
    }
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
    const NanRule first = usual_ ? nan_ : NanRule::propagate;
    Amax amax;
    if (usual_ && band.given != nullptr) return amax;
    amax.seen = amax_under(first, band, k, count);
    const bool again = first != nan_ && is_nan_word(amax.seen);
    amax.ruled = again ? amax_under(nan_, band, k, count) : amax.seen;
    return amax;
  }

  /// What a block is scaled by, and whether kernels give its codes.
  struct Chosen {
    float factor;
    bool by_kernel;
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
    return {factor, usual_ || (rounds_even_ && ordinary(amax.seen, factor))};
  }

  void write_block(const Band& band, Index k, Index count, const Chosen& chosen) const {
    for_runs(band, k, count, [&](Index r, Index at, Index n, const void* x) {
      write_codes(band, r, at, n, [&](std::uint8_t* codes) {
        if (chosen.by_kernel) return run_(x, n, chosen.factor, codes);
        elements_.run(x, n, &chosen.factor, 0, elements_, codes);
      });
    });
  }

 private:
  std::uint32_t amax_under(NanRule nan, const Band& band, Index k, Index count) const {
    std::uint32_t amax = 0;
    for_runs(band, k, count,
             [&](Index, Index, Index n, const void* x) { amax = input_.amax(x, n, amax, nan); });
    return amax;
  }

  /// True if no element is NaN, infinite or beyond what kernels saturate after scaling.
  bool ordinary(std::uint32_t amax, float factor) const {
    return scaled(bit_cast<float>(amax), factor, elements_.how) <= in_range_;
  }

  /// Blocks of a few neighbours: their factors side by side, and one pass over the row.
  void short_blocks(const Band& band) const {
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

  void one_scale_per_column(const Band& band) const {
    for (Index k = 0; k < band.columns; k += kPanelColumns) {
      const Index count = std::min(kPanelColumns, band.columns - k);
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
  }

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
          copy_tile({x, 0, band.x.stride_k}, {copy, 0, 1}, 1, n, x_bytes_);
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
    copy_tile({copy, 0, 1}, {codes, 0, band.codes.stride_k}, 1, n, 1);
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
  float in_range_ = 0.0f;
  std::uint32_t (*short_amax_)(const void*, Index) = nullptr;
  void (*off_ties_)(const void*, Index, const float*, ZeroSign, float*) = nullptr;
  void (*rounded_)(const void*, Index, float, std::uint8_t*) noexcept = nullptr;
  std::unique_ptr<const ScaleSteps> steps_;
  void (*run_)(const void*, Index, float, std::uint8_t*) noexcept = nullptr;
  void (*by_column_)(const void*, Index, const float*, std::uint8_t*) noexcept = nullptr;
  ChooseScale choose_ = nullptr;
};

/// Few blocks of many rows: threads share each block, first for its amax, then for its codes.
void quantize_in_slices(const BandQuantizer& quantize, const Band& block, Index x_bytes,
                        int threads) {
  constexpr Index kSliceRows = 16;
  const Index slices = ceil_div(block.rows, kSliceRows);
  const auto slice = [&](Index i) {
    Band part = block;
    const Index r = i * kSliceRows;
    part.x.data += r * block.x.stride_r * x_bytes;
    part.codes.data += r * block.codes.stride_r;
    part.rows = std::min(kSliceRows, block.rows - r);
    return part;
  };
  std::uint32_t ruled = 0;
  std::uint32_t seen = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max            \
                                                                         : ruled, seen) \
    firstprivate(ieee_thread)
  for (Index i = 0; i < slices; ++i) {
    const auto amax = quantize.amax_of(slice(i), 0, block.columns);
    ruled = std::max(ruled, amax.ruled);
    seen = std::max(seen, amax.seen);
  }
  const auto chosen = quantize.choose({ruled, seen}, block, 0);
#pragma omp parallel for num_threads(threads) schedule(static) firstprivate(ieee_thread)
  for (Index i = 0; i < slices; ++i) quantize.write_block(slice(i), 0, block.columns, chosen);
}

}  // namespace

void quantize_bands(const Quantize& op, const EncodeKernels& codec, int threads) {
  const BandQuantizer quantize(op, codec);
  const BandPlan plan(plane_of(op.x), plane_of(op.to.codes), plane_of(op.to.scales),
                      op.given.given() ? plane_of(op.given) : Plane{}, op.group_ends, op.to.block);
  const Index tasks = plan.tasks();
  if (tasks < threads && plan.chunks == 1 && plan.chunk == plan.width && plan.width > 1) {
    for (Index i = 0; i < tasks; ++i)
      quantize_in_slices(quantize, plan.band(i), plan.x.element_bytes, threads);
    return;
  }
#pragma omp parallel for num_threads(team_of(tasks, threads)) schedule(static) \
    firstprivate(ieee_thread)
  for (Index i = 0; i < tasks; ++i) quantize(plan.band(i));
}

}  // namespace mxo::cpu

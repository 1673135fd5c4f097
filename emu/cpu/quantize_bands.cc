// Quantisers of blocks of any extents: bands of rows over threads, kernels over their rows.
#include "emu/cpu/quantize_bands.h"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/mx_plan.h"
#include "emu/reference/block_rows.h"
#include "emu/reference/elements.h"

namespace mxo::cpu {
namespace {

/// Rows that share scales, and the columns of one task.  A block of the band is `width` columns
/// by all its rows; its scale lies at scales + block * scale_stride, in elements.
struct Band {
  Tile<std::byte> x;
  Tile<std::byte> codes;
  Index rows;
  Index columns;
  Index width;
  std::byte* scales;
  Index scale_stride;
  const float* given = nullptr;  ///< of the first block; null where amax decides
  Index given_stride = 0;
};

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

/// What every band of one call shares.
class BandQuantizer {
 public:
  BandQuantizer(const Quantize& op, const CodecKernels& codec)
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
    run_ = divides ? kernels.divide_run : kernels.scale_run;
    by_column_ = divides ? kernels.divide_columns : kernels.scale_columns;
    visit_minifloat8(op.to.codes.dtype, [&](auto tag) {
      constexpr FormatSpec kSpec = decltype(tag)::type::spec;
      choose_ = mx ? choose_e8m0<kSpec> : choose_f32<kSpec>;
      // Between the largest value and what overflows to NaN there is half a step, 2^-m of it.
      constexpr auto kLargest = static_cast<std::uint8_t>(kSpec.max_finite());
      const bool clamps = elements_.rule.fnuz_max > 0;
      const float largest =
          clamps ? static_cast<float>(elements_.rule.fnuz_max) : decode(Minifloat<kSpec>{kLargest});
      in_range_ = largest * (1.0f + 0x1p-6f);
      visit_wide_float(op.x.dtype, [&](auto wide) {
        elements_.run = write_elements<typename decltype(wide)::type, kSpec>;
      });
    });
  }

  void operator()(const Band& band) const {
    if (band.columns == 0) {  // a row without elements still has its scale
      choose({}, band, 0);
      return;
    }
    if (band.width == 1) return one_scale_per_column(band);
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

  /// True if no element is NaN, infinite or beyond the largest code after scaling.
  bool ordinary(std::uint32_t amax, float factor) const {
    return scaled(bit_cast<float>(amax), factor, elements_.how) <= in_range_;
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
  bool usual_ = true;  ///< the element rule is the kernels' own
  float in_range_ = 0.0f;
  void (*run_)(const void*, Index, float, std::uint8_t*) noexcept = nullptr;
  void (*by_column_)(const void*, Index, const float*, std::uint8_t*) noexcept = nullptr;
  ChooseScale choose_ = nullptr;
};

int team_of(Index tasks, int threads) {
  return static_cast<int>(std::clamp<Index>(tasks, 1, threads));
}

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

/// x, codes and scales of one call, its bands, and how columns are cut.
struct BandPlan {
  Plane x;
  Plane codes;
  Plane scales;
  Plane given;
  Index width;  ///< of a block
  std::vector<BlockRows> bands;
  Index chunk;  ///< columns of a task: whole blocks
  Index chunks;

  BandPlan(Plane wide, Plane small, Plane shared, Plane told, const Operand& group_ends,
           const BlockExtents& block)
      : x(wide),
        codes(small),
        scales(shared),
        given(told),
        width(mxo::block_columns(block, wide.extent[2])),
        bands(block_rows(group_ends, wide.extent[1], block.rows)),
        chunk(std::max(width, kPanelColumns / width * width)) {
    const bool empty_row = wide.extent[2] == 0 && block.columns == kWhole;
    chunks = empty_row ? 1 : ceil_div(wide.extent[2], chunk);
  }
  /// Cuts bands into fewer rows each, where a band need not be seen whole.
  void slice(Index rows) {
    std::vector<BlockRows> slices;
    for (const BlockRows& band : bands) {
      for (Index r = band.first; r < band.end; r += rows) {
        slices.push_back({r, std::min(r + rows, band.end), band.scales});
      }
    }
    bands = std::move(slices);
  }
  Index tasks() const { return x.extent[0] * static_cast<Index>(bands.size()) * chunks; }
  Band band(Index task) const {
    const Index k = task % chunks * chunk;
    const auto count = static_cast<Index>(bands.size());
    const BlockRows& rows = bands[static_cast<std::size_t>(task / chunks % count)];
    const Index e = task / chunks / count;
    return {x.at(e, rows.first, k),
            codes.at(e, rows.first, k),
            rows.end - rows.first,
            std::min(chunk, x.extent[2] - k),
            width,
            scales.at(e, rows.scales, k / width).data,
            scales.stride[2],
            given.data == nullptr
                ? nullptr
                : reinterpret_cast<const float*>(given.at(e, rows.scales, k / width).data),
            given.stride[2]};
  }
};

}  // namespace

void quantize_bands(const Quantize& op, const CodecKernels& codec, int threads) {
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

namespace {

/// True where code * scale is a normal float or zero, exactly: then its rounding is the only one.
bool exact_in_f32(float scale) {
  const auto word = bit_cast<std::uint32_t>(scale);
  const std::uint32_t field = word >> 23;
  return (word & 0x7FFFFFu) == 0 && field > 60 && field < 200;
}

template <typename X, typename Code>
void decode_rounding_once(const std::uint8_t* codes, Index n, const float* scales, void* x) {
  for (Index i = 0; i < n; ++i) {
    static_cast<X*>(x)[i] = dequantize_element<X>(Code{codes[i]}, scales[i]);
  }
}

}  // namespace

void dequantize_bands(const Dequantize& op, const CodecKernels& codec, int threads) {
  constexpr Index kSliceRows = 64;
  BandPlan plan(plane_of(op.x), plane_of(op.from.codes), plane_of(op.from.scales), Plane{},
                op.group_ends, op.from.block);
  plan.slice(kSliceRows);
  const DecodeKernels& kernels =
      codec.decode[format_index(op.from.codes.dtype)][input_index(op.x.dtype)];
  const bool mx = op.from.scales.dtype == Dtype::e8m0;
  const bool rounds_twice = !mx && op.x.dtype != Dtype::f32;
  void (*once)(const std::uint8_t*, Index, const float*, void*) = nullptr;
  visit_minifloat8(op.from.codes.dtype, [&](auto tag) {
    once = decode_rounding_once<BF16, typename decltype(tag)::type>;
  });
  const auto size = static_cast<Index>(size_of(op.x.dtype));
  const Index tasks = plan.tasks();
#pragma omp parallel for num_threads(team_of(tasks, threads)) schedule(static) \
    firstprivate(ieee_thread)
  for (Index i = 0; i < tasks; ++i) {
    const Band band = plan.band(i);
    alignas(64) std::byte codes_copy[kPanelColumns];
    alignas(64) std::byte x_copy[kPanelColumns * 4];
    float scales[kPanelColumns];
    for (Index k = 0; k < band.columns; k += kPanelColumns) {
      const Index n = std::min(kPanelColumns, band.columns - k);
      bool exact = true;
      for (Index j = 0; j < n; ++j) {
        const std::byte* stored =
            band.scales + (k + j) / band.width * band.scale_stride * (mx ? 1 : 4);
        scales[j] = mx ? decode(E8M0{static_cast<std::uint8_t>(*stored)})
                       : *reinterpret_cast<const float*>(stored);
        exact = exact && exact_in_f32(scales[j]);
      }
      const auto decode_row = rounds_twice && !exact ? once : kernels.columns;
      for (Index r = 0; r < band.rows; ++r) {
        std::byte* x = band.x.data + (r * band.x.stride_r + k * band.x.stride_k) * size;
        const std::byte* codes =
            band.codes.data + r * band.codes.stride_r + k * band.codes.stride_k;
        if (band.codes.stride_k != 1) {
          copy_tile({codes, 0, band.codes.stride_k}, {codes_copy, 0, 1}, 1, n, 1);
          codes = codes_copy;
        }
        std::byte* to = band.x.stride_k == 1 ? x : x_copy;
        decode_row(reinterpret_cast<const std::uint8_t*>(codes), n, scales, to);
        if (to == x_copy) {
          copy_tile({x_copy, 0, 1}, {x, 0, band.x.stride_k}, 1, n, static_cast<std::size_t>(size));
        }
      }
    }
  }
}

}  // namespace mxo::cpu

// quantize_rowwise and quantize_blockwise: bands of rows over threads, kernels over their rows.
#include "ops/quantize_f32_scales.h"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/mx_plan.h"
#include "emu/reference/elements.h"

namespace mxo::cpu {
namespace {

/// Rows that share scales, and the columns of one task.  A block of the band is `width` columns
/// by all its rows; its scale lies at scales + block * scale_stride.
struct Band {
  Tile<std::byte> x;
  Tile<std::byte> codes;
  Index rows;
  Index columns;
  Index width;
  float* scales;
  Index scale_stride;
};

/// What every band of one call shares.
class BandQuantizer {
 public:
  BandQuantizer(const CodecKernels& kernels, Dtype x, Dtype codes, const F32ScaleRule& rule)
      : input_(kernels.input[input_index(x)]),
        quantize_(kernels.quantize[format_index(codes)][input_index(x)]),
        x_bytes_(size_of(x)),
        rule_(rule) {
    const float top = x == Dtype::f32 ? largest_finite<float>() : largest_finite<BF16>();
    visit_minifloat8(codes, [&](auto tag) {
      scale_of_ = f32_scale<decltype(tag)::type::spec>;
      input_max_ = top;
    });
  }

  void operator()(const Band& band) const {
    if (band.width == 1) return one_scale_per_column(band);
    for (Index k = 0; k < band.columns; k += band.width) {
      const Index count = std::min(band.width, band.columns - k);
      std::uint32_t amax = 0;
      for_runs(band, k, count, [&](Index, Index, Index n, const void* x) {
        amax = input_.amax(x, n, amax, rule_.nan());
      });
      const F32Scale scale = scale_of(amax);
      band.scales[k / band.width * band.scale_stride] = scale.stored;
      for_runs(band, k, count, [&](Index r, Index at, Index n, const void* x) {
        write_codes(band, r, at, n, [&](std::uint8_t* codes) {
          quantize_.scale_run(x, n, scale.multiplier, codes);
        });
      });
    }
    // A row without elements still has its scale.
    if (band.columns == 0) *band.scales = scale_of(0).stored;
  }

 private:
  void one_scale_per_column(const Band& band) const {
    for (Index k = 0; k < band.columns; k += kPanelColumns) {
      const Index count = std::min(kPanelColumns, band.columns - k);
      std::uint32_t amax[kPanelColumns] = {};
      float multipliers[kPanelColumns];
      for_runs(band, k, count, [&](Index, Index, Index n, const void* x) {
        input_.amax_columns(x, n, rule_.nan(), amax);
      });
      for (Index i = 0; i < count; ++i) {
        const F32Scale scale = scale_of(amax[i]);
        multipliers[i] = scale.multiplier;
        band.scales[(k + i) * band.scale_stride] = scale.stored;
      }
      for_runs(band, k, count, [&](Index r, Index at, Index n, const void* x) {
        write_codes(band, r, at, n, [&](std::uint8_t* codes) {
          quantize_.scale_columns(x, n, multipliers, codes);
        });
      });
    }
  }

  F32Scale scale_of(std::uint32_t amax) const {
    return scale_of_(bit_cast<float>(amax), rule_, input_max_);
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
  const QuantizeKernels& quantize_;
  std::size_t x_bytes_;
  F32ScaleRule rule_;
  float input_max_ = 0;
  F32Scale (*scale_of_)(float, const F32ScaleRule&, float) = nullptr;
};

/// First row, past the last, and the row of scales of each band of one matrix.
struct Rows {
  Index first, past, scale_row;
};

std::vector<Rows> rows_of_groups(const Operand& group_ends, Index height) {
  const auto ends = group_ends.as<const std::int32_t, 1>();
  std::vector<Rows> bands;
  Index start = 0;
  for (Index g = 0; g < ends.extent[0]; ++g) {
    const Index end = ends(g);
    // Height 0: the whole group is one band, empty or not.
    if (height == 0) bands.push_back({start, end, g});
    for (Index r = start; height > 0 && r < end; r += height) {
      bands.push_back({r, std::min(r + height, end), static_cast<Index>(bands.size())});
    }
    start = end;
  }
  return bands;
}

/// Runs bands x chunks of columns over threads.
void quantize_bands(const BandQuantizer& quantize, const std::vector<Rows>& bands, const Plane& x,
                    const Plane& codes, const Plane& scales, Index width, int threads) {
  constexpr Index kChunkColumns = kPanelColumns;  // a multiple of every block width
  const Index experts = x.extent[0];
  const auto count = static_cast<Index>(bands.size());
  const Index chunks = ceil_div(x.extent[2], kChunkColumns);
  const Index tasks = experts * count * chunks;
  const auto team = static_cast<int>(std::clamp<Index>(tasks, 1, threads));
#pragma omp parallel for num_threads(team) schedule(static) firstprivate(ieee_thread)
  for (Index i = 0; i < tasks; ++i) {
    const Index k = i % chunks * kChunkColumns;
    const Rows& rows = bands[static_cast<std::size_t>(i / chunks % count)];
    const Index e = i / chunks / count;
    quantize({x.at(e, rows.first, k), codes.at(e, rows.first, k), rows.past - rows.first,
              std::min(kChunkColumns, x.extent[2] - k), width,
              reinterpret_cast<float*>(scales.at(e, rows.scale_row, k / width).data),
              scales.stride[2]});
  }
}

}  // namespace

void CpuBackend::run(const QuantizeRowwise& op) {
  const BandQuantizer quantize(codec_kernels(isa()), op.x.dtype, op.codes.dtype, op.rule);
  if (op.axis == BlockAxis::rows) {
    quantize_bands(quantize, rows_of_groups(op.group_ends, 0), plane_of(op.x), plane_of(op.codes),
                   plane_of(op.scales), 1, threads());
    return;
  }
  const int last = op.x.rank - 1;
  const Index width = op.x.extent[last];
  const Index rows = op.scales.elements();
  auto* x = static_cast<std::byte*>(const_cast<void*>(op.x.data));
  auto* codes = static_cast<std::byte*>(op.codes.data);
  auto* scales = static_cast<float*>(op.scales.data);
  const auto size = static_cast<Index>(size_of(op.x.dtype));
  const auto team = static_cast<int>(std::clamp<Index>(rows, 1, threads()));
#pragma omp parallel for num_threads(team) schedule(static) firstprivate(ieee_thread)
  for (Index i = 0; i < rows; ++i) {
    const Index first = width > 0 ? i * width : 0;
    quantize({{x + (width > 0 ? offset_of(op.x, first) : 0) * size, 0, op.x.stride[last]},
              {codes + (width > 0 ? offset_of(op.codes, first) : 0), 0, op.codes.stride[last]},
              1,
              width,
              std::max<Index>(width, 2),
              scales + offset_of(op.scales, i),
              0});
  }
}

void CpuBackend::run(const QuantizeBlockwise& op) {
  const BandQuantizer quantize(codec_kernels(isa()), op.x.dtype, op.codes.dtype, op.rule);
  const Plane x = plane_of(op.x);
  const Index height = block_rows(op.block);
  std::vector<Rows> bands;
  if (op.group_ends.given()) {
    bands = rows_of_groups(op.group_ends, height);
  } else {
    for (Index r = 0; r < x.extent[1]; r += height) {
      bands.push_back({r, std::min(r + height, x.extent[1]), r / height});
    }
  }
  quantize_bands(quantize, bands, x, plane_of(op.codes), plane_of(op.scales),
                 block_columns(op.block), threads());
}

}  // namespace mxo::cpu

// Dequantising blocks of any extents: bands of rows over threads, kernels over their rows.
#include <algorithm>

#include "emu/cpu/bands.h"
#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/quantize_any_blocks.h"
#include "emu/reference/elements.h"

namespace mxo::cpu {
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

void dequantize_any_blocks(const Dequantize& op, const DecodeKernels& codec, int threads) {
  constexpr Index kSliceRows = 64;
  BandPlan plan(plane_of(op.x), plane_of(op.from.codes), plane_of(op.from.scales), Plane{},
                op.group_ends, op.from.block);
  plan.slice(kSliceRows);
  const DecodeKernel& kernels =
      codec.to[format_index(op.from.codes.dtype)][input_index(op.x.dtype)];
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
          copy_row(codes, band.codes.stride_k, codes_copy, 1, n, 1);
          codes = codes_copy;
        }
        std::byte* to = band.x.stride_k == 1 ? x : x_copy;
        decode_row(reinterpret_cast<const std::uint8_t*>(codes), n, scales, to);
        if (to == x_copy) {
          copy_row(x_copy, 1, x, band.x.stride_k, n, static_cast<std::size_t>(size));
        }
      }
    }
  }
}

}  // namespace mxo::cpu

// Whole rows or columns that share an f32 scale: a row at a time, or the columns of each group.
#include "emu/cuda/canonical.cuh"
#include "emu/cuda/element_cast.cuh"
#include "emu/cuda/group_ends.cuh"
#include "emu/cuda/quantize.cuh"
#include "emu/cuda/quantize_kernels.cuh"
#include "emu/reference/elements.h"

namespace mxo::cuda {
namespace {

struct RowRule {
  F32ScaleRule rule;
  float input_max;
};

/// The multiplier of the row from the magnitudes of its threads; the scale goes to stored().
template <typename Code, int Threads, typename Stored>
__device__ float row_multiplier(std::uint32_t amax, const RowRule& how, Stored stored) {
  __shared__ std::uint32_t top[Threads / 32];
  __shared__ F32Scale scale;
  amax = __reduce_max_sync(0xFFFFFFFFu, amax);
  if (threadIdx.x % 32 == 0) top[threadIdx.x / 32] = amax;
  __syncthreads();
  if (threadIdx.x == 0) {
#pragma unroll
    for (int w = 1; w < Threads / 32; ++w) amax = max(amax, top[w]);
    scale = f32_scale<Code::spec>(__uint_as_float(amax), how.rule, how.input_max);
  }
  __syncthreads();
  if (threadIdx.x == 32) stored() = scale.stored;  // the others do not wait for it
  return scale.factor;
}

/// Where rows lie that follow each other at one distance: 64-bit divisions in a kernel took a
/// quarter of its time.
template <typename X, typename Code>
struct Rows {
  const X* x;
  Index x_pitch;
  Code* codes;
  Index codes_pitch;
  float* scales;
  Index scales_pitch;
  Index width;
};

/// A block of threads for each row, which stays in registers; rows_aligned() operands.  Few threads
/// with much of the row each: more rows are under way while others wait for their scale.
template <int Threads, int Held, typename X, typename Code>
__global__ void __launch_bounds__(Threads)
    quantize_held_row_kernel(Rows<X, Code> rows, RowRule how) {
  constexpr int kNeighbours = 8;
  const X* from = rows.x + blockIdx.x * rows.x_pitch;
  auto* to = reinterpret_cast<std::uint8_t*>(rows.codes + blockIdx.x * rows.codes_pitch);
  Eight<X> eight[Held];
#pragma unroll
  for (int i = 0; i < Held; ++i) {
    const Index k = (i * Threads + static_cast<int>(threadIdx.x)) * kNeighbours;
    if (k < rows.width) eight[i].load(from + k);
  }
  std::uint32_t amax = 0;
#pragma unroll
  for (int i = 0; i < Held; ++i) amax = max(amax, eight[i].amax(how.rule.nan));
  const float multiplier = row_multiplier<Code, Threads>(
      amax, how, [&]() -> float& { return rows.scales[blockIdx.x * rows.scales_pitch]; });
#pragma unroll
  for (int i = 0; i < Held; ++i) {
    const Index k = (i * Threads + static_cast<int>(threadIdx.x)) * kNeighbours;
    if (k < rows.width) store_codes<Code>(eight[i], multiplier, to + k);
  }
}

/// Rows of any length and stride, read twice.
template <typename X, typename Code>
__global__ void __launch_bounds__(kThreads)
    quantize_row_kernel(Operand x, Result codes, Result scales, RowRule how) {
  __shared__ Index start_x;
  __shared__ Index start_codes;
  const int last = x.rank - 1;
  const Index width = x.extent[last];
  if (threadIdx.x == 0) {
    const Index first = blockIdx.x * width;
    start_x = width > 0 ? device_offset(x, first) : 0;  // without an element there is no first
    start_codes = width > 0 ? device_offset(codes, first) : 0;
  }
  __syncthreads();
  const X* from = static_cast<const X*>(x.data) + start_x;
  Code* to = static_cast<Code*>(codes.data) + start_codes;
  std::uint32_t amax = 0;
  for (Index k = threadIdx.x; k < width; k += kThreads) {
    amax = join_amax(amax, as_float(from[k * x.stride[last]]), how.rule.nan);
  }
  const float multiplier = row_multiplier<Code, kThreads>(amax, how, [&]() -> float& {
    return static_cast<float*>(scales.data)[device_offset(scales, blockIdx.x)];
  });
  for (Index k = threadIdx.x; k < width; k += kThreads) {
    to[k * codes.stride[last]] =
        saturated_code<Code>(as_float(from[k * x.stride[last]]) * multiplier);
  }
}

constexpr int kChunk = 64;  // rows of a block of threads, one column each

template <typename X>
__global__ void group_amax_kernel(Matrix<const X> x, Ends ends, NanRule nan, std::uint32_t* amax) {
  const Index strips = ceil_div(x.extent[1], kThreads);
  const Index k = static_cast<Index>(blockIdx.x) % strips * kThreads + threadIdx.x;
  if (k >= x.extent[1]) return;
  Index row = static_cast<Index>(blockIdx.x) / strips * kChunk;
  const Index past = min(row + kChunk, x.extent[0]);
  while (row < past) {
    const Index g = group_of(ends, row);
    if (g == ends.extent[0]) return;
    const Index end = min(past, static_cast<Index>(ends(g)));
    std::uint32_t top = 0;
    for (; row < end; ++row) top = join_amax(top, as_float(x(row, k)), nan);
    atomicMax(amax + g * x.extent[1] + k, top);
  }
}

/// amax in, the bits of the multiplier out.
template <typename Code>
__global__ void group_scale_kernel(std::uint32_t* amax, Matrix<float> scales, RowRule how) {
  const Index n = scales.extent[0] * scales.extent[1];
  const Index step = grid_threads();
  for (Index i = grid_thread(); i < n; i += step) {
    const F32Scale scale = f32_scale<Code::spec>(__uint_as_float(amax[i]), how.rule, how.input_max);
    scales(i / scales.extent[1], i % scales.extent[1]) = scale.stored;
    amax[i] = __float_as_uint(scale.factor);
  }
}

template <typename X, typename Code>
__global__ void group_encode_kernel(Matrix<const X> x, Ends ends, const std::uint32_t* multiplier,
                                    Matrix<Code> codes) {
  const Index strips = ceil_div(x.extent[1], kThreads);
  const Index k = static_cast<Index>(blockIdx.x) % strips * kThreads + threadIdx.x;
  if (k >= x.extent[1]) return;
  Index row = static_cast<Index>(blockIdx.x) / strips * kChunk;
  const Index past = min(row + kChunk, x.extent[0]);
  while (row < past) {
    const Index g = group_of(ends, row);
    if (g == ends.extent[0]) return;
    const Index end = min(past, static_cast<Index>(ends(g)));
    const float factor = __uint_as_float(multiplier[g * x.extent[1] + k]);
    for (; row < end; ++row) codes(row, k) = saturated_code<Code>(as_float(x(row, k)) * factor);
  }
}

template <typename X, typename Code>
void quantize_groups(DeviceBackend& backend, cudaStream_t stream, const Quantize& op) {
  const Index rows = op.x.extent[0];
  const Index width = op.x.extent[1];
  const Index sums = op.to.scales.elements();
  check_group_ends(backend, op.group_ends, rows);
  if (sums == 0) return;
  const auto ends = op.group_ends.as<const std::int32_t, 1>();
  const auto x = op.x.as<const X, 2>();
  const Scratch<std::uint32_t> amax(backend, sums);
  check(cudaMemsetAsync(amax.data(), 0, static_cast<std::size_t>(sums) * 4, stream),
        "cudaMemsetAsync");
  const auto blocks = static_cast<unsigned>(ceil_div(rows, kChunk) * ceil_div(width, kThreads));
  const RowRule how{op.rule.f32, largest_finite<X>()};
  if (blocks > 0) {
    group_amax_kernel<<<blocks, kThreads, 0, stream>>>(x, ends, op.rule.f32.nan, amax.data());
  }
  group_scale_kernel<Code>
      <<<blocks_for(sums), kThreads, 0, stream>>>(amax.data(), op.to.scales.as<float, 2>(), how);
  if (blocks > 0) {
    group_encode_kernel<<<blocks, kThreads, 0, stream>>>(x, ends, amax.data(),
                                                         op.to.codes.as<Code, 2>());
  }
}

}  // namespace

void quantize_whole_lines(DeviceBackend& backend, const Quantize& op) {
  cudaStream_t stream = backend.stream();
  const Index rows = op.to.scales.elements();
  const Index width = op.x.extent[op.x.rank - 1];
  const std::optional<Index> x_pitch = row_pitch(op.x);
  const std::optional<Index> codes_pitch = row_pitch(op.to.codes);
  const std::optional<Index> scales_pitch = row_pitch(op.to.scales);
  const bool whole = width > 0 && x_pitch && codes_pitch && scales_pitch &&
                     rows_aligned(op.x, 16) && rows_aligned(op.to.codes, 8);
  visit_f32_or_bf16(op.x.dtype, op.to.codes.dtype, [&](auto wide, auto code) {
    using X = typename decltype(wide)::type;
    using Code = typename decltype(code)::type;
    if (op.group_ends.given()) return quantize_groups<X, Code>(backend, stream, op);
    if (rows == 0) return;
    const auto blocks = static_cast<unsigned>(rows);
    const RowRule how{op.rule.f32, largest_finite<X>()};
    if (whole) {
      const Rows<X, Code> at{static_cast<const X*>(op.x.data),
                             *x_pitch,
                             static_cast<Code*>(op.to.codes.data),
                             *codes_pitch,
                             static_cast<float*>(op.to.scales.data),
                             *scales_pitch,
                             width};
      const auto held = [&](auto kernel, unsigned threads) {
        kernel<<<blocks, threads, 0, stream>>>(at, how);
      };
      if (width <= 64 * 32) return held(quantize_held_row_kernel<64, 4, X, Code>, 64);
      if (width <= 128 * 32) return held(quantize_held_row_kernel<128, 4, X, Code>, 128);
      if (width <= 128 * 64) return held(quantize_held_row_kernel<128, 8, X, Code>, 128);
      if (width <= 256 * 64) return held(quantize_held_row_kernel<256, 8, X, Code>, 256);
    }
    quantize_row_kernel<X, Code>
        <<<blocks, kThreads, 0, stream>>>(op.x, op.to.codes, op.to.scales, how);
  });
  check_launch("quantize");
}

}  // namespace mxo::cuda

// Quantise and dequantise of any strides, one block or element a thread; the choice of ways.
#include "emu/cuda/canonical.cuh"
#include "emu/cuda/quantize.cuh"
#include "emu/cuda/quantize_kernels.cuh"
#include "emu/reference/elements.h"

namespace mxo::cuda {
namespace {

struct BlockPlan {
  AnyRule rule;
  Index block;
  bool rows;   // blocks run along axis -2
  bool tiles;  // scales go to 128x4 tiles
  Index scale_rows, scale_columns;
};

template <typename X, typename Code>
__global__ void quantize_any_kernel(TensorView<const X, 3> x, TensorView<Code, 3> codes,
                                    TensorView<E8M0, 3> scales, BlockPlan plan) {
  const Index n = x.extent[0] * plan.scale_rows * plan.scale_columns;
  const Index step = grid_threads();
  for (Index at = grid_thread(); at < n; at += step) {
    const Index j = at % plan.scale_columns;
    const Index i = at / plan.scale_columns % plan.scale_rows;
    const Index e = at / plan.scale_columns / plan.scale_rows;
    const Index r = plan.rows ? i * plan.block : i;
    const Index k = plan.rows ? j : j * plan.block;
    const Index dr = plan.rows ? 1 : 0;
    const Index dk = 1 - dr;
    std::uint32_t amax = 0;
    for (Index b = 0; b < plan.block; ++b) {
      amax = join_amax(amax, as_float(x(e, r + b * dr, k + b * dk)), plan.rule.profile.nan);
    }
    const BlockScale scale = block_scale<Code>(amax, plan.rule);
    if (plan.tiles) {
      scales(e, 0, blocked_offset(i, j, ceil_div(plan.scale_columns, kTileColumns))) = {scale.bits};
    } else {
      scales(e, i, j) = {scale.bits};
    }
    for (Index b = 0; b < plan.block; ++b) {
      codes(e, r + b * dr, k + b * dk) =
          saturated_code<Code>(as_float(x(e, r + b * dr, k + b * dk)) * scale.factor);
    }
  }
}

struct ScalesOf {
  bool rows;
  Index block;
};

template <typename X, typename Code>
__device__ X dequantized(Code code, E8M0 scale) {
  return canonical<X>(code_value(code) * decode(scale));
}

template <typename X, typename Code>
__global__ void dequantize_any_kernel(TensorView<const Code, 3> codes,
                                      TensorView<const E8M0, 3> scales, TensorView<X, 3> x,
                                      ScalesOf how) {
  const Index n = x.extent[0] * x.extent[1] * x.extent[2];
  const Index step = grid_threads();
  for (Index at = grid_thread(); at < n; at += step) {
    const Index k = at % x.extent[2];
    const Index r = at / x.extent[2] % x.extent[1];
    const Index e = at / x.extent[2] / x.extent[1];
    const E8M0 scale = how.rows ? scales(e, r / how.block, k) : scales(e, r, k / how.block);
    x(e, r, k) = dequantized<X>(codes(e, r, k), scale);
  }
}

/// The same operator written through transposed views.
Quantize through_transposed(const Quantize& op) {
  Quantize other = op;
  other.x = transposed(op.x);
  other.codes = transposed(op.codes);
  other.scales = transposed(op.scales);
  other.axis = op.axis == BlockAxis::columns ? BlockAxis::rows : BlockAxis::columns;
  return other;
}

constexpr int kNeighbours = 8;  // of which a block of 32 is a multiple

/// Contiguous tensors, blocks of 32 along the last axis: eight neighbours a thread.
template <typename X, typename Code>
__global__ void dequantize_packs_kernel(const Code* codes, const E8M0* scales, X* x, Index packs) {
  const Index step = grid_threads();
  for (Index i = grid_thread(); i < packs; i += step) {
    const auto code = reinterpret_cast<const Pack<Code, kNeighbours>*>(codes)[i];
    const E8M0 scale = scales[i / (kMxBlock / kNeighbours)];
    Pack<X, kNeighbours> value;
#pragma unroll
    for (int j = 0; j < kNeighbours; ++j) value.v[j] = dequantized<X>(code.v[j], scale);
    reinterpret_cast<Pack<X, kNeighbours>*>(x)[i] = value;
  }
}

}  // namespace

void quantize_any(cudaStream_t stream, const Quantize& op) {
  const bool rows = op.axis == BlockAxis::rows;
  const bool tiles = op.storage == ScaleStorage::blocked;
  visit_quantized(op.x.dtype, op.codes.dtype, [&](auto wide, auto code) {
    using X = typename decltype(wide)::type;
    using Code = typename decltype(code)::type;
    const auto x = batched<const X>(op.x);
    const BlockPlan plan{{op.mode, op.profile},
                         op.block,
                         rows,
                         tiles,
                         rows ? x.extent[1] / op.block : x.extent[1],
                         rows ? x.extent[2] : x.extent[2] / op.block};
    const Index n = x.extent[0] * plan.scale_rows * plan.scale_columns;
    if (n == 0) return;
    auto scales = batched<E8M0>(op.scales);
    if (tiles) {
      const Index matrix = op.scales.rank == 2 ? op.scales.stride[0] : 0;
      scales = {static_cast<E8M0*>(op.scales.data), {}, {matrix, 0, 1}};
    }
    quantize_any_kernel<<<blocks_for(n), kThreads, 0, stream>>>(x, batched<Code>(op.codes), scales,
                                                                plan);
  });
  check_launch("quantize");
}

void DeviceBackend::run(const Quantize& op) {
  if (quantize_columns(stream(), op) || quantize_rows(stream(), op)) return;
  // Weights for the gradient come as a transposed view, blocks along what lies a row apart.
  const bool turns = op.storage == ScaleStorage::row_major && op.axis == BlockAxis::columns;
  if (turns && quantize_rows(stream(), through_transposed(op))) return;
  if (op.storage == ScaleStorage::blocked) {  // padding is 0
    fill_zero(static_cast<std::byte*>(op.scales.data),
              static_cast<std::size_t>(op.scales.elements()));
  }
  quantize_any(stream(), op);
}

void DeviceBackend::run(const Dequantize& op) {
  if (op.x.elements() == 0) return;
  const bool packs = op.axis == BlockAxis::columns && op.block == kMxBlock &&
                     op.codes.contiguous() && op.scales.contiguous() && op.x.contiguous() &&
                     aligned(op.codes, kNeighbours) && aligned(op.x, 16);
  visit_quantized(op.x.dtype, op.codes.dtype, [&](auto wide, auto code) {
    using X = typename decltype(wide)::type;
    using Code = typename decltype(code)::type;
    const Index n = op.x.elements();
    if (packs) {
      dequantize_packs_kernel<<<blocks_for(n / kNeighbours), kThreads, 0, stream()>>>(
          static_cast<const Code*>(op.codes.data), static_cast<const E8M0*>(op.scales.data),
          static_cast<X*>(op.x.data), n / kNeighbours);
    } else {
      dequantize_any_kernel<<<blocks_for(n), kThreads, 0, stream()>>>(
          batched<const Code>(op.codes), batched<const E8M0>(op.scales), batched<X>(op.x),
          ScalesOf{op.axis == BlockAxis::rows, op.block});
    }
  });
  check_launch("dequantize");
}

}  // namespace mxo::cuda

// Quantise and dequantise of any strides, one block or element a thread; the choice of ways.
#include "emu/cuda/canonical.cuh"
#include "emu/cuda/quantize.cuh"
#include "emu/cuda/quantize_kernels.cuh"
#include "emu/reference/elements.h"
#include "emu/reference/quantize_and_swizzle.h"

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
LineBlocks through_transposed(const LineBlocks& op) {
  LineBlocks other = op;
  other.x = transposed(op.x);
  other.codes = transposed(op.codes);
  other.scales = transposed(op.scales);
  other.axis = op.axis == BlockAxis::columns ? BlockAxis::rows : BlockAxis::columns;
  return other;
}

constexpr int kNeighbours = 8;  // of which a block of 32 is a multiple

/// True if one of four codes is a NaN.
template <typename Code>
__device__ bool any_nan(std::uint32_t codes) {
  constexpr unsigned first = std::is_same_v<Code, E4M3> ? 0x7F : 0x7D;  // magnitudes from here on
  return (((codes & 0x7F7F7F7Fu) + (0x80 - first) * 0x01010101u) & 0x80808080u) != 0;
}

/// Eight codes by one scale.  By pairs, in the chip's converters, where no NaN can be.
template <typename X, typename Code>
__device__ Pack<X, kNeighbours> dequantized_pack(const Pack<Code, kNeighbours>& code, E8M0 scale) {
  Pack<X, kNeighbours> value;
  if constexpr (std::is_same_v<Code, E4M3> || std::is_same_v<Code, E5M2>) {
    constexpr auto kind = std::is_same_v<Code, E4M3> ? __NV_E4M3 : __NV_E5M2;
    const auto words = bit_cast<uint2>(code);
    if (scale.bits != 0xFF && !any_nan<Code>(words.x) && !any_nan<Code>(words.y)) {
      const float factor = decode(scale);
#pragma unroll
      for (int j = 0; j < kNeighbours; j += 2) {
        const std::uint32_t word = j < 4 ? words.x : words.y;
        const __half2_raw pair = __nv_cvt_fp8x2_to_halfraw2(
            static_cast<__nv_fp8x2_storage_t>(word >> (j % 4 * 8)), kind);
        const float2 both = __half22float2(pair);
        if constexpr (std::is_same_v<X, float>) {
          value.v[j] = both.x * factor;
          value.v[j + 1] = both.y * factor;
        } else {
          const std::uint32_t rounded = bf16_pair(both.x * factor, both.y * factor);
          value.v[j].bits = static_cast<std::uint16_t>(rounded);
          value.v[j + 1].bits = static_cast<std::uint16_t>(rounded >> 16);
        }
      }
      return value;
    }
  }
#pragma unroll
  for (int j = 0; j < kNeighbours; ++j) value.v[j] = dequantized<X>(code.v[j], scale);
  return value;
}

constexpr int kPacks = 4;  // of a thread, all under way before the first is used

/// Contiguous tensors, blocks of 32 along the last axis: packs of eight neighbours, those of
/// neighbouring threads side by side.
template <typename X, typename Code>
__global__ void __launch_bounds__(kThreads)
    dequantize_packs_kernel(const Code* codes, const E8M0* scales, X* x, Index packs) {
  const Index first = static_cast<Index>(blockIdx.x) * (kPacks * kThreads) + threadIdx.x;
  Pack<Code, kNeighbours> code[kPacks];
  E8M0 scale[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const Index i = first + p * kThreads;
    if (i >= packs) continue;
    code[p] = reinterpret_cast<const Pack<Code, kNeighbours>*>(codes)[i];
    scale[p] = scales[i / (kMxBlock / kNeighbours)];
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const Index i = first + p * kThreads;
    if (i >= packs) continue;
    reinterpret_cast<Pack<X, kNeighbours>*>(x)[i] = dequantized_pack<X>(code[p], scale[p]);
  }
}

}  // namespace

void quantize_any(cudaStream_t stream, const LineBlocks& op) {
  const bool rows = op.axis == BlockAxis::rows;
  const bool tiles = op.storage == ScaleStorage::blocked;
  visit_f32_or_bf16(op.x.dtype, op.codes.dtype, [&](auto wide, auto code) {
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

namespace {

/// e8m0 scales of whole blocks of one row or one column.
template <typename X>
bool in_lines(const AnyView<X>& x, Dtype scales, const BlockExtents& block,
              const Operand& group_ends) {
  if (scales != Dtype::e8m0 || group_ends.given()) return false;
  if (block.rows == kWhole || block.columns == kWhole) return false;
  const bool whole =
      x.extent[x.rank - 2] % block.rows == 0 && x.extent[x.rank - 1] % block.columns == 0;
  return whole && (block.rows == 1 || block.columns == 1);
}

LineBlocks lines_of(const Quantize& op) {
  const bool columns = op.to.block.rows == 1;
  return {op.x,
          op.to.codes,
          op.to.scales,
          op.rule.mode,
          op.rule.e8m0,
          columns ? BlockAxis::columns : BlockAxis::rows,
          columns ? op.to.block.columns : op.to.block.rows,
          op.to.storage};
}

bool has_tiles(const BlockExtents& block) {
  return block == kRowBlock || block == kColumnBlock || block == kSquareBlock;
}

}  // namespace

void DeviceBackend::run(const Quantize& op) {
  const bool mx = op.to.scales.dtype == Dtype::e8m0;
  const bool wide = op.x.dtype != Dtype::f16;
  const bool multiplies =
      !mx && multiplies_in_f32(op.rule.f32.code) && op.rule.element == ElementRule{};
  const BlockExtents& block = op.to.block;
  if (wide && in_lines(op.x, op.to.scales.dtype, block, op.group_ends) && is_regular(op.rule)) {
    const LineBlocks lines = lines_of(op);
    if (quantize_rows_32(stream(), lines) || quantize_columns_32(stream(), lines)) return;
    // Weights for the gradient come as a transposed view, blocks along what lies a row apart.
    const bool turns = lines.storage == ScaleStorage::row_major && lines.axis == BlockAxis::columns;
    if (turns && quantize_columns_32(stream(), through_transposed(lines))) return;
    if (lines.storage == ScaleStorage::blocked) {  // padding is 0
      fill_zero(static_cast<std::byte*>(lines.scales.data),
                static_cast<std::size_t>(lines.scales.elements()));
    }
    return quantize_any(stream(), lines);
  }
  if (wide && multiplies && !op.given.given()) {
    const bool grouped = op.group_ends.given();
    const bool whole_columns = block == kWholeColumn && grouped;
    if (block == kWholeRow || whole_columns) return quantize_whole_lines(*this, op);
    if (quantize_rows_128(stream(), op)) return;
    if (has_tiles(block) && (!grouped || block == kColumnBlock))
      return quantize_tiles_128(*this, op);
  }
  if (op.to.storage == ScaleStorage::blocked) return quantize_and_swizzle(*this, op);
  quantize_any_blocks(*this, op);
}

void DeviceBackend::run(const Dequantize& op) {
  if (op.x.elements() == 0) return;
  const BlockExtents& block = op.from.block;
  if (!in_lines(op.x, op.from.scales.dtype, block, op.group_ends)) {
    return dequantize_any_blocks(*this, op);
  }
  const bool packs = block == kMxColumns && op.from.codes.contiguous() &&
                     op.from.scales.contiguous() && op.x.contiguous() &&
                     aligned(op.from.codes, kNeighbours) && aligned(op.x, 16);
  const bool columns = block.rows == 1;
  visit_f32_or_bf16(op.x.dtype, op.from.codes.dtype, [&](auto wide, auto code) {
    using X = typename decltype(wide)::type;
    using Code = typename decltype(code)::type;
    const Index n = op.x.elements();
    if (packs) {
      dequantize_packs_kernel<<<blocks_for(n / kNeighbours, kPacks * kThreads), kThreads, 0,
                                stream()>>>(static_cast<const Code*>(op.from.codes.data),
                                            static_cast<const E8M0*>(op.from.scales.data),
                                            static_cast<X*>(op.x.data), n / kNeighbours);
    } else {
      dequantize_any_kernel<<<blocks_for(n), kThreads, 0, stream()>>>(
          batched<const Code>(op.from.codes), batched<const E8M0>(op.from.scales), batched<X>(op.x),
          ScalesOf{!columns, columns ? block.columns : block.rows});
    }
  });
  check_launch("dequantize");
}

}  // namespace mxo::cuda

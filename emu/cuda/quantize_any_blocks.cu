// Quantise and dequantise in blocks of any extents, by any rule: a block of threads for each.
#include "emu/cuda/group_tiles.cuh"
#include "emu/cuda/quantize.cuh"
#include "emu/reference/block_rows.h"
#include "emu/reference/elements.h"

namespace mxo::cuda {
namespace {

/// Where blocks lie: the block of rows `i` and the block of columns `j` of one matrix.
struct BlockGrid {
  Index height;  ///< kWhole: all rows, of a group where there are groups
  Index width;
  Index down;  ///< blocks of rows, at most
  Index across;
  bool grouped;
  GroupTiles groups;
  Index scale_rows;
  FaultWord faults;

  /// False where no group has such a block.
  __device__ bool rows(Index i, Index all, TileRows& at) const {
    if (!grouped) {
      at = {height == kWhole ? 0 : i * height, height == kWhole ? all : min((i + 1) * height, all)};
      return true;
    }
    if (height == kWhole) {
      const Index first = min(max(start_of(groups.ends, i), Index{0}), all);
      at = {first, max(first, min(static_cast<Index>(groups.ends(i)), all))};
      return true;
    }
    at = groups(i);
    if (at.first == at.past) return false;
    if (i < scale_rows) return true;
    faults.report(DeviceFault::scale_rows);
    return false;
  }
};

template <typename X, typename Code>
__device__ float choose(E8M0& stored, std::uint32_t amax, const float*, const ScaleRule& rule) {
  stored = shared_scale<Code::spec>(__uint_as_float(amax), rule.mode, rule.e8m0);
  return factor_of(stored, __uint_as_float(amax), rule.e8m0);
}
template <typename X, typename Code>
__device__ float choose(float& stored, std::uint32_t amax, const float* given,
                        const ScaleRule& rule) {
  const F32Scale scale = given != nullptr ? given_scale(*given, rule.f32)
                                          : f32_scale<Code::spec>(__uint_as_float(amax), rule.f32,
                                                                  largest_finite<X>());
  stored = scale.stored;
  return scale.factor;
}

template <typename X, typename Code, typename Scale>
__global__ void quantize_any_blocks_kernel(TensorView<const X, 3> x, TensorView<Code, 3> codes,
                                           TensorView<Scale, 3> scales,
                                           TensorView<const float, 3> given, BlockGrid grid,
                                           ScaleRule rule, NanRule nan, CodeScaling how) {
  __shared__ std::uint32_t top;
  __shared__ float factor;
  const Index j = static_cast<Index>(blockIdx.x) % grid.across;
  const Index i = static_cast<Index>(blockIdx.x) / grid.across % grid.down;
  const Index e = static_cast<Index>(blockIdx.x) / grid.across / grid.down;
  TileRows rows;
  if (!grid.rows(i, x.extent[1], rows)) return;
  const Index first = j * grid.width;
  const Index columns = min(grid.width, x.extent[2] - first);
  const Index n = (rows.past - rows.first) * columns;
  if (threadIdx.x == 0) top = 0;
  __syncthreads();
  std::uint32_t mine = 0;
  for (Index at = threadIdx.x; at < n; at += blockDim.x) {
    mine = join_amax(mine, to_float(x(e, rows.first + at / columns, first + at % columns)), nan);
  }
  atomicMax(&top, mine);
  __syncthreads();
  if (threadIdx.x == 0) {
    const float* told = given.data == nullptr ? nullptr : &given(e, i, j);
    factor = choose<X, Code>(scales(e, i, j), top, told, rule);
  }
  __syncthreads();
  for (Index at = threadIdx.x; at < n; at += blockDim.x) {
    const Index r = rows.first + at / columns;
    const Index k = first + at % columns;
    codes(e, r, k) =
        encode_element<Code::spec>(scaled(to_float(x(e, r, k)), factor, how), rule.element);
  }
}

template <typename X, typename Code, typename Scale>
__global__ void dequantize_any_blocks_kernel(TensorView<const Code, 3> codes,
                                             TensorView<const Scale, 3> scales, TensorView<X, 3> x,
                                             BlockGrid grid) {
  const Index j = static_cast<Index>(blockIdx.x) % grid.across;
  const Index i = static_cast<Index>(blockIdx.x) / grid.across % grid.down;
  const Index e = static_cast<Index>(blockIdx.x) / grid.across / grid.down;
  TileRows rows;
  if (!grid.rows(i, x.extent[1], rows)) return;
  const Index first = j * grid.width;
  const Index columns = min(grid.width, x.extent[2] - first);
  const Index n = (rows.past - rows.first) * columns;
  const Scale scale = scales(e, i, j);
  for (Index at = threadIdx.x; at < n; at += blockDim.x) {
    const Index r = rows.first + at / columns;
    const Index k = first + at % columns;
    x(e, r, k) = dequantize_element<X>(codes(e, r, k), scale);
  }
}

/// Calls launch(grid, blocks, stream) for x of this shape.
template <typename X, typename Launch>
void with_grid(DeviceBackend& backend, const AnyView<X>& x, const BlockExtents& block,
               const Operand& group_ends, Index scale_rows, Launch launch) {
  const bool grouped = group_ends.given();
  const Index height = x.extent[x.rank - 2];
  const Index columns = x.extent[x.rank - 1];
  const Index groups = grouped ? group_ends.extent[0] : 0;
  const Scratch<std::int64_t> before(backend, groups + 1);
  BlockGrid grid{};
  grid.height = block.rows;
  grid.width = block_columns(block, columns);
  grid.across = blocks_of_row(block, columns);
  grid.grouped = grouped;
  grid.scale_rows = scale_rows;
  grid.faults = backend.faults();
  if (block.rows == kWhole) {
    grid.down = grouped ? groups : 1;
    grid.groups = {group_ends.as<const std::int32_t, 1>(), before.data(), 1, height};
    if (grouped) check_group_ends(backend, group_ends, height);
  } else {
    grid.down = ceil_div(height, block.rows) + groups;
    grid.groups = {group_ends.as<const std::int32_t, 1>(), before.data(), block.rows, height};
    if (grouped) count_units(backend, group_ends, height, block.rows, before.data());
  }
  const Index blocks = (x.rank == 3 ? x.extent[0] : 1) * grid.down * grid.across;
  if (blocks > 0) launch(grid, static_cast<unsigned>(blocks), backend.stream());
}

/// Calls run(TypeTag<Scale>) for e8m0 or f32.
template <typename Fn>
void visit_scale(Dtype scale, Fn&& run) {
  if (scale == Dtype::e8m0) {
    run(TypeTag<E8M0>{});
  } else {
    run(TypeTag<float>{});
  }
}

}  // namespace

void quantize_any_blocks(DeviceBackend& backend, const Quantize& op) {
  const bool mx = op.to.scales.dtype == Dtype::e8m0;
  const NanRule nan = mx ? op.rule.e8m0.nan : op.rule.f32.nan;
  const CodeScaling how = mx ? CodeScaling::multiply : op.rule.f32.code;
  const Index scale_rows = op.to.scales.extent[op.to.scales.rank - 2];
  const auto given =
      op.given.given() ? batched<const float>(op.given) : TensorView<const float, 3>{};
  with_grid(backend, op.x, op.to.block, op.group_ends, scale_rows,
            [&](const BlockGrid& grid, unsigned blocks, cudaStream_t stream) {
              visit_quantized(op.x.dtype, op.to.codes.dtype, [&](auto wide, auto code) {
                visit_scale(op.to.scales.dtype, [&](auto scale) {
                  using X = typename decltype(wide)::type;
                  using Code = typename decltype(code)::type;
                  using Scale = typename decltype(scale)::type;
                  quantize_any_blocks_kernel<X, Code, Scale><<<blocks, kThreads, 0, stream>>>(
                      batched<const X>(op.x), batched<Code>(op.to.codes),
                      batched<Scale>(op.to.scales), given, grid, op.rule, nan, how);
                });
              });
            });
  check_launch("quantize");
}

void dequantize_any_blocks(DeviceBackend& backend, const Dequantize& op) {
  const Index scale_rows = op.from.scales.extent[op.from.scales.rank - 2];
  with_grid(backend, op.x, op.from.block, op.group_ends, scale_rows,
            [&](const BlockGrid& grid, unsigned blocks, cudaStream_t stream) {
              visit_f32_or_bf16(op.x.dtype, op.from.codes.dtype, [&](auto wide, auto code) {
                visit_scale(op.from.scales.dtype, [&](auto scale) {
                  using X = typename decltype(wide)::type;
                  using Code = typename decltype(code)::type;
                  using Scale = typename decltype(scale)::type;
                  dequantize_any_blocks_kernel<X, Code, Scale><<<blocks, kThreads, 0, stream>>>(
                      batched<const Code>(op.from.codes), batched<const Scale>(op.from.scales),
                      batched<X>(op.x), grid);
                });
              });
            });
  check_launch("dequantize");
}

}  // namespace mxo::cuda

// Quantise along the last axis of contiguous tensors: four lanes a block, eight elements each.
#include "emu/cuda/quantize.cuh"
#include "emu/cuda/quantize_kernels.cuh"

namespace mxo::cuda {
namespace {

constexpr int kPerLane = 8;                  // elements of one lane
constexpr int kLanes = kMxBlock / kPerLane;  // lanes that share a block

/// Writes up to four neighbouring scales that shared memory holds from `from` on.
__device__ void write_scales(std::uint8_t* to, const std::uint8_t* from, int count, bool whole) {
  if (whole && count >= 4) {
    *reinterpret_cast<std::uint32_t*>(to) = *reinterpret_cast<const std::uint32_t*>(from);
    return;
  }
  for (int b = 0; b < min(count, 4); ++b) to[b] = from[b];
}

constexpr int kStretchThreads = 128;
constexpr int kTimes = 2;                           // eights of one thread
constexpr int kStretch = kStretchThreads * kTimes;  // of a block of threads

/// Scales [.., R, K/32] lie as the blocks of x do, so rows mean nothing: a block of threads takes a
/// stretch of memory.  Scale bytes gather in shared memory and are stored as words: as bytes, by
/// the lanes that find them, they took 0.6 % longer.
template <typename Code, typename X, typename Rule>
__global__ void __launch_bounds__(kStretchThreads)
    quantize_stretch_kernel(const X* x, std::uint8_t* codes, std::uint8_t* scales, Index eights,
                            bool whole_words, Rule rule) {
  __shared__ alignas(4) std::uint8_t kept[kStretch / kLanes];
  const int thread = static_cast<int>(threadIdx.x);
  const Index first = static_cast<Index>(blockIdx.x) * kStretch;
  const int count = static_cast<int>(min(eights - first, Index{kStretch}));
  x += first * kPerLane;
  codes += first * kPerLane;
  Eight<X> eight[kTimes];
#pragma unroll
  for (int i = 0; i < kTimes; ++i) {
    const int at = i * kStretchThreads + thread;
    if (at < count) eight[i].load(x + at * kPerLane);
  }
#pragma unroll
  for (int i = 0; i < kTimes; ++i) {
    const int at = i * kStretchThreads + thread;
    const BlockScale scale = scale_of_four_lanes<Code>(eight[i], rule);
    if (at < count) store_codes<Code>(eight[i], scale.factor, codes + at * kPerLane);
    if (at % kLanes == 0) kept[at / kLanes] = scale.bits;
  }
  __syncthreads();
  const int block = thread * 4;
  const int blocks = count / kLanes;
  if (block < blocks) {
    write_scales(scales + first / kLanes + block, kept + block, blocks - block, whole_words);
  }
}

constexpr int kAcross = static_cast<int>(kTileColumns) * kLanes;  // lanes side by side
constexpr int kTall = kThreads / kAcross;                         // rows under way at once
constexpr int kSteps = static_cast<int>(kTileRows) / kTall;       // rows of one thread

struct TileShape {
  Index rows, columns;  // elements of one matrix
  Index row_tiles, column_tiles;
  bool whole_words;  // scales are aligned words
};

/// Scales in 128x4 tiles, padding included: a block of threads takes a tile, 512 bytes in a row.
/// Its loads are streaming ones: plain ones took 7 % longer here.
template <typename Code, typename X, typename Rule>
__global__ void __launch_bounds__(kThreads)
    quantize_tile_kernel(const X* x, std::uint8_t* codes, std::uint8_t* scales, TileShape shape,
                         Rule rule) {
  __shared__ alignas(16) std::uint8_t tile[kTileBytes];
  const auto number = static_cast<Index>(blockIdx.x);
  const Index matrix = number / (shape.row_tiles * shape.column_tiles);
  const Index row = number / shape.column_tiles % shape.row_tiles * kTileRows;
  const Index block = number % shape.column_tiles * kTileColumns;
  const int rows = static_cast<int>(min(shape.rows - row, kTileRows));  // that exist
  const int lane = static_cast<int>(threadIdx.x) % kAcross;
  const int tall = static_cast<int>(threadIdx.x) / kAcross;
  const Index column = block * kMxBlock + lane * kPerLane;
  const Index first = (matrix * shape.rows + row) * shape.columns + column;
  const bool inside = column < shape.columns;
  Eight<X> eight[kSteps];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int r = tall + i * kTall;
    if (inside && r < rows) eight[i].load_streaming(x + first + r * shape.columns);
  }
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int r = tall + i * kTall;
    const BlockScale scale = scale_of_four_lanes<Code>(eight[i], rule);
    const bool there = inside && r < rows;
    if (there) store_codes<Code>(eight[i], scale.factor, codes + first + r * shape.columns);
    if (lane % kLanes == 0) {
      tile[static_cast<int>(blocked_offset(r, lane / kLanes, 1))] =
          there ? scale.bits : std::uint8_t{0};
    }
  }
  __syncthreads();
  const int word = static_cast<int>(threadIdx.x);
  if (word >= kTileBytes / 4) return;
  std::uint8_t* to = scales + number * kTileBytes + word * 4;
  write_scales(to, tile + word * 4, 4, shape.whole_words);
}

}  // namespace

bool quantize_rows_32(cudaStream_t stream, const LineBlocks& op) {
  const bool fits = op.axis == BlockAxis::columns && op.block == kMxBlock && op.x.contiguous() &&
                    op.codes.contiguous() && op.scales.contiguous() && aligned(op.x, 16) &&
                    aligned(op.codes, kPerLane);
  if (!fits) return false;
  const Index elements = op.x.elements();
  if (elements == 0) return true;
  const bool whole_words = aligned(op.scales, 4);
  visit_rule(op.codes.dtype, op.mode, op.profile, [&](auto code, auto rule) {
    using Code = typename decltype(code)::type;
    const auto launch = [&](const auto* x) {
      using X = std::remove_cvref_t<decltype(*x)>;
      auto* codes = static_cast<std::uint8_t*>(op.codes.data);
      auto* scales = static_cast<std::uint8_t*>(op.scales.data);
      if (op.storage == ScaleStorage::row_major) {
        const Index eights = elements / kPerLane;
        const auto blocks = static_cast<unsigned>(ceil_div(eights, kStretch));
        quantize_stretch_kernel<Code>
            <<<blocks, kStretchThreads, 0, stream>>>(x, codes, scales, eights, whole_words, rule);
        return;
      }
      TileShape shape{op.x.extent[op.x.rank - 2], op.x.extent[op.x.rank - 1], 0, 0, whole_words};
      shape.row_tiles = ceil_div(shape.rows, kTileRows);
      shape.column_tiles = ceil_div(shape.columns, kTileColumns * kMxBlock);
      const Index matrices = op.x.rank == 3 ? op.x.extent[0] : 1;
      const auto blocks = static_cast<unsigned>(matrices * shape.row_tiles * shape.column_tiles);
      quantize_tile_kernel<Code><<<blocks, kThreads, 0, stream>>>(x, codes, scales, shape, rule);
    };
    if (op.x.dtype == Dtype::f32) {
      launch(static_cast<const float*>(op.x.data));
    } else {
      launch(static_cast<const BF16*>(op.x.data));
    }
  });
  check_launch("quantize");
  return true;
}

}  // namespace mxo::cuda

// Quantise along the last axis of contiguous tensors: four lanes a block, eight elements each.
#include "emu/cuda/quantize.cuh"
#include "emu/cuda/quantize_kernels.cuh"

namespace mxo::cuda {
namespace {

constexpr int kPerLane = 8;                  // elements of one lane
constexpr int kLanes = kMxBlock / kPerLane;  // lanes that share a block
constexpr int kAcross = 16;                  // lanes side by side: a tile is 4 blocks wide
constexpr int kTall = kThreads / kAcross;    // rows under way at once
constexpr int kSteps = static_cast<int>(kTileRows) / kTall;

struct TileShape {
  Index rows, columns;  // elements of one matrix
  Index row_tiles, column_tiles;
  Index scale_columns;
  bool whole_words;  // four scales of a row are one aligned word
};

/// What a block of threads quantises: 128 rows of 4 blocks, the extent of one tile of scales.
struct TilePlace {
  Index matrix;
  Index row;     // first of the tile
  Index column;  // likewise, of scales
  int rows;      // that exist

  __device__ explicit TilePlace(const TileShape& shape)
      : matrix(static_cast<Index>(blockIdx.x) / (shape.row_tiles * shape.column_tiles)),
        row(static_cast<Index>(blockIdx.x) / shape.column_tiles % shape.row_tiles * kTileRows),
        column(static_cast<Index>(blockIdx.x) % shape.column_tiles * kTileColumns),
        rows(static_cast<int>(min(shape.rows - row, kTileRows))) {}
};

/// Scales [.., R, K/32]: four bytes a row.
struct InOrder {
  __device__ static int slot(int row, int block) { return row * 4 + block; }
  __device__ static void write(const std::uint8_t* tile, std::uint8_t* scales,
                               const TileShape& shape, const TilePlace& at) {
    const int r = static_cast<int>(threadIdx.x);
    if (r >= at.rows) return;
    std::uint8_t* to =
        scales + (at.matrix * shape.rows + at.row + r) * shape.scale_columns + at.column;
    if (shape.whole_words) {
      *reinterpret_cast<std::uint32_t*>(to) = reinterpret_cast<const std::uint32_t*>(tile)[r];
      return;
    }
    for (Index b = 0; b < min(shape.scale_columns - at.column, kTileColumns); ++b) {
      to[b] = tile[r * 4 + b];
    }
  }
};

/// Scales in 128x4 tiles, padding included: 512 bytes in a row.
struct InTiles {
  __device__ static int slot(int row, int block) {
    return static_cast<int>(blocked_offset(row, block, 1));
  }
  __device__ static void write(const std::uint8_t* tile, std::uint8_t* scales,
                               const TileShape& shape, const TilePlace&) {
    const int word = static_cast<int>(threadIdx.x);
    if (word >= kTileBytes / 4) return;
    std::uint8_t* to = scales + static_cast<Index>(blockIdx.x) * kTileBytes + word * 4;
    if (shape.whole_words) {
      *reinterpret_cast<std::uint32_t*>(to) = reinterpret_cast<const std::uint32_t*>(tile)[word];
      return;
    }
    for (int b = 0; b < 4; ++b) to[b] = tile[word * 4 + b];
  }
};

/// The scale bytes of the tile gather in shared memory and are written together.  A tile, and not
/// a stretch of memory, because its rows keep more channels of the memory busy.
template <typename Scales, typename Code, typename X, typename Rule>
__global__ void __launch_bounds__(kThreads)
    quantize_columns_kernel(const X* x, std::uint8_t* codes, std::uint8_t* scales, TileShape shape,
                            Rule rule) {
  __shared__ alignas(16) std::uint8_t tile[kTileBytes];
  const TilePlace at(shape);
  const int lane = static_cast<int>(threadIdx.x) % kAcross;
  const int tall = static_cast<int>(threadIdx.x) / kAcross;
  const Index column = at.column * kMxBlock + lane * kPerLane;
  const Index first = (at.matrix * shape.rows + at.row) * shape.columns + column;
  const bool inside = column < shape.columns;
  Eight<X> eight[kSteps];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int r = tall + i * kTall;
    if (inside && r < at.rows) eight[i].load(x + first + r * shape.columns);
  }
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int r = tall + i * kTall;
    const BlockScale scale = scale_of_four_lanes<Code>(eight[i], rule);
    const bool there = inside && r < at.rows;
    if (there) store_codes<Code>(eight[i], scale.factor, codes + first + r * shape.columns);
    if (lane % kLanes == 0) {
      tile[Scales::slot(r, lane / kLanes)] = there ? scale.bits : std::uint8_t{0};
    }
  }
  __syncthreads();
  Scales::write(tile, scales, shape, at);
}

}  // namespace

bool quantize_columns(cudaStream_t stream, const Quantize& op) {
  const bool fits = op.axis == BlockAxis::columns && op.block == kMxBlock && op.x.contiguous() &&
                    op.codes.contiguous() && op.scales.contiguous() && aligned(op.x, 16) &&
                    aligned(op.codes, kPerLane);
  if (!fits) return false;
  if (op.x.elements() == 0) return true;
  const bool tiles = op.storage == ScaleStorage::blocked;
  TileShape shape{};
  shape.rows = op.x.extent[op.x.rank - 2];
  shape.columns = op.x.extent[op.x.rank - 1];
  shape.row_tiles = ceil_div(shape.rows, kTileRows);
  shape.column_tiles = ceil_div(shape.columns, kTileColumns * kMxBlock);
  shape.scale_columns = shape.columns / kMxBlock;
  shape.whole_words = aligned(op.scales, 4) && (tiles || shape.scale_columns % kTileColumns == 0);
  const Index matrices = op.x.rank == 3 ? op.x.extent[0] : 1;
  const auto blocks = static_cast<unsigned>(matrices * shape.row_tiles * shape.column_tiles);
  visit_rule(op.codes.dtype, op.mode, op.profile, [&](auto code, auto rule) {
    using Code = typename decltype(code)::type;
    const auto launch = [&](const auto* x) {
      using X = std::remove_cvref_t<decltype(*x)>;
      const auto kernel = tiles ? quantize_columns_kernel<InTiles, Code, X, decltype(rule)>
                                : quantize_columns_kernel<InOrder, Code, X, decltype(rule)>;
      kernel<<<blocks, kThreads, 0, stream>>>(x, static_cast<std::uint8_t*>(op.codes.data),
                                              static_cast<std::uint8_t*>(op.scales.data), shape,
                                              rule);
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

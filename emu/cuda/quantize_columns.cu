// Quantise along the last axis of contiguous tensors: four lanes a block, eight elements each.
#include "emu/cuda/quantize.cuh"
#include "emu/cuda/quantize_kernels.cuh"

namespace mxo::cuda {
namespace {

constexpr int kPerLane = 8;                  // elements of one lane
constexpr int kLanes = kMxBlock / kPerLane;  // lanes that share a block
constexpr int kSteps = 8;                    // rows of one thread

/// What a block of threads quantises, `Across` lanes side by side; kTileBytes blocks in all.
template <int Across>
struct Tile {
  static constexpr int kTall = kThreads / Across;  // rows under way at once
  static constexpr int kRows = kTall * kSteps;
  static constexpr int kBlocks = Across / kLanes;  // of a row
  static_assert(kRows * kBlocks == kTileBytes);
};

struct TileShape {
  Index rows, columns;  // elements of one matrix
  Index row_tiles, column_tiles;
  Index scale_columns;
  bool whole_words;  // four scales of a row are one aligned word
};

template <typename Tile>
struct TilePlace {
  Index matrix;
  Index row;     // first of the tile
  Index column;  // likewise, of scales
  int rows;      // that exist

  __device__ explicit TilePlace(const TileShape& shape)
      : matrix(static_cast<Index>(blockIdx.x) / (shape.row_tiles * shape.column_tiles)),
        row(static_cast<Index>(blockIdx.x) / shape.column_tiles % shape.row_tiles * Tile::kRows),
        column(static_cast<Index>(blockIdx.x) % shape.column_tiles * Tile::kBlocks),
        rows(static_cast<int>(min(shape.rows - row, Index{Tile::kRows}))) {}
};

/// Scales [.., R, K/32]: 16 bytes a row.  Narrower tiles leave the memory to put sectors of scales
/// together from several blocks of threads: 4 bytes a row cost a tenth of the speed.
struct InOrder {
  using Of = Tile<64>;
  __device__ static int slot(int row, int block) { return row * Of::kBlocks + block; }
  __device__ static void write(const std::uint8_t* tile, std::uint8_t* scales,
                               const TileShape& shape, const TilePlace<Of>& at) {
    constexpr int kWords = Of::kBlocks / 4;  // of a row
    const int word = static_cast<int>(threadIdx.x);
    const int r = word / kWords;
    const Index column = at.column + word % kWords * 4;
    if (r >= at.rows || column >= shape.scale_columns) return;
    std::uint8_t* to =
        scales + (at.matrix * shape.rows + at.row + r) * shape.scale_columns + column;
    if (shape.whole_words) {
      *reinterpret_cast<std::uint32_t*>(to) = reinterpret_cast<const std::uint32_t*>(tile)[word];
      return;
    }
    for (Index b = 0; b < min(shape.scale_columns - column, Index{4}); ++b) {
      to[b] = tile[word * 4 + b];
    }
  }
};

/// Scales in 128x4 tiles, padding included: 512 bytes in a row.
struct InTiles {
  using Of = Tile<static_cast<int>(kTileColumns) * kLanes>;
  static_assert(Of::kRows == kTileRows);
  __device__ static int slot(int row, int block) {
    return static_cast<int>(blocked_offset(row, block, 1));
  }
  __device__ static void write(const std::uint8_t* tile, std::uint8_t* scales,
                               const TileShape& shape, const TilePlace<Of>&) {
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
  using Of = typename Scales::Of;
  constexpr int kAcross = kThreads / Of::kTall;
  __shared__ alignas(16) std::uint8_t tile[kTileBytes];
  const TilePlace<Of> at(shape);
  const int lane = static_cast<int>(threadIdx.x) % kAcross;
  const int tall = static_cast<int>(threadIdx.x) / kAcross;
  const Index column = at.column * kMxBlock + lane * kPerLane;
  const Index first = (at.matrix * shape.rows + at.row) * shape.columns + column;
  const bool inside = column < shape.columns;
  Eight<X> eight[kSteps];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int r = tall + i * Of::kTall;
    if (inside && r < at.rows) eight[i].load(x + first + r * shape.columns);
  }
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int r = tall + i * Of::kTall;
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
  const Index tall = tiles ? InTiles::Of::kRows : InOrder::Of::kRows;
  const Index wide = tiles ? InTiles::Of::kBlocks : InOrder::Of::kBlocks;
  TileShape shape{};
  shape.rows = op.x.extent[op.x.rank - 2];
  shape.columns = op.x.extent[op.x.rank - 1];
  shape.scale_columns = shape.columns / kMxBlock;
  shape.row_tiles = ceil_div(shape.rows, tall);
  shape.column_tiles = ceil_div(shape.scale_columns, wide);
  shape.whole_words = aligned(op.scales, 4) && (tiles || shape.scale_columns % 4 == 0);
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

// Quantise along axis -2 of contiguous tensors: a lane owns a few columns of one block of 32 rows.
#include "emu/cuda/quantize.cuh"
#include "emu/cuda/quantize_kernels.cuh"

namespace mxo::cuda {
namespace {

constexpr int kWarps = 4;           // row blocks of a tile
constexpr int kRows = kWarps * 32;  // 128: whole lines of 128 bytes when transposed
constexpr int kLineChunks = kRows / 16;

/// Columns of one lane: 8 bytes of a row, so that 32 rows fit 64 registers.
template <typename X>
inline constexpr int kOwn = 8 / static_cast<int>(sizeof(X));

/// Element `c` of the 8 bytes of a row, as a float.
template <typename X>
__device__ float element(const uint2& row, int c) {
  if constexpr (sizeof(X) == 4) return __uint_as_float(c == 0 ? row.x : row.y);
  const std::uint32_t word = c < 2 ? row.x : row.y;
  return __uint_as_float(c % 2 == 0 ? word << 16 : word & 0xFFFF0000u);
}

struct Shape {
  Index rows, columns;  // of one matrix
};

/// Where a warp works.
struct Place {
  Index matrix;  // first element of the matrix
  Index row0;
  Index column0;  // of the block of threads
  int warp;
  int lane;
};

/// The code lines of 128 rows, [column][row].  The 16-byte chunks of a line are exchanged by the
/// lane that writes them, so that a quarter warp touches every bank once, writing and reading.
template <int Columns>
struct TurnedTile {
  uint4 chunk[Columns][kLineChunks];
  __device__ uint4& at(int column, int part, int owner) { return chunk[column][part ^ owner % 8]; }
};

/// Codes of one column of the block, 32 rows of it.
template <typename Code, typename X>
__device__ void encode_column(const uint2 (&raw)[kMxBlock], int c, float factor,
                              std::uint32_t (&word)[kMxBlock / 4]) {
#pragma unroll
  for (int r = 0; r < kMxBlock; r += 4) {
    const float scaled[4] = {element<X>(raw[r], c) * factor, element<X>(raw[r + 1], c) * factor,
                             element<X>(raw[r + 2], c) * factor,
                             element<X>(raw[r + 3], c) * factor};
    word[r / 4] = saturated_quad<Code>(scaled);
  }
}

template <typename X, typename Rule>
__device__ std::uint32_t amax_of_column(const uint2 (&raw)[kMxBlock], int c, const Rule& rule) {
  std::uint32_t amax = 0;
#pragma unroll
  for (int r = 0; r < kMxBlock; ++r) {
    amax = join_amax(amax, element<X>(raw[r], c), rule.scale_profile().nan);
  }
  return amax;
}

template <typename X>
__device__ void load_block(const X* from, Index stride, uint2 (&raw)[kMxBlock]) {
#pragma unroll
  for (int r = 0; r < kMxBlock; ++r) {
    raw[r] = __ldcs(reinterpret_cast<const uint2*>(from + r * stride));
  }
}

__device__ Place place_of(const Shape& shape, int columns) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  return {blockIdx.z * shape.rows * shape.columns,
          static_cast<Index>(blockIdx.y) * kRows + warp * 32,
          static_cast<Index>(blockIdx.x) * columns, warp, static_cast<int>(threadIdx.x) % 32};
}

/// codes [R, K], scales [R/32, K].
template <typename Code, typename X, typename Rule>
__global__ void __launch_bounds__(kWarps * 32)
    quantize_rows_kernel(const X* x, std::uint8_t* codes, std::uint8_t* scales, Shape shape,
                         Rule rule) {
  constexpr int own = kOwn<X>;
  const Place at = place_of(shape, own * 32);
  const Index column = at.column0 + at.lane * own;
  if (at.row0 >= shape.rows || column >= shape.columns) return;
  const Index first = at.matrix + at.row0 * shape.columns + column;
  uint2 raw[kMxBlock];
  load_block(x + first, shape.columns, raw);
  BlockScale scale[own];
#pragma unroll
  for (int c = 0; c < own; ++c) {
    scale[c] = block_scale<Code>(amax_of_column<X>(raw, c, rule), rule);
    scales[at.matrix / kMxBlock + at.row0 / kMxBlock * shape.columns + column + c] = scale[c].bits;
  }
#pragma unroll
  for (int r = 0; r < kMxBlock; ++r) {
    std::uint8_t* to = codes + first + r * shape.columns;
    const std::uint32_t low = saturated_pair<Code>(element<X>(raw[r], 0) * scale[0].factor,
                                                   element<X>(raw[r], 1) * scale[1].factor);
    if constexpr (own == 4) {
      const std::uint32_t high = saturated_pair<Code>(element<X>(raw[r], 2) * scale[2].factor,
                                                      element<X>(raw[r], 3) * scale[3].factor);
      __stcs(reinterpret_cast<unsigned*>(to), low | high << 16);
    } else {
      *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(low);
    }
  }
}

/// codes [K, R], scales [K, R/32]: through shared memory, so that a warp writes whole lines.
template <typename Code, typename X, typename Rule>
__global__ void __launch_bounds__(kWarps * 32)
    quantize_turned_kernel(const X* x, std::uint8_t* codes, std::uint8_t* scales, Shape shape,
                           Rule rule) {
  constexpr int own = kOwn<X>;
  constexpr int columns = own * 32;
  __shared__ TurnedTile<columns> tile;
  const Place at = place_of(shape, columns);
  const Index column = at.column0 + at.lane * own;
  if (at.row0 < shape.rows && column < shape.columns) {
    uint2 raw[kMxBlock];
    load_block(x + at.matrix + at.row0 * shape.columns + column, shape.columns, raw);
#pragma unroll
    for (int c = 0; c < own; ++c) {
      const BlockScale scale = block_scale<Code>(amax_of_column<X>(raw, c, rule), rule);
      std::uint32_t word[kMxBlock / 4];
      encode_column<Code, X>(raw, c, scale.factor, word);
      const int mine = at.lane * own + c;
      tile.at(mine, at.warp * 2, at.lane) = make_uint4(word[0], word[1], word[2], word[3]);
      tile.at(mine, at.warp * 2 + 1, at.lane) = make_uint4(word[4], word[5], word[6], word[7]);
      scales[at.matrix / kMxBlock + (column + c) * (shape.rows / kMxBlock) + at.row0 / kMxBlock] =
          scale.bits;
    }
  }
  __syncthreads();
  const Index tile_row = static_cast<Index>(blockIdx.y) * kRows;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < columns * kLineChunks; i += kWarps * 32) {
    const int c = i / kLineChunks;
    const int part = i % kLineChunks;
    const Index row = tile_row + part * 16;
    if (at.column0 + c < shape.columns && row < shape.rows) {
      std::uint8_t* to = codes + at.matrix + (at.column0 + c) * shape.rows + row;
      __stcs(reinterpret_cast<uint4*>(to), tile.at(c, part, c / own));
    }
  }
}

}  // namespace

bool quantize_rows(cudaStream_t stream, const Quantize& op) {
  if (op.axis != BlockAxis::rows || op.block != kMxBlock || !op.x.contiguous() ||
      !aligned(op.x, 16) || !aligned(op.codes, 16)) {
    return false;
  }
  const bool plain = op.codes.contiguous() && op.scales.contiguous();
  const bool turned = transposed(op.codes).contiguous() && transposed(op.scales).contiguous();
  const Shape shape{op.x.extent[op.x.rank - 2], op.x.extent[op.x.rank - 1]};
  if ((!plain && !turned) || shape.columns % 4 != 0) return false;
  const Index matrices = op.x.rank == 3 ? op.x.extent[0] : 1;
  if (op.x.elements() == 0) return true;
  constexpr Index kMostBlocks = 65535;  // of a grid's second and third axis
  if (matrices > kMostBlocks || ceil_div(shape.rows, kRows) > kMostBlocks) return false;
  visit_rule(op.codes.dtype, op.mode, op.profile, [&](auto code, auto rule) {
    using Code = typename decltype(code)::type;
    const auto launch = [&](const auto* x) {
      using X = std::remove_cvref_t<decltype(*x)>;
      const dim3 grid(static_cast<unsigned>(ceil_div(shape.columns, kOwn<X> * 32)),
                      static_cast<unsigned>(ceil_div(shape.rows, kRows)),
                      static_cast<unsigned>(matrices));
      const auto kernel = plain ? quantize_rows_kernel<Code, X, decltype(rule)>
                                : quantize_turned_kernel<Code, X, decltype(rule)>;
      kernel<<<grid, kWarps * 32, 0, stream>>>(x, static_cast<std::uint8_t*>(op.codes.data),
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

// Quantise along axis -2 of contiguous tensors: a lane owns a few columns of one block of 32 rows.
#include "emu/cuda/quantize.cuh"
#include "emu/cuda/quantize_kernels.cuh"

namespace mxo::cuda {
namespace {

constexpr int kWarps = 8;                // a block of 32 rows each
constexpr int kRows = kWarps * 32;       // of a block of threads
constexpr int kLineChunks = kRows / 16;  // of one line of codes, transposed

/// Columns of one lane: 8 bytes of a row, so that 32 rows fit 64 registers.
template <typename X>
inline constexpr int kOwn = 8 / static_cast<int>(sizeof(X));

/// 32 rows of a lane's columns, as they lie in memory.
template <typename X>
struct Columns {
  uint2 row[kMxBlock];

  __device__ void load(const X* from, Index stride) {
#pragma unroll
    for (int r = 0; r < kMxBlock; ++r) {
      row[r] = *reinterpret_cast<const uint2*>(from + r * stride);
    }
  }
  __device__ float at(int r, int c) const {
    if constexpr (sizeof(X) == 4) return __uint_as_float(c == 0 ? row[r].x : row[r].y);
    const std::uint32_t word = c < 2 ? row[r].x : row[r].y;
    return __uint_as_float(c % 2 == 0 ? word << 16 : word & 0xFFFF0000u);
  }
  /// The largest magnitudes of the columns, as join_amax() finds them.
  __device__ void find_amax(NanRule nan, std::uint32_t (&amax)[kOwn<X>]) const {
    if constexpr (sizeof(X) == 2) {
      if (nan == NanRule::propagate) {  // magnitudes of bf16 order as integers, two to a word
        constexpr unsigned kMagnitudes = 0x7FFF7FFFu;
        unsigned first = 0;
        unsigned second = 0;
#pragma unroll
        for (int r = 0; r < kMxBlock; ++r) {
          first = __vmaxu2(first, row[r].x & kMagnitudes);
          second = __vmaxu2(second, row[r].y & kMagnitudes);
        }
        amax[0] = first << 16;
        amax[1] = first & 0xFFFF0000u;
        amax[2] = second << 16;
        amax[3] = second & 0xFFFF0000u;
        return;
      }
    }
#pragma unroll
    for (int c = 0; c < kOwn<X>; ++c) {
      amax[c] = 0;
#pragma unroll
      for (int r = 0; r < kMxBlock; ++r) amax[c] = join_amax(amax[c], at(r, c), nan);
    }
  }
};

struct Shape {
  Index rows, columns;  // of one matrix
  Index row_tiles, column_tiles;
  bool whole_words;  // transposed: the scales of a column and tile are two aligned words
};

/// Tiles in columns of kRaster, so that lines of codes that are neighbours in memory are written
/// one soon after the other.
constexpr Index kRaster = 4;

struct Place {
  Index matrix;   // first element of the matrix
  Index row0;     // of the block of threads
  Index column0;  // likewise
  int warp;
  int lane;

  __device__ Place(const Shape& shape, int columns) {
    const Index tiles = shape.row_tiles * shape.column_tiles;
    const Index number = static_cast<Index>(blockIdx.x) % tiles;
    const Index band = number / (kRaster * shape.column_tiles) * kRaster;
    const Index height = min(shape.row_tiles - band, kRaster);
    const Index within = number - band * shape.column_tiles;
    matrix = static_cast<Index>(blockIdx.x) / tiles * shape.rows * shape.columns;
    row0 = (band + within % height) * kRows;
    column0 = within / height * columns;
    warp = static_cast<int>(threadIdx.x) / 32;
    lane = static_cast<int>(threadIdx.x) % 32;
  }
};

/// codes [R, K], scales [R/32, K].
template <typename Code, typename X, typename Rule>
__global__ void __launch_bounds__(kWarps * 32)
    quantize_columns_32_kernel(const X* x, std::uint8_t* codes, std::uint8_t* scales, Shape shape,
                               Rule rule) {
  constexpr int own = kOwn<X>;
  const Place at(shape, own * 32);
  const Index row = at.row0 + at.warp * 32;
  const Index column = at.column0 + at.lane * own;
  if (row >= shape.rows || column >= shape.columns) return;
  const Index first = at.matrix + row * shape.columns + column;
  Columns<X> mine;
  mine.load(x + first, shape.columns);
  std::uint32_t amax[own];
  mine.find_amax(rule.scale_profile().nan, amax);
  float factor[own];
#pragma unroll
  for (int c = 0; c < own; ++c) {
    const BlockScale scale = block_scale<Code>(amax[c], rule);
    factor[c] = scale.factor;
    scales[at.matrix / kMxBlock + row / kMxBlock * shape.columns + column + c] = scale.bits;
  }
#pragma unroll
  for (int r = 0; r < kMxBlock; ++r) {
    std::uint8_t* to = codes + first + r * shape.columns;
    const std::uint32_t low =
        saturated_pair<Code>(mine.at(r, 0) * factor[0], mine.at(r, 1) * factor[1]);
    if constexpr (own == 4) {
      const std::uint32_t high =
          saturated_pair<Code>(mine.at(r, 2) * factor[2], mine.at(r, 3) * factor[3]);
      *reinterpret_cast<unsigned*>(to) = low | high << 16;
    } else {
      *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(low);
    }
  }
}

/// The lines of codes of kRows rows, [column][row], and their scales.  The 16-byte chunks of a
/// line are exchanged by the lane that writes them, so that a quarter warp touches every bank
/// once, writing and reading.
template <int Columns>
struct TurnedTile {
  uint4 chunk[Columns][kLineChunks];
  std::uint8_t scale[Columns][kWarps];
  __device__ uint4& at(int column, int part, int owner) { return chunk[column][part ^ owner % 8]; }
};

template <typename X, typename Code>
__device__ void encode_column(const Columns<X>& mine, int c, float factor,
                              std::uint32_t (&word)[kMxBlock / 4]) {
#pragma unroll
  for (int r = 0; r < kMxBlock; r += 4) {
    const float scaled[4] = {mine.at(r, c) * factor, mine.at(r + 1, c) * factor,
                             mine.at(r + 2, c) * factor, mine.at(r + 3, c) * factor};
    word[r / 4] = saturated_quad<Code>(scaled);
  }
}

/// The scales of one column: kWarps bytes, fewer at the last rows.
__device__ void write_scales(const std::uint8_t (&scale)[kWarps], std::uint8_t* to, Index count,
                             bool whole_words) {
  if (whole_words && count >= kWarps) {
    *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(scale);
    return;
  }
  for (int b = 0; b < kWarps && b < count; ++b) to[b] = scale[b];
}

/// codes [K, R], scales [K, R/32]: through shared memory, so that a warp writes whole lines.
template <typename Code, typename X, typename Rule>
__global__ void __launch_bounds__(kWarps * 32)
    quantize_turned_kernel(const X* x, std::uint8_t* codes, std::uint8_t* scales, Shape shape,
                           Rule rule) {
  constexpr int own = kOwn<X>;
  constexpr int columns = own * 32;
  __shared__ alignas(16) TurnedTile<columns> tile;
  const Place at(shape, columns);
  const Index row = at.row0 + at.warp * 32;
  const Index column = at.column0 + at.lane * own;
  if (row < shape.rows && column < shape.columns) {
    Columns<X> mine;
    mine.load(x + at.matrix + row * shape.columns + column, shape.columns);
    std::uint32_t amax[own];
    mine.find_amax(rule.scale_profile().nan, amax);
#pragma unroll
    for (int c = 0; c < own; ++c) {
      const BlockScale scale = block_scale<Code>(amax[c], rule);
      std::uint32_t word[kMxBlock / 4];
      encode_column<X, Code>(mine, c, scale.factor, word);
      const int line = at.lane * own + c;
      tile.at(line, at.warp * 2, at.lane) = make_uint4(word[0], word[1], word[2], word[3]);
      tile.at(line, at.warp * 2 + 1, at.lane) = make_uint4(word[4], word[5], word[6], word[7]);
      tile.scale[line][at.warp] = scale.bits;
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < columns * kLineChunks; i += kWarps * 32) {
    const int c = i / kLineChunks;
    const int part = i % kLineChunks;
    const Index first = at.row0 + part * 16;
    if (at.column0 + c < shape.columns && first < shape.rows) {
      *reinterpret_cast<uint4*>(codes + at.matrix + (at.column0 + c) * shape.rows + first) =
          tile.at(c, part, c / own);
    }
  }
  const int c = static_cast<int>(threadIdx.x);
  if (c < columns && at.column0 + c < shape.columns) {
    const Index blocks = shape.rows / kMxBlock;
    const Index first = at.row0 / kMxBlock;
    write_scales(tile.scale[c], scales + at.matrix / kMxBlock + (at.column0 + c) * blocks + first,
                 blocks - first, shape.whole_words);
  }
}

}  // namespace

bool quantize_columns_32(cudaStream_t stream, const LineBlocks& op) {
  if (op.axis != BlockAxis::rows || op.block != kMxBlock || !op.x.contiguous() ||
      !aligned(op.x, 16) || !aligned(op.codes, 16)) {
    return false;
  }
  const bool plain = op.codes.contiguous() && op.scales.contiguous();
  const bool turned = transposed(op.codes).contiguous() && transposed(op.scales).contiguous();
  Shape shape{op.x.extent[op.x.rank - 2], op.x.extent[op.x.rank - 1], 0, 0, false};
  if ((!plain && !turned) || shape.columns % 4 != 0) return false;
  if (op.x.elements() == 0) return true;
  shape.row_tiles = ceil_div(shape.rows, kRows);
  shape.whole_words = aligned(op.scales, kWarps) && shape.rows % kRows == 0;
  visit_rule(op.codes.dtype, op.mode, op.profile, [&](auto code, auto rule) {
    using Code = typename decltype(code)::type;
    const auto launch = [&](const auto* x) {
      using X = std::remove_cvref_t<decltype(*x)>;
      shape.column_tiles = ceil_div(shape.columns, kOwn<X> * 32);
      const Index matrices = op.x.rank == 3 ? op.x.extent[0] : 1;
      const auto blocks = static_cast<unsigned>(matrices * shape.row_tiles * shape.column_tiles);
      const auto kernel = plain ? quantize_columns_32_kernel<Code, X, decltype(rule)>
                                : quantize_turned_kernel<Code, X, decltype(rule)>;
      kernel<<<blocks, kWarps * 32, 0, stream>>>(x, static_cast<std::uint8_t*>(op.codes.data),
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

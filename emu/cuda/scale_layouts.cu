// Scale bytes into 128x4 tiles and back: a block of threads moves half of a row of up to 64 tiles
// by way of shared memory.
#include "emu/cuda/group_tiles.cuh"
#include "emu/reference/elements.h"
#include "ops/scale_layouts.h"

namespace mxo::cuda {
namespace {

constexpr int kRows = static_cast<int>(kTileRows);
constexpr int kColumns = static_cast<int>(kTileColumns);
constexpr int kStrip = 64;  // tiles side by side: the whole of most rows
// A row of the strip, and what lies before its first column in the same 16 bytes.
constexpr int kLineBytes = kStrip * kColumns + 16;
constexpr int kLineWords = kLineBytes / 4 + 1;  // odd: 32 rows lie in 32 banks
constexpr int kHalves = 2;                      // of a row of tiles
constexpr int kLines = 32 / kHalves;            // lines of 16 bytes of a tile, four rows each
constexpr int kOwnRows = kRows / kHalves;

struct LayoutPlan {
  ScaleLayout layout;
  Index rows, columns;  // of one matrix of scales
  Index row_tiles;      // of one matrix; over all groups at most
  Index column_tiles;   // likewise
  std::uint32_t strips;
  Index bytes;        // of the blocked buffer
  GroupTiles groups;  // by rows (m_groups) or by columns (k_groups)
  bool wide;          // rows of scales are read and written 16 bytes at a time
  bool wide_tiles;    // lines of tiles likewise
};

/// Where one block works: scales [expert, first_row .. + rows, first_column .. + span].
struct Strip {
  Index expert;
  Index first_row;
  Index first_column;
  int rows;  ///< of both halves; at most 0: nothing lies here
  int first_line;
  int skip;  ///< columns at the front that are there for alignment only
  int span;
};
/// Row `i` of the block's, counted from the first of its tiles.
__device__ int row_of(const Strip& strip, int i) {
  return i / kLines * (kHalves * kLines) + strip.first_line + i % kLines;
}
/// One tile of the strip.
struct Tile {
  Index to;   ///< its first byte in the blocked buffer; -1: there is none
  int from;   ///< its first column in the strip
  int valid;  ///< columns that are scales; 0 behind the last group
};

__device__ Strip strip_of(const LayoutPlan& plan, Index row_tile, Index tile0) {
  Strip strip{};
  strip.first_line = static_cast<int>(blockIdx.x % kHalves) * kLines;
  strip.first_row = row_tile * kRows;
  Index past = plan.rows;
  if (plan.layout == ScaleLayout::per_group_3d) {
    const auto tile = static_cast<std::uint32_t>(row_tile);
    const auto tiles = static_cast<std::uint32_t>(plan.row_tiles);
    strip.expert = tile / tiles;
    strip.first_row = Index{tile % tiles} * kRows;
  } else if (plan.layout == ScaleLayout::m_groups) {
    const TileRows rows = plan.groups(row_tile);
    strip.first_row = rows.first;
    past = rows.past;
  }
  strip.rows = static_cast<int>(min(past - strip.first_row, Index{kRows}));
  strip.first_column = tile0 * kColumns;
  if (plan.layout == ScaleLayout::k_groups && tile0 > 0) {
    strip.first_column = plan.groups(tile0).first;
    if (plan.wide) strip.skip = static_cast<int>(strip.first_column % 16);
    strip.first_column -= strip.skip;
  }
  return strip;
}

__device__ Tile tile_of(const LayoutPlan& plan, const Strip& strip, Index row_tile, Index tile) {
  if (plan.layout == ScaleLayout::k_groups) {
    const Index g = plan.groups.group(tile);
    if (g == plan.groups.ends.extent[0]) {
      return {(tile * plan.row_tiles + row_tile) * kTileBytes, 0, 0};
    }
    const Index before = plan.groups.before[g];
    const Index wide = plan.groups.before[g + 1] - before;
    const Index column = start_of(plan.groups.ends, g) + (tile - before) * kColumns;
    const Index past = min(static_cast<Index>(plan.groups.ends(g)), plan.columns);
    const Index from = column - strip.first_column;
    if (from < 0 || from + kColumns > kLineBytes) return {-1, 0, 0};  // ends that decrease
    return {(before * plan.row_tiles + row_tile * wide + tile - before) * kTileBytes,
            static_cast<int>(from),
            static_cast<int>(max(min(past - column, Index{kColumns}), Index{0}))};
  }
  if (tile >= plan.column_tiles) return {-1, 0, 0};
  const Index column = tile * kColumns;
  return {(row_tile * plan.column_tiles + tile) * kTileBytes,
          static_cast<int>(column - strip.first_column),
          static_cast<int>(min(plan.columns - column, Index{kColumns}))};
}

/// What the threads of a block share.
struct Workplace {
  Strip strip;
  Tile tiles[kStrip];
  std::uint32_t bytes[kOwnRows * kLineWords];
};

__device__ Index row_tile_of(const LayoutPlan& plan) { return blockIdx.x / kHalves / plan.strips; }
__device__ Index first_tile_of(const LayoutPlan& plan) {
  return Index{blockIdx.x / kHalves % plan.strips} * kStrip;
}
/// Finds the strip, of span 0; the threads of the block come back together.
__device__ void find_strip(const LayoutPlan& plan, Workplace& at) {
  if (threadIdx.x == 0) at.strip = strip_of(plan, row_tile_of(plan), first_tile_of(plan));
  __syncthreads();
}
/// Finds its tiles; the threads of the block come back together.
__device__ void find_tiles(const LayoutPlan& plan, Workplace& at) {
  const Index row_tile = row_tile_of(plan);
  const Index tile0 = first_tile_of(plan);
  if (threadIdx.x < kStrip) {
    const Tile tile = tile_of(plan, at.strip, row_tile, tile0 + threadIdx.x);
    at.tiles[threadIdx.x] = tile;
    if (tile.valid > 0) atomicMax(&at.strip.span, tile.from + tile.valid);
  }
  __syncthreads();
}

__device__ std::uint8_t* byte_of(std::uint32_t* strip, int row, int column) {
  return reinterpret_cast<std::uint8_t*>(strip + row * kLineWords) + column;
}

template <typename T>
__device__ T* scales_at(const TensorView<T, 3>& scales, const Strip& strip, int row, int column) {
  return &scales(strip.expert, strip.first_row + row_of(strip, row), strip.first_column + column);
}

/// 16 scales of a row of the block's; zeros where there is none, or from column `past` on.
__device__ uint4 scales_of(const TensorView<const std::uint8_t, 3>& scales, const Strip& strip,
                           int row, int column, Index past) {
  if (row_of(strip, row) >= strip.rows || column >= past) return {};
  return __ldcs(reinterpret_cast<const uint4*>(scales_at(scales, strip, row, column)));
}
__device__ void put(std::uint32_t* strip, int row, int column, const uint4& scales) {
  std::uint32_t* to = strip + row * kLineWords + column / 4;
  to[0] = scales.x;
  to[1] = scales.y;
  to[2] = scales.z;
  to[3] = scales.w;
}

__global__ void __launch_bounds__(kThreads) swizzle_kernel(TensorView<const std::uint8_t, 3> scales,
                                                           std::uint8_t* blocked, LayoutPlan plan) {
  __shared__ Workplace at;
  const int thread = static_cast<int>(threadIdx.x);
  asm volatile("griddepcontrol.wait;" ::: "memory");  // for all that ran before
  find_strip(plan, at);
  constexpr int kAcross = kLineBytes / 16 - 1;  // the last 16 bytes of a row are seldom there
  constexpr int kDown = kThreads / kAcross;
  const int first_row = thread / kAcross;
  const int column = thread % kAcross * 16;
  uint4 units[kOwnRows / kDown];
  if (plan.wide) {  // while tiles are found; bytes past their span are never used
    const Index past = plan.columns - at.strip.first_column;
#pragma unroll
    for (int i = 0; i < kOwnRows / kDown; ++i) {
      units[i] = scales_of(scales, at.strip, first_row + i * kDown, column, past);
    }
  }
  find_tiles(plan, at);
  const Strip strip = at.strip;
  std::uint32_t* const bytes = at.bytes;

  if (plan.wide) {
#pragma unroll
    for (int i = 0; i < kOwnRows / kDown; ++i) {
      put(bytes, first_row + i * kDown, column, units[i]);
    }
    if (strip.span > kAcross * 16 && thread < kOwnRows) {
      put(bytes, thread, kAcross * 16, scales_of(scales, strip, thread, kAcross * 16, strip.span));
    }
  } else {
    for (int i = thread; i < kOwnRows * kLineBytes; i += kThreads) {
      const int row = i / kLineBytes;
      const int column = i % kLineBytes;
      const bool inside = row_of(strip, row) < strip.rows && column < strip.span;
      *byte_of(bytes, row, column) = inside ? *scales_at(scales, strip, row, column) : 0;
    }
  }
  __syncthreads();

#pragma unroll
  for (int i = thread; i < kStrip * kLines; i += kThreads) {
    const Tile tile = at.tiles[i / kLines];
    const int line = i % kLines;
    if (tile.to < 0) continue;
    std::uint32_t word[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = line + j * kLines;
      const std::uint32_t* line_words = bytes + row * kLineWords + tile.from / 4;
      word[j] = __funnelshift_r(line_words[0], line_words[1], tile.from % 4 * 8);
      if (tile.valid < kColumns) word[j] &= (1u << 8 * tile.valid) - 1;
    }
    const Index first = tile.to + (strip.first_line + line) * 16;
    std::uint8_t* to = blocked + first;
    if (plan.wide_tiles && first + 16 <= plan.bytes) {
      *reinterpret_cast<uint4*>(to) = make_uint4(word[0], word[1], word[2], word[3]);
    } else {
      for (int b = 0; b < 16 && first + b < plan.bytes; ++b) {
        to[b] = static_cast<std::uint8_t>(word[b / 4] >> b % 4 * 8);
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    unswizzle_kernel(const std::uint8_t* blocked, TensorView<std::uint8_t, 3> scales,
                     LayoutPlan plan) {
  __shared__ Workplace at;
  const int thread = static_cast<int>(threadIdx.x);
  find_strip(plan, at);
  find_tiles(plan, at);
  const Strip strip = at.strip;
  std::uint32_t* const bytes = at.bytes;
  if (strip.rows <= 0 || strip.span == 0) return;

#pragma unroll
  for (int i = thread; i < kStrip * kLines; i += kThreads) {
    const Tile tile = at.tiles[i / kLines];
    const int line = i % kLines;
    if (tile.to < 0 || tile.to + kTileBytes > plan.bytes) continue;  // ends that decrease
    const std::uint8_t* from = blocked + tile.to + (strip.first_line + line) * 16;
    std::uint32_t word[4] = {};
    if (plan.wide_tiles) {
      const uint4 v = __ldcs(reinterpret_cast<const uint4*>(from));
      word[0] = v.x;
      word[1] = v.y;
      word[2] = v.z;
      word[3] = v.w;
    } else {
      for (int b = 0; b < 16; ++b) word[b / 4] |= std::uint32_t{from[b]} << b % 4 * 8;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = line + j * kLines;
      if (tile.from % 4 == 0 && tile.valid == kColumns) {
        bytes[row * kLineWords + tile.from / 4] = word[j];
      } else {
        for (int b = 0; b < tile.valid; ++b) {
          *byte_of(bytes, row, tile.from + b) = static_cast<std::uint8_t>(word[j] >> 8 * b);
        }
      }
    }
  }
  __syncthreads();

  if (plan.wide && strip.skip == 0 && strip.span % 16 == 0) {
#pragma unroll
    for (int i = thread; i < kOwnRows * kLineBytes / 16; i += kThreads) {
      const int row = i / (kLineBytes / 16);
      const int column = i % (kLineBytes / 16) * 16;
      if (row_of(strip, row) >= strip.rows || column >= strip.span) continue;
      const std::uint32_t* from = bytes + row * kLineWords + column / 4;
      *reinterpret_cast<uint4*>(scales_at(scales, strip, row, column)) =
          make_uint4(from[0], from[1], from[2], from[3]);
    }
    return;
  }
  for (int i = thread; i < kOwnRows * kLineBytes; i += kThreads) {
    const int row = i / kLineBytes;
    const int column = i % kLineBytes;
    if (row_of(strip, row) < strip.rows && column >= strip.skip && column < strip.span) {
      *scales_at(scales, strip, row, column) = *byte_of(bytes, row, column);
    }
  }
}

template <typename Void, typename OtherVoid>
LayoutPlan plan_layout(ScaleLayout layout, const AnyView<Void>& scales,
                       const AnyView<OtherVoid>& blocked, const Operand& group_ends,
                       const std::int64_t* before) {
  LayoutPlan plan{};
  plan.layout = layout;
  plan.rows = scales.extent[scales.rank - 2];
  plan.columns = scales.extent[scales.rank - 1];
  plan.row_tiles = ceil_div(plan.rows, kRows);
  plan.column_tiles = ceil_div(plan.columns, kColumns);
  const auto ends = group_ends.as<const std::int32_t, 1>();
  const Index groups = group_ends.given() ? group_ends.extent[0] : 0;
  plan.groups = {ends, before, kRows, plan.rows};
  if (layout == ScaleLayout::m_groups) plan.row_tiles += groups;
  if (layout == ScaleLayout::k_groups) {
    plan.groups = {ends, before, kColumns, plan.columns};
    plan.column_tiles += groups;
  }
  plan.strips = static_cast<std::uint32_t>(ceil_div(plan.column_tiles, kStrip));
  plan.bytes = blocked.elements();
  plan.wide = rows_aligned(scales, 16);
  plan.wide_tiles = aligned(blocked, 16);
  return plan;
}

Index blocks_of(const LayoutPlan& plan, Index experts) {
  return experts * plan.row_tiles * plan.strips * kHalves;
}

/// Units of rows or columns before each group.
void count_groups(DeviceBackend& backend, ScaleLayout layout, const Operand& group_ends, Index rows,
                  Index columns, std::int64_t* before) {
  if (!group_ends.given()) return;
  const bool by_rows = layout == ScaleLayout::m_groups;
  count_units(backend, group_ends, by_rows ? rows : columns, by_rows ? kRows : kColumns, before);
}

}  // namespace

void DeviceBackend::run(const SwizzleScales& op) {
  const Index groups = op.group_ends.given() ? op.group_ends.extent[0] : 0;
  const Index bytes = op.blocked.elements();
  if (bytes == 0) return;
  const Scratch<std::int64_t> before(*this, groups + 1);
  const auto plan = plan_layout(op.layout, op.scales, op.blocked, op.group_ends, before.data());
  count_groups(*this, op.layout, op.group_ends, plan.rows, plan.columns, before.data());
  auto* blocked = static_cast<std::uint8_t*>(op.blocked.data);
  const Index blocks = blocks_of(plan, op.scales.rank == 3 ? op.scales.extent[0] : 1);
  cudaLaunchAttribute early{};  // while the groups are counted
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(blocks);
  config.blockDim = kThreads;
  config.stream = stream();
  config.attrs = &early;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, swizzle_kernel, batched<const std::uint8_t>(op.scales), blocked,
                           plan),
        "cudaLaunchKernelEx");
  check_launch("swizzle_scales");
}

void DeviceBackend::run(const UnswizzleScales& op) {
  const Index groups = op.group_ends.given() ? op.group_ends.extent[0] : 0;
  const Scratch<std::int64_t> before(*this, groups + 1);
  const auto plan = plan_layout(op.layout, op.scales, op.blocked, op.group_ends, before.data());
  count_groups(*this, op.layout, op.group_ends, plan.rows, plan.columns, before.data());
  if (op.scales.elements() == 0) return;
  const Index blocks = blocks_of(plan, op.scales.rank == 3 ? op.scales.extent[0] : 1);
  unswizzle_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream()>>>(
      static_cast<const std::uint8_t*>(op.blocked.data), batched<std::uint8_t>(op.scales), plan);
  check_launch("unswizzle_scales");
}

}  // namespace mxo::cuda

// Scale bytes into 128x4 tiles and back: a block of threads moves one row of up to 32 tiles by way
// of shared memory.
#include "emu/cuda/group_tiles.cuh"
#include "emu/reference/elements.h"
#include "ops/scale_layouts.h"

namespace mxo::cuda {
namespace {

constexpr int kRows = static_cast<int>(kTileRows);
constexpr int kColumns = static_cast<int>(kTileColumns);
constexpr int kStrip = 32;  // tiles side by side
// A row of the strip, and what lies before its first column in the same 16 bytes.
constexpr int kLineBytes = kStrip * kColumns + 16;
constexpr int kLineWords = kLineBytes / 4 + 1;  // odd: 32 rows lie in 32 banks
constexpr int kLines = 32;                      // lines of 16 bytes in a tile

struct LayoutPlan {
  ScaleLayout layout;
  Index rows, columns;  // of one matrix of scales
  Index row_tiles;      // of one matrix; over all groups at most
  Index column_tiles;   // likewise
  Index strips;
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
  int rows;  ///< at most 0: nothing lies here
  int skip;  ///< columns at the front that are there for alignment only
  int span;
};
/// One tile of the strip.
struct Tile {
  Index to;   ///< its first byte in the blocked buffer; -1: there is none
  int from;   ///< its first column in the strip
  int valid;  ///< columns that are scales
};

__device__ Strip strip_of(const LayoutPlan& plan, Index row_tile, Index tile0) {
  Strip strip{};
  strip.first_row = row_tile * kRows;
  Index past = plan.rows;
  if (plan.layout == ScaleLayout::per_group_3d) {
    strip.expert = row_tile / plan.row_tiles;
    strip.first_row = row_tile % plan.row_tiles * kRows;
  } else if (plan.layout == ScaleLayout::m_groups) {
    const TileRows rows = plan.groups(row_tile);
    strip.first_row = rows.first;
    past = rows.past;
  }
  strip.rows = static_cast<int>(min(past - strip.first_row, Index{kRows}));
  strip.first_column = tile0 * kColumns;
  if (plan.layout == ScaleLayout::k_groups) {
    strip.first_column = plan.groups(tile0).first;
    if (plan.wide) strip.skip = static_cast<int>(strip.first_column % 16);
    strip.first_column -= strip.skip;
  }
  return strip;
}

__device__ Tile tile_of(const LayoutPlan& plan, const Strip& strip, Index row_tile, Index tile) {
  if (plan.layout == ScaleLayout::k_groups) {
    const Index g = plan.groups.group(tile);
    if (g == plan.groups.ends.extent[0]) return {-1, 0, 0};
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
  std::uint32_t bytes[kRows * kLineWords];
};

/// Finds strip and tiles; the threads of the block come back together.
__device__ void find_tiles(const LayoutPlan& plan, Workplace& at) {
  const Index row_tile = static_cast<Index>(blockIdx.x) / plan.strips;
  const Index tile0 = static_cast<Index>(blockIdx.x) % plan.strips * kStrip;
  if (threadIdx.x == 0) at.strip = strip_of(plan, row_tile, tile0);
  __syncthreads();
  if (threadIdx.x < kStrip) {
    Tile tile = tile_of(plan, at.strip, row_tile, tile0 + threadIdx.x);
    if (tile.to + kTileBytes > plan.bytes) tile.to = -1;  // ends that decrease
    at.tiles[threadIdx.x] = tile;
    const int past = __reduce_max_sync(0xFFFFFFFFu, tile.valid > 0 ? tile.from + tile.valid : 0);
    if (threadIdx.x == 0) at.strip.span = past;
  }
  __syncthreads();
}

__device__ std::uint8_t* byte_of(std::uint32_t* strip, int row, int column) {
  return reinterpret_cast<std::uint8_t*>(strip + row * kLineWords) + column;
}

template <typename T>
__device__ T* scales_at(const TensorView<T, 3>& scales, const Strip& strip, int row, int column) {
  return &scales(strip.expert, strip.first_row + row, strip.first_column + column);
}

__global__ void __launch_bounds__(kThreads) swizzle_kernel(TensorView<const std::uint8_t, 3> scales,
                                                           std::uint8_t* blocked, LayoutPlan plan) {
  __shared__ Workplace at;
  const int thread = static_cast<int>(threadIdx.x);
  find_tiles(plan, at);
  const Strip strip = at.strip;
  std::uint32_t* const bytes = at.bytes;
  if (strip.rows <= 0 || strip.span == 0) return;

  if (plan.wide) {  // bytes past the span are never used
#pragma unroll
    for (int i = thread; i < kRows * kLineBytes / 16; i += kThreads) {
      const int row = i / (kLineBytes / 16);
      const int column = i % (kLineBytes / 16) * 16;
      uint4 word{};
      if (row < strip.rows && column < strip.span) {
        word = __ldcs(reinterpret_cast<const uint4*>(scales_at(scales, strip, row, column)));
      }
      std::uint32_t* to = bytes + row * kLineWords + column / 4;
      to[0] = word.x;
      to[1] = word.y;
      to[2] = word.z;
      to[3] = word.w;
    }
  } else {
    for (int i = thread; i < kRows * kLineBytes; i += kThreads) {
      const int row = i / kLineBytes;
      const int column = i % kLineBytes;
      const bool inside = row < strip.rows && column < strip.span;
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
    std::uint8_t* to = blocked + tile.to + line * 16;
    if (plan.wide_tiles) {
      *reinterpret_cast<uint4*>(to) = make_uint4(word[0], word[1], word[2], word[3]);
    } else {
      for (int b = 0; b < 16; ++b) to[b] = static_cast<std::uint8_t>(word[b / 4] >> b % 4 * 8);
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    unswizzle_kernel(const std::uint8_t* blocked, TensorView<std::uint8_t, 3> scales,
                     LayoutPlan plan) {
  __shared__ Workplace at;
  const int thread = static_cast<int>(threadIdx.x);
  find_tiles(plan, at);
  const Strip strip = at.strip;
  std::uint32_t* const bytes = at.bytes;
  if (strip.rows <= 0 || strip.span == 0) return;

#pragma unroll
  for (int i = thread; i < kStrip * kLines; i += kThreads) {
    const Tile tile = at.tiles[i / kLines];
    const int line = i % kLines;
    if (tile.to < 0) continue;
    const std::uint8_t* from = blocked + tile.to + line * 16;
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
    for (int i = thread; i < kRows * kLineBytes / 16; i += kThreads) {
      const int row = i / (kLineBytes / 16);
      const int column = i % (kLineBytes / 16) * 16;
      if (row >= strip.rows || column >= strip.span) continue;
      const std::uint32_t* from = bytes + row * kLineWords + column / 4;
      *reinterpret_cast<uint4*>(scales_at(scales, strip, row, column)) =
          make_uint4(from[0], from[1], from[2], from[3]);
    }
    return;
  }
  for (int i = thread; i < kRows * kLineBytes; i += kThreads) {
    const int row = i / kLineBytes;
    const int column = i % kLineBytes;
    if (row < strip.rows && column >= strip.skip && column < strip.span) {
      *scales_at(scales, strip, row, column) = *byte_of(bytes, row, column);
    }
  }
}

/// Zeros behind the last group: `used` units of `unit_bytes` are taken.
__global__ void clear_rest_kernel(std::uint8_t* blocked, Index bytes, const std::int64_t* used,
                                  Index unit_bytes) {
  const Index step = grid_threads() * 16;
  for (Index i = *used * unit_bytes + grid_thread() * 16; i < bytes; i += step) {
    if (i + 16 <= bytes && reinterpret_cast<std::uintptr_t>(blocked + i) % 16 == 0) {
      *reinterpret_cast<uint4*>(blocked + i) = uint4{};
    } else {
      for (Index b = i; b < min(i + 16, bytes); ++b) blocked[b] = 0;
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
  plan.strips = ceil_div(plan.column_tiles, kStrip);
  plan.bytes = blocked.elements();
  plan.wide = rows_aligned(scales, 16);
  plan.wide_tiles = aligned(blocked, 16);
  return plan;
}

Index blocks_of(const LayoutPlan& plan, Index experts) {
  return experts * plan.row_tiles * plan.strips;
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
  if (op.scales.elements() > 0) {
    swizzle_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream()>>>(
        batched<const std::uint8_t>(op.scales), blocked, plan);
  }
  if (op.group_ends.given()) {
    const Index unit = op.layout == ScaleLayout::m_groups
                           ? ceil_div(plan.columns, kColumns) * kTileBytes
                           : plan.row_tiles * kTileBytes;
    clear_rest_kernel<<<std::min(blocks_for(bytes, 16 * kThreads), 2048u), kThreads, 0, stream()>>>(
        blocked, bytes, before.data() + groups, unit);
  }
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

// swizzle_scales and unswizzle_scales: rows of 128x4 tiles over threads.
#include "ops/scale_layouts.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/layout_kernels.h"
#include "emu/reference/blocked_parts.h"
#include "emu/reference/elements.h"

namespace mxo::cpu {
namespace {

/// 128 rows (or what is left of them) of one blocked matrix.
struct TileRow {
  Index expert, row, column, rows, columns;  ///< of the scales
  Index base;                                ///< of the tiles' bytes
};

std::vector<TileRow> tile_rows(ScaleLayout layout, const Operand& scales,
                               const Operand& group_ends) {
  std::vector<TileRow> all;
  for_each_part(layout, scales, group_ends, [&](const BlockedPart& part) {
    const Index bytes = blocked_bytes(kTileRows, part.columns);
    for (Index r = 0; r < part.rows && part.columns > 0; r += kTileRows) {
      all.push_back({part.expert, part.first_row + r, part.first_column,
                     std::min(kTileRows, part.rows - r), part.columns,
                     part.base + r / kTileRows * bytes});
    }
  });
  return all;
}

constexpr Index kFourTiles = 4 * kTileColumns;
/// Columns of a tile row that the kernels may take.
Index whole_columns(const TileRow& t, Index column_stride) {
  return column_stride == 1 && t.rows == kTileRows ? t.columns / kFourTiles * kFourTiles : 0;
}

}  // namespace

void CpuBackend::run(const SwizzleScales& op) {
  const auto scales = batched<const std::uint8_t>(op.scales);
  auto* blocked = static_cast<std::uint8_t*>(op.blocked.data);
  const std::vector<TileRow> work = tile_rows(op.layout, op.scales, op.group_ends);
  const LayoutKernels& kernels = layout_kernels(isa());
  const auto count = static_cast<Index>(work.size());
  const auto team = static_cast<int>(std::clamp<Index>(count, 1, threads()));
  Index used = 0;
  if (count > 0) used = work.back().base + blocked_bytes(kTileRows, work.back().columns);
#pragma omp parallel for num_threads(team) schedule(static) firstprivate(ieee_thread)
  for (Index i = 0; i < count; ++i) {
    const TileRow& t = work[static_cast<std::size_t>(i)];
    const Index tiles = ceil_div(t.columns, kTileColumns);
    const Index whole = whole_columns(t, scales.stride[2]);
    std::uint8_t* out = blocked + t.base;
    if (whole > 0) {
      kernels.swizzle(&scales(t.expert, t.row, t.column), scales.stride[1], whole, out);
    }
    const Index done = whole / kTileColumns * kTileBytes;
    std::memset(out + done, 0, static_cast<std::size_t>(tiles * kTileBytes - done));
    for (Index r = 0; r < t.rows; ++r) {
      for (Index c = whole; c < t.columns; ++c) {
        out[blocked_offset(r, c, tiles)] = scales(t.expert, t.row + r, t.column + c);
      }
    }
  }
  if (used < op.blocked.elements()) {
    std::memset(blocked + used, 0, static_cast<std::size_t>(op.blocked.elements() - used));
  }
}

void CpuBackend::run(const UnswizzleScales& op) {
  const auto scales = batched<std::uint8_t>(op.scales);
  const auto* blocked = static_cast<const std::uint8_t*>(op.blocked.data);
  const std::vector<TileRow> work = tile_rows(op.layout, to_read(op.scales), op.group_ends);
  const LayoutKernels& kernels = layout_kernels(isa());
  const auto count = static_cast<Index>(work.size());
  const auto team = static_cast<int>(std::clamp<Index>(count, 1, threads()));
#pragma omp parallel for num_threads(team) schedule(static) firstprivate(ieee_thread)
  for (Index i = 0; i < count; ++i) {
    const TileRow& t = work[static_cast<std::size_t>(i)];
    const Index tiles = ceil_div(t.columns, kTileColumns);
    const Index whole = whole_columns(t, scales.stride[2]);
    const std::uint8_t* in = blocked + t.base;
    if (whole > 0) {
      kernels.unswizzle(in, whole, &scales(t.expert, t.row, t.column), scales.stride[1]);
    }
    for (Index r = 0; r < t.rows; ++r) {
      for (Index c = whole; c < t.columns; ++c) {
        scales(t.expert, t.row + r, t.column + c) = in[blocked_offset(r, c, tiles)];
      }
    }
  }
}

}  // namespace mxo::cpu

// Blocks within one row or one column, with e8m0 scales: tiles over threads, kernels over tiles.
#include "emu/cpu/quantize_line_blocks.h"

#include <omp.h>

#include <algorithm>
#include <memory>

#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/isa.h"
#include "emu/cpu/layout_kernels.h"
#include "emu/cpu/line_blocks_plan.h"
#include "emu/cpu/streaming.h"
#include "formats/tensor.h"

namespace mxo::cpu {
namespace {

constexpr Index kStreamedBytes = Index{4} << 20;  // results larger than this leave the caches
/// Of codes turned at once, which stay in first caches: two cache lines of each column.
constexpr Index kStripRows = 128;
constexpr Index kStripColumns = 64;

Tile<const std::byte> to_read(Tile<std::byte> tile) {
  return {tile.data, tile.stride_r, tile.stride_k};
}

std::uint8_t* bytes(std::byte* data) { return reinterpret_cast<std::uint8_t*>(data); }

/// Calls work(number, workspace) for every tile of the plan, each thread with its own workspace.
template <typename Work>
void for_each_tile(const LineBlocksPlan& plan, int threads, Work work) {
  const Index tiles = plan.tiles();
  const auto team = static_cast<int>(std::clamp<Index>(tiles, 1, threads));
  const std::size_t each = plan.workspace();
  const auto memory =
      std::make_unique_for_overwrite<std::byte[]>(each * static_cast<std::size_t>(team) + 63);
  std::byte* workspace = memory.get() + -reinterpret_cast<std::uintptr_t>(memory.get()) % 64;
#pragma omp parallel num_threads(team) firstprivate(ieee_thread)
  {
#pragma omp for schedule(static)
    for (Index i = 0; i < tiles; ++i) {
      work(i, workspace + each * static_cast<std::size_t>(omp_get_thread_num()));
    }
    finish_streams();
  }
}

/// Scale rows and columns that belong to a tile.
struct ScaleExtent {
  Index row, column, rows, columns;
  ScaleExtent(const LineBlocksPlan& plan, const LineBlocksTile& t)
      : row(t.row), column(t.column), rows(t.rows), columns(t.columns) {
    Index& first = plan.axis == BlockAxis::columns ? column : row;
    Index& count = plan.axis == BlockAxis::columns ? columns : rows;
    first /= plan.block;
    count /= plan.block;
  }
};

void quantize_tile(const LineBlocksPlan& plan, const LayoutKernels& layouts,
                   const QuantizeKernels& kernels, const MxRule& rule, Index number,
                   std::byte* workspace) {
  const LineBlocksTile t(plan, number);
  const ScaleExtent s(plan, t);
  const Index size = plan.x.element_bytes;
  const Tile<std::byte> final_codes = plan.codes.at(t.expert, t.row, t.column);
  const Tile<std::byte> final_scales = plan.scales.at(t.expert, s.row, s.column);
  const Tile<std::byte> scales = plan.copies_scales ? plan.scales_copy(workspace) : final_scales;
  Tile<std::byte> x = plan.x.at(t.expert, t.row, t.column);
  if (plan.copies_x) {
    const Tile<std::byte> copy = plan.x_copy(workspace);
    copy_tile(layouts, to_read(x), copy, t.rows, t.columns, static_cast<std::size_t>(size));
    x = copy;
  }
  const Index elements = plan.x.extent[0] * plan.x.extent[1] * plan.x.extent[2];
  const Stores large = elements >= kStreamedBytes ? Stores::streamed : Stores::cached;
  Tile<std::byte> codes = plan.copies_codes ? plan.codes_copy(workspace) : final_codes;
  const bool lines = reinterpret_cast<std::uintptr_t>(codes.data) % 64 == 0 &&
                     (t.rows == 1 || codes.stride_r % 64 == 0);
  const Stores stores = lines && !plan.copies_codes ? large : Stores::cached;
  const auto copy_back = [&](Index r, Index k, Index rows, Index columns) {
    std::byte* to = final_codes.data + r * final_codes.stride_r + k * final_codes.stride_k;
    copy_tile(layouts, to_read(codes), {to, final_codes.stride_r, final_codes.stride_k}, rows,
              columns, 1, large);
  };

  if (plan.axis == BlockAxis::columns) {
    for (Index r = 0; r < t.rows; ++r) {
      kernels.mx_run(x.data + r * x.stride_r * size, s.columns, plan.block, rule,
                     bytes(codes.data + r * codes.stride_r),
                     bytes(scales.data + r * scales.stride_r), stores);
    }
    if (plan.copies_codes) copy_back(0, 0, t.rows, t.columns);
  } else {
    const LineBlocksTile after(plan, number + 1);  // past the last tile: some address, never read
    const std::byte* below =
        plan.copies_x ? x.data : plan.x.at(after.expert, after.row, after.column).data;
    const Index width = plan.copies_codes ? kStripColumns : t.columns;
    const Index height =
        plan.copies_codes ? std::max(plan.block, kStripRows / plan.block * plan.block) : plan.block;
    if (plan.copies_codes) codes.stride_r = width;
    // Of whole strips: the lines of one go out while the next one is coded.
    const std::uintptr_t places = reinterpret_cast<std::uintptr_t>(final_codes.data) |
                                  static_cast<std::uintptr_t>(final_codes.stride_k);
    const bool in_lines = plan.copies_codes && large == Stores::streamed && places % 64 == 0 &&
                          height == kStripRows && plan.block % 2 == 0 && t.rows % height == 0 &&
                          t.columns % width == 0;
    const Tile<std::byte> turned{codes.data + height * width, 1, height};
    std::byte* turned_to = nullptr;  // of the strip before
    for (Index top = 0; top < t.rows; top += height) {
      const Index rows = std::min(height, t.rows - top);
      for (Index k = 0; k < t.columns; k += width) {
        const Index columns = std::min(width, t.columns - k);
        const std::byte* here = x.data + (top * x.stride_r + k) * size;
        const std::byte* next = here + width * size;
        const bool last_column = k + width >= t.columns;
        const bool last_row = top + height >= t.rows;
        if (last_column) next = last_row ? below : x.data + (top + height) * x.stride_r * size;
        std::byte* to = plan.copies_codes ? codes.data : codes.data + top * codes.stride_r + k;
        for (Index r = 0; r < rows; r += plan.block) {
          const Index b = (top + r) / plan.block;
          Beside beside{next + r * x.stride_r * size};
          if (turned_to != nullptr) {
            beside.lines = bytes(turned.data + r * 64);
            beside.to = bytes(turned_to + r / 2 * final_codes.stride_k);
            beside.to_step = final_codes.stride_k;
          }
          kernels.mx_panel(here + r * x.stride_r * size, x.stride_r, plan.block, columns, rule,
                           bytes(to + r * codes.stride_r), codes.stride_r,
                           bytes(scales.data + b * scales.stride_r + k), stores, beside);
        }
        if (in_lines && !(last_column && last_row)) {
          copy_tile(layouts, to_read(codes), turned, rows, columns, 1);
          turned_to = final_codes.data + top + k * final_codes.stride_k;
        } else if (plan.copies_codes) {
          copy_back(top, k, rows, columns);
        }
      }
    }
  }
  if (plan.copies_scales) {
    copy_tile(layouts, to_read(scales), final_scales, s.rows, s.columns, 1);
  }
}

void dequantize_tile(const LineBlocksPlan& plan, const LayoutKernels& layouts,
                     const DecodeKernel& kernels, Index number, std::byte* workspace) {
  const LineBlocksTile t(plan, number);
  const ScaleExtent s(plan, t);
  const Index size = plan.x.element_bytes;
  const Tile<std::byte> final_x = plan.x.at(t.expert, t.row, t.column);
  Tile<std::byte> codes = plan.codes.at(t.expert, t.row, t.column);
  const Tile<std::byte> scales = plan.scales.at(t.expert, s.row, s.column);
  if (plan.copies_codes) {
    const Tile<std::byte> copy = plan.codes_copy(workspace);
    copy_tile(layouts, to_read(codes), copy, t.rows, t.columns, 1);
    codes = copy;
  }
  const Tile<std::byte> x = plan.copies_x ? plan.x_copy(workspace) : final_x;
  const auto scale = [&](Index r, Index k) {
    const std::byte* at = scales.data + r * scales.stride_r + k * scales.stride_k;
    return decode(E8M0{static_cast<std::uint8_t>(*at)});
  };

  if (plan.axis == BlockAxis::columns) {
    for (Index r = 0; r < t.rows; ++r) {
      for (Index b = 0; b < s.columns; ++b) {
        const Index k = b * plan.block;
        kernels.run(bytes(codes.data + r * codes.stride_r + k), plan.block, scale(r, b),
                    x.data + (r * x.stride_r + k) * size);
      }
    }
  } else {
    float multipliers[kPanelColumns];
    for (Index r = 0; r < t.rows; ++r) {
      if (r % plan.block == 0) {
        for (Index k = 0; k < t.columns; ++k) multipliers[k] = scale(r / plan.block, k);
      }
      kernels.columns(bytes(codes.data + r * codes.stride_r), t.columns, multipliers,
                      x.data + r * x.stride_r * size);
    }
  }
  if (plan.copies_x) {
    copy_tile(layouts, to_read(x), final_x, t.rows, t.columns, static_cast<std::size_t>(size));
  }
}

LineBlocksPlan plan_of(const Plane& x, const Plane& codes, const Plane& scales,
                       const BlockExtents& block, int threads) {
  const bool columns = block.rows == 1;
  return {x,
          codes,
          scales,
          columns ? BlockAxis::columns : BlockAxis::rows,
          columns ? block.columns : block.rows,
          threads};
}

/// A rule treats every binade of bf16 alike: what it does to that of 1 says it all.
MxRule rule_of(const ScaleRule& rule, Dtype codes) {
  MxRule mx{rule.mode, rule.e8m0};
  visit_minifloat8(codes, [&](auto tag) {
    const auto byte_of = [&](int fraction) {
      const float amax = decode(BF16{static_cast<std::uint16_t>(127 << 7 | fraction)});
      return int{shared_scale<decltype(tag)::type::spec>(amax, rule.mode, rule.e8m0).bits};
    };
    mx.less = static_cast<std::int16_t>(127 - byte_of(0));
    while (mx.up < 127 && byte_of(127 - mx.up) > byte_of(0)) ++mx.up;
  });
  return mx;
}

}  // namespace

void quantize_line_blocks(const Quantize& op, Isa isa, int threads) {
  const LineBlocksPlan plan =
      plan_of(plane_of(op.x), plane_of(op.to.codes), plane_of(op.to.scales), op.to.block, threads);
  const QuantizeKernels& kernels =
      encode_kernels(isa).quantize[format_index(op.to.codes.dtype)][input_index(op.x.dtype)];
  const MxRule rule = rule_of(op.rule, op.to.codes.dtype);
  for_each_tile(plan, threads, [&](Index tile, std::byte* workspace) {
    quantize_tile(plan, layout_kernels(isa), kernels, rule, tile, workspace);
  });
}

void dequantize_line_blocks(const Dequantize& op, Isa isa, int threads) {
  const LineBlocksPlan plan = plan_of(plane_of(op.x), plane_of(op.from.codes),
                                      plane_of(op.from.scales), op.from.block, threads);
  const DecodeKernel& kernels =
      decode_kernels(isa).to[format_index(op.from.codes.dtype)][input_index(op.x.dtype)];
  for_each_tile(plan, threads, [&](Index tile, std::byte* workspace) {
    dequantize_tile(plan, layout_kernels(isa), kernels, tile, workspace);
  });
}

}  // namespace mxo::cpu

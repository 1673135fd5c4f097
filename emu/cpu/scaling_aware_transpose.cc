// scaling_aware_transpose: tiles over threads, codes through a table of each shift.
#include "emu/reference/scaling_aware_transpose.h"

#include <algorithm>
#include <vector>

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/tiles.h"

namespace mxo::cpu {
namespace {

/// Larger shifts give the same codes as this one: 448 * 2^-19 rounds to zero, 240 * 2^-19 in
/// e4m3fnuz.
constexpr int kLastShift = 19;

/// codes[shift][code] under one rule.
struct ShiftTable {
  std::uint8_t codes[kLastShift + 1][256];
  template <typename T>
  ShiftTable(T, Underflow underflow) {
    for (int shift = 0; shift <= kLastShift; ++shift) {
      for (int code = 0; code < 256; ++code) {
        codes[shift][code] =
            shifted_code(T{static_cast<std::uint8_t>(code)}, shift, underflow).bits;
      }
    }
  }
};

const ShiftTable& table_of(Dtype codes, Underflow underflow) {
  static const ShiftTable tables[] = {ShiftTable(E4M3{}, Underflow::round),
                                      ShiftTable(E4M3{}, Underflow::keep_mantissa),
                                      ShiftTable(E4M3{}, Underflow::flush)};
  static const ShiftTable fnuz(E4M3Fnuz{}, Underflow::round);
  return codes == Dtype::e4m3fnuz ? fnuz : tables[static_cast<int>(underflow)];
}

void transpose_quickly(const ScalingAwareTranspose& op, const LayoutKernels& layouts,
                       const ShiftTable& table, const TransposeTile& rows, Index block) {
  const auto scales = op.scales.as<const float, 2>();
  const auto scales_out = op.scales_out.as<float, 2>();
  const Index first = block * kScaledBlock;
  const Index columns = std::min(kScaledBlock, op.codes.extent[1] - first);
  const Index height = rows.past - rows.first;
  float top = 0.0f;
  for (Index r = rows.first; r < rows.past; ++r) top = std::max(top, scales(r, block));
  for (Index k = 0; k < columns; ++k) scales_out(rows.tile, first + k) = top;

  alignas(64) std::byte tile[kScaledBlock * kScaledBlock];
  const auto* from = static_cast<const std::byte*>(op.codes.data) +
                     rows.first * op.codes.stride[0] + first * op.codes.stride[1];
  copy_tile(layouts, {from, op.codes.stride[0], op.codes.stride[1]}, {tile, kScaledBlock, 1},
            height, columns, 1);
  for (Index r = 0; r < height; ++r) {
    const int shift = exponent_field(top) - exponent_field(scales(rows.first + r, block));
    if (shift == 0 && op.underflow == Underflow::round) continue;  // every code stays
    const std::uint8_t* moved = table.codes[std::min(shift, kLastShift)];
    for (std::byte* code = tile + r * kScaledBlock; code < tile + r * kScaledBlock + columns;
         ++code) {
      *code = std::byte{moved[std::to_integer<int>(*code)]};
    }
  }
  auto* to = static_cast<std::byte*>(op.codes_out.data) + first * op.codes_out.stride[0] +
             rows.first * op.codes_out.stride[1];
  copy_tile(layouts, {tile, 1, kScaledBlock}, {to, op.codes_out.stride[0], op.codes_out.stride[1]},
            columns, height, 1);
}

}  // namespace

void CpuBackend::run(const ScalingAwareTranspose& op) {
  std::vector<TransposeTile> tiles;
  for_each_tile(op.group_ends, [&](const TransposeTile& tile) { tiles.push_back(tile); });
  const LayoutKernels& layouts = layout_kernels(isa());
  const ShiftTable& table = table_of(op.codes.dtype, op.underflow);
  const Index blocks = op.scales.extent[1];
  const Index work = static_cast<Index>(tiles.size()) * blocks;
#pragma omp parallel for num_threads(threads_) firstprivate(ieee_thread)
  for (Index i = 0; i < work; ++i) {
    transpose_quickly(op, layouts, table, tiles[static_cast<std::size_t>(i / blocks)], i % blocks);
  }
}

}  // namespace mxo::cpu

// High precision to FP8 with f32 scales: one per row, per column of a group, or per 128-block.
#pragma once

#include "formats/any_view.h"
#include "formats/scaled_block.h"
#include "ops/quantize.h"

namespace mxo {

/// One scale per row, or per column of each group:
///   amax = max |x_i| over the row (the column of the group),  s = f32_scale(amax, rule),
///   code_i = sat(fl32(x_i * s)),  scale = fl32(1 / s)
///
///   x           f32 or bf16, any strides
///   axis columns (-1):  x, codes [.., K], rank 1 to 4;  scales f32 [..]; no group_ends
///   axis rows (-2):     x, codes [R, K];  group_ends i32 [E];  scales f32 [E, K]
///   codes       e4m3, e4m3fnuz, e5m2 or e5m2fnuz
///
/// Any extent may be 0.  A row without elements and an empty group have amax 0 and still get a
/// scale.  Rows of codes at or beyond the last end are left untouched.  NaN, Inf and zero:
/// F32ScaleRule in formats/scaled_block.h.
/// Errors, before any byte is written: Error(shape), Error(dtype), Error(argument) for epsilon.
/// Source: pytorch/ao 36027d8, fp8_grouped_mm.py and the jagged row-wise scale kernels.
struct QuantizeRowwise {
  Operand x;
  Operand group_ends;
  Result codes;
  Result scales;
  BlockAxis axis = BlockAxis::columns;
  F32ScaleRule rule = kTorchaoRowwise;
};

/// The extent of a block that shares an f32 scale.
enum class BlockShape : std::uint8_t { row_1x128, column_128x1, square_128x128 };

inline constexpr Index kScaledBlock = 128;

MXO_HD constexpr Index block_rows(BlockShape shape) {
  return shape == BlockShape::row_1x128 ? 1 : kScaledBlock;
}
MXO_HD constexpr Index block_columns(BlockShape shape) {
  return shape == BlockShape::column_128x1 ? 1 : kScaledBlock;
}

/// One scale per block of x, blocks starting at element (0, 0); the last block of a row or
/// column holds what is left (as if padded with zeros, which amax does not see):
///   amax = max |x_i| over the block,  s = f32_scale(amax, rule),
///   code_i = sat(fl32(x_i * s)),  scale = fl32(1 / s)
///
///   x, codes    [R, K] or [E, R, K] (blocks restart at each expert)
///   scales f32  1x128: [.., R, ceil(K/128)]   128x1: [.., ceil(R/128), K]
///               128x128: [.., ceil(R/128), ceil(K/128)]
///   group_ends  optional, 128x1 of rank 2 only: blocks restart at each group.  Then scales is
///               [at least G, K], G = sum over groups of ceil(rows / 128), groups in order.
///
/// Rows of codes at or beyond the last end, and rows of scales at or beyond G, are left
/// untouched.  Any extent may be 0.  NaN, Inf and zero: F32ScaleRule in formats/scaled_block.h.
/// Errors, before any byte is written: Error(shape), Error(dtype), Error(argument) for epsilon.
/// Source: TransformerEngine d0067d0, blockwise kernels; pytorch/ao 36027d8, blockwise_fp8.
struct QuantizeBlockwise {
  Operand x;
  Operand group_ends;
  Result codes;
  Result scales;
  BlockShape block = BlockShape::row_1x128;
  F32ScaleRule rule = kTorchaoBlockwise;
};

void quantize_rowwise(Backend& backend, const QuantizeRowwise& op);
void quantize_blockwise(Backend& backend, const QuantizeBlockwise& op);

/// Throws what quantize_blockwise() would, in the name of `check`.
void check_quantize_blockwise(const Check& check, const Backend& backend,
                              const QuantizeBlockwise& op);

/// Sum over groups of ceil(rows / 128), for ends that lie in host memory.
Index blocks_of_groups(const Operand& group_ends);

}  // namespace mxo

// A matrix product as a machine sees it: two sets of lines along K, and where the result goes.
#pragma once

#include <vector>

#include "emu/sums/dot_operand.h"
#include "ops/fused_dot.h"
#include "ops/grouped_matmul.h"

namespace mxo {

/// Lines of one factor; element (i, k) lies at start + i * line_step + k * k_step.
struct MachineLines {
  Operand codes;
  Index start = 0;
  Index line_step = 0;
  Index k_step = 0;
  /// Scale of block b of line i: at scale_start + i / lines_per_scale * scale_line_step +
  /// b * scale_block_step.  Not given: 1.
  Operand scales;
  Index scale_start = 0;
  Index scale_line_step = 0;
  Index scale_block_step = 0;
  Index lines_per_scale = 1;

  Index scale_at(Index i, Index block) const {
    return scale_start + i / lines_per_scale * scale_line_step + block * scale_block_step;
  }
  float f32_scale(Index i, Index block) const {
    return static_cast<const float*>(scales.data)[scale_at(i, block)];
  }
  E8M0 e8m0_scale(Index i, Index block) const {
    return static_cast<const E8M0*>(scales.data)[scale_at(i, block)];
  }
};

/// out[i, j] = sum over k of a[i, k] * b[j, k]; i < m, j < n.
struct MachineProduct {
  Accumulation how;
  Scaling scaling = Scaling::none;
  MachineLines a;
  MachineLines b;
  Index m = 0;
  Index n = 0;
  Index k = 0;
  Operand c;  ///< f32, at start + i * row + j * column as `out`; not given: zero
  Index c_start = 0;
  Result out;  ///< f32 or bf16
  Index out_start = 0;
  Index out_row = 0;
  Index out_column = 0;
  Index c_row = 0;
  Index c_column = 0;

  /// Neighbours along K after which sums restart and are scaled; 0 for none.
  Index block() const { return scaling == Scaling::blockwise ? kScaleTile : 0; }
  /// The type of what is multiplied: bf16 where block scales are folded into the operands.
  Dtype operand_type(const MachineLines& lines) const {
    const bool folded = scaling == Scaling::mx && how.scales == ScalePlace::operand;
    return folded ? Dtype::bf16 : lines.codes.dtype;
  }
};

/// One product per group (or batch entry); groups without rows are among them.
std::vector<MachineProduct> products_of(const GroupedMatmul& op);
std::vector<MachineProduct> products_of(const GroupedMatmulWgrad& op);
std::vector<MachineProduct> products_of(const FusedDot& op);

/// Element (i, k) as the machine multiplies it.
DotOperand machine_operand(const MachineProduct& product, const MachineLines& lines, Index i,
                           Index k);

/// (v * sx) * sw in f32 where scales are row-wise; +0 for an empty sum.
float machine_epilogue(const MachineProduct& product, Index i, Index j, float v);

/// Writes one output, rounded to its type.
inline void store_output(const MachineProduct& product, Index i, Index j, float v) {
  const Index at = product.out_start + i * product.out_row + j * product.out_column;
  if (product.out.dtype == Dtype::f32) {
    static_cast<float*>(product.out.data)[at] = v;
  } else {
    static_cast<BF16*>(product.out.data)[at] = from_float<BF16>(v);
  }
}

}  // namespace mxo

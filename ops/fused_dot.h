// One instruction of a matrix unit, or a chain of them.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "formats/any_view.h"
#include "ops/sums.h"

namespace mxo {

class Backend;

/// d[i, m, n] = c[i, m, n] + sum over k of a[i, m, k] * b[i, n, k], as `sum` adds.
///
///   a         [B, M, K]     codes (e4m3, e5m2, e4m3fnuz, e5m2fnuz), bf16 or f16
///   b         [B, N, K]     the same; codes may differ from those of a
///   c, d      [B, M, N]     f32
///   a_scales  [B, M, K/32]  e8m0, b_scales [B, N, K/32]: both or neither; codes only
///
/// One chain over K from the accumulator c, K beyond an instruction in further instructions;
/// a sum that promotes starts its f32 sum from c and its instructions from zero.  In a sum of
/// blocks c is in the first, and the blocks are added by its fold with scales of 1.  With K = 0 d
/// is c.  Any extent may be 0; any strides.  A NaN is the machine's, 7FFFFFFF for NVIDIA.
///
/// Errors, before any byte is written: Error(shape), Error(dtype); Error(unsupported) if `sum`
/// is not a machine, or wants block scales that are not given.
/// Source: docs/machine_models.md.
struct FusedDot {
  Operand a;
  Operand b;
  Operand c;
  Operand a_scales;
  Operand b_scales;
  Accumulation sum;
  Result d;
};

void fused_dot(Backend& backend, const FusedDot& op);

}  // namespace mxo

// Matrix products over groups of rows: forward (and dgrad), and the weight gradient.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "ops/scaled_tensor.h"
#include "ops/sums.h"

namespace mxo {

class Backend;

/// y[r, n] = sum over k of x[r, k] * w[g, n, k], for row r of group g; an element is its code times
/// its scale.
///
///   x           [R, K]       plain bf16, f16 or f32; or 8-bit codes (e4m3, e4m3fnuz, e5m2,
///                            e5m2fnuz) with scales, e8m0 or f32, of blocks of any extents
///   w           [E, N, K]    the same; scales of each group's matrix
///   group_ends  i32 [E]      end row of each group, inclusive cumulative
///   y           [R, N]       bf16 or f32; rows from group_ends[E-1] on are left untouched
///
/// Scales are [ceil(R/r), ceil(K/c)] and [E, ceil(N/r), ceil(K/c)] for blocks of r x c
/// (shape_of_scales); trailing axes of extent 1 may be left out, and a leading axis of extent 1
/// stands for every group.  x and w have blocks of their own.  Where scales multiply, and where
/// partial sums restart, is the sum's (Fold).
///
/// Any strides; any extent may be 0; an empty sum is +0 whatever the scales.  dgrad is the same
/// operator: x := dy and w := the weight quantised along N, its last two axes exchanged.
///
/// Errors, before any byte is written: Error(shape) ranks, extents, scales that fit no block, K no
/// multiple of the block of e8m0 scales, bad group ends, y sharing memory with an operand;
/// Error(dtype); Error(argument) a fold or block that the scales do not allow; Error(unsupported)
/// if the sum does not take such operands or the backend does not honour it.
/// Source: pytorch/ao 36027d8, mxfp8 grouped_mm; OCP MX v1.0, 6.2; docs/numerics.md.
struct GroupedMatmul {
  ScaledTensor x;
  ScaledTensor w;
  Operand group_ends;
  Accumulation sum = kExact;
  Result y;
};

/// dw[g, n, k] = sum over the rows r of group g of dy[r, n] * x[r, k].
///
///   dy          [R, N]       as x of GroupedMatmul
///   x           [R, K]
///   group_ends  i32 [E]      multiples of the rows of a block of e8m0 scales
///   dw          [E, N, K]    bf16 or f32; an empty group gives zeros
///
/// With main_grad, dw[g, n, k] = fl32(main_grad[g, n, k] + the sum rounded to `product`): f32 adds
/// to what a matrix unit summed, as a product with beta = 1 does; bf16 to a gradient that was
/// stored.
///
///   main_grad   f32 [E, N, K], optional; dw is then f32, and may be main_grad itself
///
/// Blocks of r x c restart at each group: scales are [G, ceil(N/c)], G = sum over groups of
/// ceil(rows/r) or more, and [E, ceil(N/c)] where a block has all rows of its group.
/// Everything else as GroupedMatmul, with dy in the place of its x and x in the place of its w.
/// Source of main_grad: Megatron-LM d98e8a64, gradient_accumulation_fusion (f32) and the hook of
/// its DistributedDataParallel (bf16); TransformerEngine d0067d0, fuse_wgrad_accumulation (f32).
struct GroupedMatmulWgrad {
  ScaledTensor dy;
  ScaledTensor x;
  Operand group_ends;
  Accumulation sum = kExact;
  Result dw;
  Operand main_grad = {};
  Dtype product = Dtype::f32;  ///< what is added to main_grad: f32 or bf16
};

void grouped_matmul(Backend& backend, const GroupedMatmul& op);
void grouped_matmul_wgrad(Backend& backend, const GroupedMatmulWgrad& op);

}  // namespace mxo

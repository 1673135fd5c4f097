// Matrix products over groups of rows: forward (and dgrad), and the weight gradient.
#pragma once

#include "formats/any_view.h"
#include "ops/contraction_view.h"

namespace mxo {

class Backend;

/// What turns a stored code into the value that is multiplied.
enum class Scaling : std::uint8_t {
  mx,         ///< 8-bit codes, one e8m0 scale for 32 neighbours along the contracted axis
  none,       ///< bf16 operands, no scales
  rowwise,    ///< 8-bit codes, one f32 scale for a whole contracted row
  blockwise,  ///< 8-bit codes, one f32 scale for 128 neighbours (a 128x128 tile of w)
};

/// y[r, n] = sum over k of x[r, k] * w[g, n, k], for row r of group g.
///
///   group_ends  i32 [E]      end row of each group, inclusive cumulative
///   y           [R, N]       bf16 or f32; rows from group_ends[E-1] on are left untouched
///
///   scaling     x            x_scales               w               w_scales
///   mx          codes [R, K] e8m0 [R, K/32]         codes [E, N, K] e8m0 [E, N, K/32]
///   none        bf16 [R, K]  not given              bf16 [E, N, K]  not given
///   rowwise     codes [R, K] f32 [R]                codes [E, N, K] f32 [E, N]
///   blockwise   codes [R, K] f32 [R, ceil(K/128)]   codes [E, N, K] f32 [E, ceil(N/128),
///   ceil(K/128)]
///
/// Codes are e4m3, e4m3fnuz, e5m2 or e5m2fnuz, x and w each its own.  Any strides; any extent
/// may be 0; an empty sum is +0 whatever the scales.  dgrad is the same operator: x := dy and
/// w := the weight quantised along N, its last two axes exchanged.
///
/// Errors, before any byte is written: Error(shape) ranks, extents, K not a multiple of 32 under
/// mx, bad group ends, y sharing memory with an operand; Error(dtype); Error(unsupported) if the
/// backend does not honour `sum`.
/// Source: pytorch/ao 36027d8, mxfp8 grouped_mm; OCP MX v1.0, 6.2; docs/numerics.md.
struct GroupedMatmul {
  Operand x;
  Operand x_scales;
  Operand w;
  Operand w_scales;
  Operand group_ends;
  Scaling scaling = Scaling::mx;
  Accumulation sum = kExact;
  Result y;
};

/// dw[g, n, k] = sum over the rows r of group g of dy[r, n] * x[r, k].
///
///   group_ends  i32 [E]      under mx every end is a multiple of 32
///   dw          [E, N, K]    bf16 or f32; an empty group gives zeros
///
///   scaling     dy           dy_scales        x            x_scales
///   mx          codes [R, N] e8m0 [R/32, N]   codes [R, K] e8m0 [R/32, K]
///   none        bf16 [R, N]  not given        bf16 [R, K]  not given
///   rowwise     codes [R, N] f32 [E, N]       codes [R, K] f32 [E, K]
///   blockwise   codes [R, N] f32 [G, N]       codes [R, K] f32 [G, K]
///
/// G = sum over groups of ceil(rows/128): tiles restart at each group.  Everything else as
/// GroupedMatmul, with dy in the place of its x and x in the place of its w.
struct GroupedMatmulWgrad {
  Operand dy;
  Operand dy_scales;
  Operand x;
  Operand x_scales;
  Operand group_ends;
  Scaling scaling = Scaling::mx;
  Accumulation sum = kExact;
  Result dw;
};

void grouped_matmul(Backend& backend, const GroupedMatmul& op);
void grouped_matmul_wgrad(Backend& backend, const GroupedMatmulWgrad& op);

}  // namespace mxo

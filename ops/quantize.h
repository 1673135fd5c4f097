// High precision to 8-bit codes with one scale a block, and back.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "formats/any_view.h"
#include "formats/scale_rules.h"
#include "ops/scaled_tensor.h"

namespace mxo {

class Backend;
class Check;

/// For every block of r x c elements, where r and c are the extents of `to.block`:
///   amax = max |x_i| over the block, under `rule`
///   e8m0 scales:  scale = shared_scale(amax, rule.mode, rule.e8m0),
///                 v_i = fl32(x_i * factor_of(scale))
///   f32 scales:   f = f32_scale(amax, rule.f32),  scale = f.stored,  v_i = scaled(x_i, f.factor)
///   code_i = encode_element(v_i, rule.element): rounded to nearest even and saturated, unless the
///            rule says otherwise
///
///   x           [.., R, K]  f32, bf16 or f16, rank 2 to 4, any strides
///   group_ends  i32 [E], optional: x is [R, K], and blocks of more than one row start again at
///               each group
///   given       f32, shape of to.scales, optional: numbers to scale by, as `given_scale` reads
///   them;
///               then amax is not asked
///   to.codes    shape of x; e4m3, e4m3fnuz, e5m2 or e5m2fnuz
///   to.scales   e8m0 or f32 of shape_of_scales; with group_ends [at least G, ceil(K/c)], G the
///               sum of ceil(rows/r) over groups, or E where r is kWhole
///
/// Blocks start at element (0, 0) of each matrix.  With f32 scales, and where groups end, the last
/// block of an axis holds what is left; with e8m0 scales c divides K, and r divides R where there
/// are no groups.  Any extent may be 0; a block that is a whole axis has a scale even then, that of
/// amax 0.  Rows of codes at or beyond the last end, and of scales beyond G, are left untouched.
/// A transposed result is the same operator written through transposed views.
///
/// With `to.storage` blocked, e8m0 scales of blocks of one row only, scales are contiguous:
/// the bytes SwizzleScales makes of them, padding 0.
///
/// NaN, Inf and zero: ScaleProfile in formats/scale_profile.h and F32ScaleRule in
/// formats/scaled_block.h.
/// Errors, before any byte is written: Error(shape) rank, extents, a block that does not divide,
/// shared memory; Error(dtype), also for x in f16 where the rule divides in the type of x;
/// Error(argument) for a bound of the rule that is no float.
/// Source: OCP MX v1.0, 6.3; docs/numerics.md.
struct Quantize {
  Operand x;
  Operand group_ends;
  ScaledResult to;
  ScaleRule rule = {};
  Operand given = {};
};

/// x_i = code_i * scale of its block, exactly, then rounded once to the type of x.
///
///   from        as Quantize writes it, scales row-major
///   group_ends  as Quantize
///   x           [.., R, K] f32 or bf16
///
/// NaN codes and scales give the canonical NaN.  Rows at or beyond the last end are left untouched.
/// Errors as Quantize.
struct Dequantize {
  ScaledTensor from;
  Operand group_ends;
  Result x;
};

void quantize(Backend& backend, const Quantize& op);
void dequantize(Backend& backend, const Dequantize& op);

/// Throws what quantize() would, in the name of `check`; for operators that quantise as a step.
void check_quantize(const Check& check, const Backend& backend, const Quantize& op);

/// A matrix of this type and shape that is not there yet, for check_quantize.
Operand placeholder_matrix(Dtype dtype, Index rows, Index columns);

}  // namespace mxo

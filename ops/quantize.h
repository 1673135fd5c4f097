// High precision to MX along either axis, and back.
#pragma once

#include "formats/any_view.h"
#include "formats/mx_block.h"
#include "ops/scaled_tensor.h"

namespace mxo {

class Backend;
class Check;

/// Along which axis `block` neighbours share a scale.
enum class BlockAxis : std::uint8_t {
  columns,  ///< axis -1: neighbours in a row
  rows,     ///< axis -2: neighbours in a column
};

/// For every block b of `block` neighbours along `axis`:
///   amax = max |x_i|,  scale_b = shared_scale(amax, mode, profile),
///   code_i = sat(fl32(x_i * 2^(127 - scale_b)))
///
///   x       [.., R, K]    f32 or bf16, rank 2 or 3, any strides
///   axis columns:  codes [.., R, K], scales e8m0 [.., R, K/block]
///   axis rows:     codes [.., R, K], scales e8m0 [.., R/block, K]
///
/// A transposed result (codes [.., K, R], scales [.., K, R/block]) is the same operator
/// written through transposed views: see `transposed` below.  Blocks start at row 0 of the
/// tensor.  Any extent may be 0.  A block with a NaN scale is all 7F (80 in fnuz).
///
/// With `storage` blocked, axis columns only, scales are contiguous, [blocked_bytes(R, K/block)] or
/// [E, that]: the bytes SwizzleScales makes of them, padding 0.
///
/// Errors, before any byte is written: Error(shape) rank, extents, an extent that is no
/// multiple of `block`, shared memory; Error(dtype).
/// Source: OCP MX v1.0, 6.3; pytorch/ao 36027d8, mx_tensor.py to_mx; docs/numerics.md.
struct Quantize {
  Operand x;
  Result codes;   ///< e4m3, e4m3fnuz, e5m2 or e5m2fnuz
  Result scales;  ///< e8m0
  ScaleMode mode = ScaleMode::rceil;
  BlockAxis axis = BlockAxis::columns;
  Index block = kMxBlock;
  ScaleProfile profile = kTorchao;
  ScaleStorage storage = ScaleStorage::row_major;
};

/// x_i = code_i * scale_b, exactly, then rounded once to the type of x.
///
///   codes, scales as Quantize writes them;  x [.., R, K] f32 or bf16
///
/// NaN codes and scales give the canonical NaN.  Errors as Quantize.
struct Dequantize {
  Operand codes;
  Operand scales;
  Result x;
  BlockAxis axis = BlockAxis::columns;
  Index block = kMxBlock;
};

void quantize(Backend& backend, const Quantize& op);
void dequantize(Backend& backend, const Dequantize& op);

/// Throws what quantize() would, in the name of `check`; for operators that quantise as a step.
void check_quantize(const Check& check, const Quantize& op);

}  // namespace mxo

// quantize and dequantize: which way takes a call.
#include "ops/quantize.h"

#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/quantize_any_blocks.h"
#include "emu/cpu/quantize_line_blocks.h"
#include "emu/reference/quantize_and_swizzle.h"

namespace mxo::cpu {
namespace {

/// Blocks of neighbours in one row or one column, all of them whole.
template <typename Void>
bool one_line(const AnyView<Void>& x, const BlockExtents& block, const Operand& group_ends) {
  if (group_ends.given() || block.rows == kWhole || block.columns == kWhole) return false;
  const bool whole =
      x.extent[x.rank - 2] % block.rows == 0 && x.extent[x.rank - 1] % block.columns == 0;
  return whole && (block.rows == 1 || block.columns == 1);
}

/// Rules that scale_lanes knows.  A logarithm rounded to f32 reaches the next whole number from
/// floats only that lie nearer to it than any of 16 bits.
bool by_lanes(ScaleRule rule, Dtype x) {
  if (x != Dtype::f32 && rule.e8m0.exponent == ExponentRule::floor_amax) {
    rule.e8m0.exponent = ExponentRule::by_mode;
  }
  return is_regular(rule);
}

}  // namespace

void CpuBackend::run(const Quantize& op) {
  if (op.to.storage == ScaleStorage::blocked) return quantize_and_swizzle(*this, op);
  if (op.to.scales.dtype != Dtype::e8m0 || !one_line(op.x, op.to.block, op.group_ends) ||
      !by_lanes(op.rule, op.x.dtype)) {
    return quantize_any_blocks(op, encode_kernels(isa()), threads());
  }
  quantize_line_blocks(op, isa(), threads());
}

void CpuBackend::run(const Dequantize& op) {
  if (op.from.scales.dtype != Dtype::e8m0 || !one_line(op.x, op.from.block, op.group_ends)) {
    return dequantize_any_blocks(op, decode_kernels(isa()), threads());
  }
  dequantize_line_blocks(op, isa(), threads());
}

}  // namespace mxo::cpu

// A token's rows into one, in the order of its slots, and the gradients of that.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include <string_view>

#include "formats/any_view.h"

namespace mxo {

class Backend;

/// What is rounded besides the sum at its end.
enum class CombineSteps : std::uint8_t {
  f32,    ///< every product and every sum
  bf16,   ///< both once more, to bf16; of f16 rows to f16
  fused,  ///< every sum with its product in it: acc = fma(row, weight, acc) in f32
};

/// acc = +0;  for s = 0 .. k-1 ascending: acc = acc + fl(rows[slots[t, s], d] * weights[t, s])
/// out[t, d] = round(acc)                           every step one f32 rounding
/// or with `steps` as CombineSteps says.
///
///   rows     [R, D]  bf16, f16 or f32
///   slots    i32 [T, k]  a row of `rows`, or -1: nothing is added
///   weights  f32 [T, k], optional; absent, each is 1
///   out      [T, D]  bf16, f16 or f32
///
/// Any extent may be 0, any strides.  Errors, before any byte is written: Error(shape), also on an
/// index out of range; Error(dtype).
/// Source: torchtitan b5bcd76c (scores after the experts); Megatron-Core, unpermute in bf16; Triton
/// 3.6 on an H200 of `acc += row * weight`, as in vLLM's ep_gather (fused); the order is ours.
struct CombineRows {
  Operand rows;
  Operand slots;
  Operand weights;
  Result out;
  CombineSteps steps = CombineSteps::f32;
};

/// Gradients of CombineRows:
///   drows[slots[t, s], d] = round(fl(dout[t, d] * weights[t, s]))
///   dweights[t, s] = sum over d ascending of fl(dout[t, d] * rows[slots[t, s], d]), from +0, in
///   f32
///
///   dout      [T, D]  bf16, f16 or f32
///   drows     [R, D]  bf16, f16 or f32; rows that no slot names become zeros
///   dweights  f32 [T, k], if asked for, with weights only; +0 where the slot is -1
///
/// No row may be named twice.  Any extent may be 0, any strides.  Errors, before any byte is
/// written: Error(shape), also on an index out of range, a row that is named twice, or
/// dweights without weights; Error(dtype).
/// Source: the derivative of CombineRows; the order of the sum is ours.
struct CombineRowsBackward {
  Operand rows;  ///< needed for dweights only
  Operand slots;
  Operand weights;
  Operand dout;
  Result drows;
  Result dweights;
};

/// "f32", "bf16" or "fused"; anything else is f32.
CombineSteps combine_steps_named(std::string_view name);

void combine_rows(Backend& backend, const CombineRows& op);
void combine_rows_backward(Backend& backend, const CombineRowsBackward& op);

}  // namespace mxo

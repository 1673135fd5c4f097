// The approximate functions of a chip over whole tensors.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "formats/any_view.h"

namespace mxo {

class Backend;

/// What the unit computes; the names are those of the instructions.
enum class ChipFunction : std::uint8_t { ex2, rcp, rsqrt, sqrt, lg2, tanh, div_full };

/// y[i] = the bits of the instruction on sm_90 (Hopper): FUNCTION.approx.f32 of x[i], or
/// div.full.f32 of x[i] and b[i].  With ftz that of .ftz: subnormal operands and results are zeros
/// of their sign; tanh.approx has one form, whatever ftz says.
///
///   x  any shape, f32, any strides
///   b  of div_full: the shape of x, f32, what x is divided by; otherwise absent
///   y  the shape of x, f32
///
/// A NaN is 7FFFFFFF, as the chip makes it.  Any extent may be 0.  Every backend computes the model
/// of the functions in integers (formats/approximate.h), never an instruction of its own machine.
/// Errors, before any byte is written: Error(shape), Error(dtype), Error(argument) for a b that is
/// missing or not taken.
/// Source: PTX ISA 9.0, 9.7.3; the bits are captured (docs/machine_models.md).
struct Approximate {
  Operand x;
  Operand b;
  Result y;
  ChipFunction function = ChipFunction::ex2;
  bool ftz = true;
};

void approximate(Backend& backend, const Approximate& op);

}  // namespace mxo

// Element by element: to a small format and back.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "formats/any_view.h"

namespace mxo {

class Backend;

/// codes[i] = the nearest code of x[i], ties to even; 8-bit formats and e8m0.
///
///   x      any shape, f32, bf16 or f16 (converted to f32 first, which is exact)
///   codes  the shape of x, of the format wanted (e4m3, e4m3fnuz, e5m2, e5m2fnuz or e8m0)
///
/// e8m0 takes `rounding`, and `overflow` decides FE or FF for infinity; NaN is FF.
/// Errors: Error(shape) if the shapes differ or memory is shared, Error(dtype).
/// Source: OFP8 v1.0, 5.2; IEEE 754-2019, 4.3.1; PTX ISA, cvt.
struct Encode {
  Operand x;
  Result codes;
  Overflow overflow = Overflow::saturate;
  NanSign nan = NanSign::positive;
  E8M0Rounding rounding = E8M0Rounding::nearest;
};

/// x[i] = the exact value of codes[i]; NaN codes give 7FC00000.
///
///   codes  any shape, e4m3, e4m3fnuz, e5m2, e5m2fnuz or e8m0
///   x      f32, the shape of codes
///
/// Errors: Error(shape), Error(dtype).
struct Decode {
  Operand codes;
  Result x;
};

void encode(Backend& backend, const Encode& op);
void decode(Backend& backend, const Decode& op);

}  // namespace mxo

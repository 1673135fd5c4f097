// The value of a stored code, told by its definition and not by the library's codec.
#pragma once

#include "formats/dtype.h"

namespace mxo::test {

/// Exact; any small format, e8m0, bf16, f16 or f32.  NaN and infinities as double has them.
double plain_value(Dtype dtype, std::uint32_t bits);
/// The code whose value is `value`, which the format must hold.
std::uint32_t code_of(Dtype dtype, double value);

}  // namespace mxo::test

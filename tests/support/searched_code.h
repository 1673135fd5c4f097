// The nearest code of a value, by a search among the values of all codes.
#pragma once

#include "formats/dtype.h"

namespace mxo::test {

/// The nearest code of |v|, ties to the even one; beyond the largest value what `saturates` says.
std::uint8_t searched_code(float v, Dtype format, bool saturates);

/// The largest finite value.
float largest(Dtype format);

}  // namespace mxo::test

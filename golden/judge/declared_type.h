// The type that ACTUAL says it has.
#pragma once

#include <string>

#include "golden/judge/comparator.h"

namespace mxo {

/// "the values are right, the type is F32 rather than BF16"; empty where the type is the expected
/// one. Bytes (U8) are taken for codes and e8m0 scales; a float of 8 bits is taken for bytes of
/// which nothing says what they mean.  Shapes agree.
std::string other_type(const ExpectedOutput& expected_output, const Tensor& actual);

/// "found f32 [2, 1], needs f32 [1, 2]", or else of its type.
std::string other_shape_or_type(const ExpectedOutput& expected_output, const Tensor& actual);
std::string other_shape_or_type(const Tensor& expected, const Tensor& actual);

}  // namespace mxo

// Elements that still hold the byte an output was filled with before the kernel ran.
#pragma once

#include <cstdint>

#include "golden/judge/comparator.h"

namespace mxo {

/// "12 elements in rows 28 to 31 still hold A5 A5: never written"; empty where there are none.
/// Only elements that are compared and are not as expected count.
std::string unwritten_elements(const ExpectedOutput& expected_output, const Tensor& actual,
                               std::uint8_t sentinel);

}  // namespace mxo

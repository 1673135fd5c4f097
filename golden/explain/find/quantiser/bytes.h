// Bytes and the numbers that they are read as, in words.
#pragma once

#include <string>
#include <vector>

#include "golden/explain/host_product.h"
#include "golden/judge/elements.h"

namespace mxo {

/// Codes as people write them, "7F".
std::string hex(std::size_t byte);

/// The number of fewest bits within `off` of `v`.
double shortest(double v, double off);

/// " as 480 rather than NaN".
std::string read_as(std::size_t byte, const CodeTable& read, const ElementReader& own);

/// "7F as 480 rather than NaN, FF as -480 rather than NaN and 3 more", of which `told` are told.
std::string list_of_bytes(const std::vector<std::size_t>& bytes, std::size_t told, bool scale,
                          const CodeTable& read, const ElementReader& own);

}  // namespace mxo

// Normal elements on any processor.
#include "golden/suites/shapes/normal_lanes.h"

namespace mxo {

void normal_sums(std::uint64_t seed, std::uint32_t stream, std::uint64_t first,
                 std::span<std::int32_t> out) {
  normal_sums_by_lanes(seed, stream, first, out);
}

}  // namespace mxo

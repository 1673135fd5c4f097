// An integer as slices, signed bytes of rising weight (Ozaki), and back.
#pragma once

#include <cstdint>

#include "formats/host_device.h"

namespace mxo {

/// part(0) + 256 part(1) + .. of `count` parts: an integer of its slices, or the sum of integers'
/// products of the sums of those slices' products whose weights are the same.
template <typename Part>
MXO_HD constexpr std::int64_t recombined(int count, const Part& part) {
  std::int64_t all = 0;
  for (int i = count - 1; i >= 0; --i) all = all * 256 + part(i);
  return all;
}

}  // namespace mxo

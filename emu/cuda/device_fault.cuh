// What a kernel finds wrong with data that the host cannot read before the launch.
#pragma once

#include <cstdint>

namespace mxo::cuda {

enum class DeviceFault : std::uint32_t {
  none,
  group_ends,     ///< decreasing, beyond the rows given, or off the multiple that is needed
  indices,        ///< an index, slot or expert outside the rows given
  named_twice,    ///< a row that two indices name
  counts,         ///< negative counts, or more rows than the output has
  padded_starts,  ///< a group that does not lie within the rows given
  scale_rows,     ///< more blocks than rows of scales
  scales,         ///< a scale that is no power of two
};

/// The status word of a backend.  The first fault stays; from then on kernels that depend on
/// checked data leave their outputs alone, until synchronize() reports and clears it.
struct FaultWord {
  std::uint32_t* word;

  __device__ void report(DeviceFault fault) const {
    atomicCAS(word, 0u, static_cast<std::uint32_t>(fault));
  }
  __device__ bool any() const { return *static_cast<volatile std::uint32_t*>(word) != 0; }
};

}  // namespace mxo::cuda

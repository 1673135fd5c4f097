// Blocks that read the same K-vectors, held at the same place of them.
#pragma once

#include <cstdint>

namespace mxo::cuda {

/// Keeps blocks that share K-vectors abreast, so that those are fetched to L2 once: a
/// block does not run ahead of the mean of all.  It is a matter of time alone; a block that has
/// waited in vain, because others have less to do, waits no more.
class Pace {
 public:
  /// `arrivals` of all blocks together, zero at the start.
  __device__ void keep(std::uint32_t* arrivals) { arrivals_ = arrivals; }
  /// Called by one thread as it fetches another chunk.
  __device__ void step() {
    if (arrivals_ == nullptr || ++chunks_ % kInterval != 0) return;
    const std::uint32_t own = chunks_ / kInterval;
    atomicAdd(arrivals_, 1u);
    for (int polls = 0; ahead(own); ++polls) {
      if (polls == kMaxPolls) {
        arrivals_ = nullptr;
        return;
      }
      __nanosleep(100);
    }
  }

 private:
  static constexpr std::uint32_t kInterval = 4;
  static constexpr int kMaxPolls = 512;
  __device__ bool ahead(std::uint32_t own) const {
    return *static_cast<volatile std::uint32_t*>(arrivals_) < (own - 1) * gridDim.x;
  }
  std::uint32_t* arrivals_ = nullptr;
  std::uint32_t chunks_ = 0;
};

}  // namespace mxo::cuda

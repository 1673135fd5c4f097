// Keeps thread blocks that read the same K-vectors at the same place in them.
#pragma once

#include <cstdint>

namespace mxo::cuda {

/// A block that is ahead of the mean of all blocks waits, so that shared K-vectors are fetched to
/// L2 once.  Results do not depend on it.  A block that reaches the limit of polls stops pacing
/// itself: the others have less work and will not catch up.
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

  /// No block waits any more.
  __device__ void end() {
    if (arrivals_ != nullptr) atomicOr(arrivals_, kEnded);
    arrivals_ = nullptr;
  }

 private:
  static constexpr std::uint32_t kEnded = 1u << 31;  ///< more than all arrivals
  static constexpr std::uint32_t kInterval = 4;
  static constexpr int kMaxPolls = 512;
  __device__ bool ahead(std::uint32_t own) const {
    return *static_cast<volatile std::uint32_t*>(arrivals_) < (own - 1) * gridDim.x;
  }
  std::uint32_t* arrivals_ = nullptr;
  std::uint32_t chunks_ = 0;
};

}  // namespace mxo::cuda

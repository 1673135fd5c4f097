// One run of a panel's K-vectors, each contiguous.
#pragma once

#include "emu/cpu/gemm/kernels/kernels.h"
#include "emu/cpu/gemm/product.h"

namespace mxo::cpu {

/// `lanes` K-vectors from `first` on, elements [start, start + count), count at most kRun; beyond
/// count they are zero.  Element: std::uint8_t codes or std::uint16_t bf16.
template <typename Element>
class Fetched {
 public:
  void fetch(const Factor& factor, Index first, int lanes, Index start, int count);
  const Element* lane(int i) const {
    // The next run: K-vectors are too many for the processor to follow by itself, and to be asked
    // for all at once.
    __builtin_prefetch(lane_[i] + kRun);
    __builtin_prefetch(lane_[i] + kRun + 64 / sizeof(Element));
    return lane_[i];
  }

 private:
  const Element* lane_[kMaxNr];
  alignas(64) Element copy_[kMaxNr][kRun];
};

extern template class Fetched<std::uint8_t>;
extern template class Fetched<std::uint16_t>;

}  // namespace mxo::cpu

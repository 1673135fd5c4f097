// A thread's scratch for one run of a panel while codes are converted to integers.
#pragma once

#include <algorithm>

#include "emu/cpu/gemm/pack/panel.h"

namespace mxo::cpu {

/// `lanes` K-vectors from `first` on, elements [start, start + count), count at most kRun; beyond
/// count they are zero.  Element: std::uint8_t codes or std::uint16_t bf16.
template <typename Element>
class Fetched {
 public:
  void fetch(Isa isa, const Factor& factor, Index first, int lanes, Index start, int count);
  const Element* lane(int i) const {
    // Prefetch the next run: too many streams for the hardware prefetcher, and too many lines to
    // request at once.
    __builtin_prefetch(lane_[i] + kRun);
    __builtin_prefetch(lane_[i] + kRun + 64 / sizeof(Element));
    return lane_[i];
  }

 private:
  const Element* lane_[kMaxNr];
  alignas(64) Element copy_[kMaxNr][kRun];
};

/// bf16 bits of a run to floats; the max magnitude shows whether there is an infinity or a NaN.
inline int widen_words(const std::uint16_t* words, float* values) {
  int max_magnitude = 0;
  for (int c = 0; c < kRun; ++c) {
    max_magnitude = std::max(max_magnitude, static_cast<int>(words[c] & 0x7FFF));
    values[c] = bit_cast<float>(static_cast<std::uint32_t>(words[c]) << 16);
  }
  return max_magnitude;
}

inline constexpr int kInfinityBf16 = 0x7F80;

extern template class Fetched<std::uint8_t>;
extern template class Fetched<std::uint16_t>;

struct PackScratch {
  Fetched<std::uint8_t> codes;
  Fetched<std::uint16_t> words;
  alignas(64) std::uint32_t k_vectors[kMaxNr][kRun];               // one run, K-vector by K-vector
  alignas(64) std::uint32_t columns[kRun * kMaxNr];                // the same transposed
  alignas(64) std::int8_t slices[kSlices][kMaxNr][kRun];           // or as bytes
  alignas(64) std::int8_t spans[2][kTileLanes][kSpanRuns * kRun];  // the slices of half a panel
};

}  // namespace mxo::cpu

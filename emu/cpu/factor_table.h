// The factors that blocks of bf16 are scaled by, looked up by amax.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "formats/host_device.h"

namespace mxo::cpu {

/// The factor of a block and the bits of its scale.
struct BlockFactor {
  float factor;
  std::uint32_t stored;
};

/// Factors by the magnitude of a bf16, each computed on first use.  Any threads at once: two that
/// miss write the same entry.
class FactorTable {
 public:
  FactorTable() : entries_(std::make_unique<std::atomic<std::uint64_t>[]>(kEntries)) {}

  /// Calls make(amax) if there is no entry.  An entry that is all zeros is recomputed each time.
  template <typename Make>
  BlockFactor at(std::uint16_t amax, const Make& make) const {
    const std::uint64_t word = entries_[amax].load(std::memory_order_relaxed);
    if (word == 0) [[unlikely]] {
      return keep(amax, make(amax));
    }
    return {bit_cast<float>(static_cast<std::uint32_t>(word >> 32)),
            static_cast<std::uint32_t>(word)};
  }

 private:
  static constexpr std::size_t kEntries = 0x8000;
  BlockFactor keep(std::uint16_t amax, const BlockFactor& made) const {
    const std::uint64_t factor = bit_cast<std::uint32_t>(made.factor);
    entries_[amax].store(factor << 32 | made.stored, std::memory_order_relaxed);
    return made;
  }
  std::unique_ptr<std::atomic<std::uint64_t>[]> entries_;
};

}  // namespace mxo::cpu

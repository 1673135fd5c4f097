// Small blocks of memory that one stream uses again and again, without asking the device.
// Thread safety: any threads at once.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace mxo::cuda {

/// Blocks by size.  One that was given back may still be read by kernels under way: what is next
/// written to it is behind them in the stream.
class KeptBlocks {
 public:
  /// A block of that size that was given back, or none.
  std::byte* take(std::size_t size) {
    const std::lock_guard lock(mutex_);
    std::vector<std::byte*>& waiting = free_[size].waiting;
    if (waiting.empty()) return nullptr;
    std::byte* const block = waiting.back();
    waiting.pop_back();
    return block;
  }
  /// A block that the device just gave, which is in use.
  void own(std::byte* block, std::size_t size) {
    const std::lock_guard lock(mutex_);
    OfSize& all = free_[size];
    all.waiting.reserve(++all.made);  // so that none is refused when it comes back
    size_.emplace(block, size);
  }
  /// False if it is none of these.
  bool give_back(std::byte* block) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = size_.find(block);
    if (found == size_.end()) return false;
    free_.at(found->second).waiting.push_back(block);
    return true;
  }
  std::vector<std::byte*> all() const {
    std::vector<std::byte*> blocks;
    for (const auto& [block, size] : size_) blocks.push_back(block);
    return blocks;
  }

 private:
  struct OfSize {
    std::vector<std::byte*> waiting;
    std::size_t made = 0;
  };
  std::mutex mutex_;
  std::unordered_map<std::size_t, OfSize> free_;
  std::unordered_map<std::byte*, std::size_t> size_;
};

}  // namespace mxo::cuda

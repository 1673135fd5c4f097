// A pool that reuses large blocks of memory: the first touch of a page costs more than a copy of
// it, and composed operators allocate the same tensors every step.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace mxo::cpu {

/// Blocks of at least kLeast bytes in huge pages, where the system has them.  Mapped memory, free
/// blocks included, never exceeds the peak in use by more than a fourth.  Safe to use from many
/// threads.
class MemoryPool {
 public:
  static constexpr std::size_t kLeast = std::size_t{1} << 20;

  MemoryPool() = default;
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// Aligned to a huge page.  Throws std::bad_alloc.
  std::byte* take(std::size_t bytes);
  /// False if the block is not from this pool.
  bool give_back(std::byte* block) noexcept;
  /// Bytes mapped, in use or free.
  std::size_t mapped();

 private:
  std::mutex mutex_;
  std::map<std::byte*, std::size_t> used_;
  std::multimap<std::size_t, std::byte*> free_;  ///< by size
  std::size_t in_use_ = 0;
  std::size_t kept_ = 0;  ///< bytes in free_
  std::size_t most_ = 0;  ///< peak in use
};

}  // namespace mxo::cpu

// Anonymous memory in whole huge pages.
#include "emu/cpu/memory_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <new>

namespace mxo::cpu {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

std::byte* map_pages(std::size_t bytes) {
  const std::size_t room = bytes + kLargePage;
  void* memory = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* first = static_cast<std::byte*>(memory);
  const std::size_t before =
      (kLargePage - reinterpret_cast<std::uintptr_t>(first) % kLargePage) % kLargePage;
  if (before > 0) munmap(first, before);
  munmap(first + before + bytes, kLargePage - before);
  madvise(first + before, bytes, MADV_HUGEPAGE);
  return first + before;
}

}  // namespace

MemoryPool::~MemoryPool() {
  for (const auto& [size, block] : free_) munmap(block, size);
  for (const auto& [block, size] : used_) munmap(block, size);
}

std::byte* MemoryPool::take(std::size_t bytes) {
  const std::size_t wanted = (bytes + kLargePage - 1) / kLargePage * kLargePage;
  const std::lock_guard lock(mutex_);
  const auto at = free_.lower_bound(wanted);
  std::size_t size = wanted;
  std::byte* block = nullptr;
  if (at != free_.end() && at->first <= wanted + wanted / 4) {  // wastes at most a fifth
    size = at->first;
    block = at->second;
    kept_ -= size;
    free_.erase(at);
  } else {
    block = map_pages(size);
  }
  used_.emplace(block, size);
  in_use_ += size;
  most_ = std::max(most_, in_use_);
  while (in_use_ + kept_ > most_ + most_ / 4) {
    const auto largest = std::prev(free_.end());
    munmap(largest->second, largest->first);
    kept_ -= largest->first;
    free_.erase(largest);
  }
  return block;
}

bool MemoryPool::give_back(std::byte* block) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = used_.find(block);
  if (at == used_.end()) return false;
  free_.emplace(at->second, block);
  kept_ += at->second;
  in_use_ -= at->second;
  used_.erase(at);
  return true;
}

std::size_t MemoryPool::mapped() {
  const std::lock_guard lock(mutex_);
  return in_use_ + kept_;
}

}  // namespace mxo::cpu

// Working memory of the model kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

namespace mxo::cpu {

/// Zeroed memory aligned to cache lines, so that no vector load straddles two.
template <typename T>
class CacheLines {
 public:
  explicit CacheLines(std::size_t n)
      : memory_(static_cast<T*>(::operator new[](n * sizeof(T) + 1, kAlignment))), size_(n) {
    std::fill_n(memory_.get(), n, T{});
  }
  T* data() { return memory_.get(); }
  T& operator[](std::size_t i) { return memory_.get()[i]; }
  const T& operator[](std::size_t i) const { return memory_.get()[i]; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Release {
    void operator()(T* memory) const { ::operator delete[](memory, kAlignment); }
  };
  std::unique_ptr<T, Release> memory_;
  std::size_t size_;
};

}  // namespace mxo::cpu

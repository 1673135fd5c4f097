// Operand memory that notices: odd offsets, gaps between rows, margins, all under a pattern.
#pragma once

#include <cstddef>
#include <vector>

#include "formats/any_view.h"
#include "ops/backend.h"

namespace mxo::test {

/// How the elements of an operand lie in memory.
enum class Layout : std::uint8_t {
  packed,     ///< row-major, aligned
  padded,     ///< rows an odd number of elements longer than they need be, base off by one element
  exchanged,  ///< the last two axes the other way round in memory, gaps as in padded
  reversed,   ///< the last axis runs backwards, three elements a step
};

/// A strided tensor in memory of its own, every byte outside its elements a guard.
class GuardedTensor {
 public:
  GuardedTensor() = default;
  GuardedTensor(Dtype dtype, std::vector<Index> extent, Layout layout);

  Operand operand() const { return to_read(place(const_cast<std::byte*>(memory_.data()))); }
  Result result() { return place(memory_.data()); }
  /// Every byte, guards included.
  const std::vector<std::byte>& memory() const { return memory_; }
  /// Fills every byte with the pattern again.
  void wipe();
  /// The same tensor in other memory, as large as memory().
  Result in(std::byte* memory) const { return place(memory); }
  /// Takes every byte back from such memory.
  void read_back(Backend& backend, const std::byte* memory) {
    backend.download(memory_.data(), memory, memory_.size());
  }

  /// Offset in elements of one element, indices given axis by axis.
  Index offset(std::initializer_list<Index> index) const;
  void set_bits(Index offset, std::uint32_t bits);
  std::uint32_t bits(Index offset) const;

 private:
  Result place(std::byte* memory) const;

  Result shape_;    ///< data is null
  Index base_ = 0;  ///< element (0, 0, ..) in elements from the start of memory_
  std::vector<std::byte> memory_;
};

/// A guarded tensor, guards and all, in memory that a backend can read: its own host memory where
/// that will do, else a copy.
class GuardedCopy {
 public:
  GuardedCopy(Backend& backend, GuardedTensor& tensor) : backend_(backend), tensor_(tensor) {
    if (backend.reads_host_memory()) return;
    copy_ = backend.allocate(tensor.memory().size());
    backend.upload(copy_, tensor.memory().data(), tensor.memory().size());
  }
  ~GuardedCopy() {
    if (copy_ != nullptr) backend_.release(copy_);
  }
  GuardedCopy(const GuardedCopy&) = delete;
  GuardedCopy& operator=(const GuardedCopy&) = delete;
  Result result() { return copy_ != nullptr ? tensor_.in(copy_) : tensor_.result(); }
  Operand operand() { return to_read(result()); }
  void read_back() {
    if (copy_ != nullptr) tensor_.read_back(backend_, copy_);
  }

 private:
  Backend& backend_;
  GuardedTensor& tensor_;
  std::byte* copy_ = nullptr;
};

}  // namespace mxo::test

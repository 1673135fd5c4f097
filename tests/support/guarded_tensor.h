// Operand memory that notices: odd offsets, gaps between rows, margins, all under a pattern.
#pragma once

#include <cstddef>
#include <vector>

#include "formats/any_view.h"

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

}  // namespace mxo::test

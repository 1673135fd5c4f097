// One stored element of any type: its bits, its value, its place among its neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "formats/tensor.h"

namespace mxo {

/// What a comparison needs to know of one element.
struct Element {
  double value = 0;        ///< NaN for NaN; integers as numbers
  std::int64_t order = 0;  ///< neighbours of a format differ by one; both zeros are 0
  bool nan = false;
  bool infinite = false;
};

/// Indices, counts, masks, bytes of no known format: how near two of them are means nothing.
constexpr bool is_whole(Dtype d) {
  return !is_minifloat8(d) && !is_wide_float(d) && d != Dtype::f64 && d != Dtype::e8m0;
}

/// Steps of a type of floats from a normal value to twice that value; 0 for other types.
std::uint64_t steps_to_twice(Dtype dtype);

/// Elements of one type by their bits; 8-bit types from a table.
class ElementReader {
 public:
  explicit ElementReader(Dtype dtype);
  Element operator()(std::uint64_t bits) const {
    return table_ == nullptr ? element(bits) : table_[bits & 0xFF];
  }

 private:
  Element element(std::uint64_t bits) const;
  Dtype dtype_;
  const Element* table_ = nullptr;  ///< of the type, for all readers
};

/// Sums of squares of elements of one type, in an order that depends on their number alone.
class SquareSums {
 public:
  explicit SquareSums(Dtype dtype);
  /// Of `count` elements from `at` on; NaN where one is not finite, or of a type of whole numbers
  /// above 8 bits.
  double operator()(const std::byte* at, Index count) const;

 private:
  Dtype dtype_;
  std::vector<double> table_;  ///< of types of 8 bits
};

/// The bits of element `i`, in row-major order.
inline std::uint64_t bits_at(const Tensor& tensor, Index i) {
  const std::size_t size = size_of(tensor.dtype());
  const std::byte* at = tensor.data() + static_cast<std::size_t>(i) * size;
  const auto word = [at](auto bits) {
    std::memcpy(&bits, at, sizeof bits);
    return std::uint64_t{bits};
  };
  switch (size) {  // sizes that are constants are one instruction
    case 1: return word(std::uint8_t{});
    case 2: return word(std::uint16_t{});
    case 4: return word(std::uint32_t{});
    default: return word(std::uint64_t{});
  }
}

/// Steps between two elements of one format.
constexpr std::uint64_t ulp_distance(std::int64_t a, std::int64_t b) {
  return a > b ? static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b)
               : static_cast<std::uint64_t>(b) - static_cast<std::uint64_t>(a);
}

}  // namespace mxo

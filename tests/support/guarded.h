// Views with odd strides and offsets over memory whose every other byte is watched.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "formats/any_view.h"

namespace mxo::test {

/// A tensor of rank 1 to 3 inside a larger buffer.  The gaps between its elements, and a margin
/// on both sides, hold a pattern that untouched() looks for.
class Guarded {
 public:
  /// `gap` extra elements after each row and `step` elements from column to column.
  Guarded(Dtype dtype, std::vector<Index> shape, Index gap = 3, Index step = 1) {
    view_.dtype = dtype;
    view_.rank = static_cast<int>(shape.size());
    Index stride = step;
    for (int i = view_.rank - 1; i >= 0; --i) {
      view_.extent[i] = shape[static_cast<std::size_t>(i)];
      view_.stride[i] = stride;
      stride *= view_.extent[i];
      if (i == view_.rank - 1) stride += gap;
    }
    const std::size_t size = size_of(dtype);
    bytes_.assign((static_cast<std::size_t>(stride) + 2 * kMargin) * size, kPattern);
    view_.data = bytes_.data() + kMargin * size;
    before_ = bytes_;
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  Result result() const { return view_; }
  Operand operand() const { return to_read(view_); }
  Index elements() const { return view_.elements(); }

  /// Address of row-major element `i`.
  std::uint8_t* at(Index i) {
    Index offset = 0;
    for (int axis = view_.rank - 1; axis >= 0; --axis) {
      offset += i % view_.extent[axis] * view_.stride[axis];
      i /= view_.extent[axis];
    }
    return static_cast<std::uint8_t*>(view_.data) + offset * static_cast<Index>(size());
  }
  std::size_t size() const { return size_of(view_.dtype); }

  void fill_random(std::uint32_t seed) {
    std::mt19937 random(seed);
    for (Index i = 0; i < elements(); ++i) {
      const std::uint64_t bits = static_cast<std::uint64_t>(random()) << 32 | random();
      std::memcpy(at(i), &bits, size());
    }
    before_ = bytes_;
  }
  template <typename T>
  void fill(const std::vector<T>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(at(static_cast<Index>(i)), &values[i], sizeof(T));
    }
    before_ = bytes_;
  }
  /// The elements, row-major, as bytes.
  std::vector<std::uint8_t> contents() {
    std::vector<std::uint8_t> all(static_cast<std::size_t>(elements()) * size());
    for (Index i = 0; i < elements(); ++i) {
      std::memcpy(all.data() + static_cast<std::size_t>(i) * size(), at(i), size());
    }
    return all;
  }
  /// True if no byte has changed since the last fill.
  bool unchanged() const { return bytes_ == before_; }
  /// True if no byte outside the elements has changed.
  bool untouched() {
    std::vector<std::uint8_t> masked = bytes_;
    for (Index i = 0; i < elements(); ++i) {
      const auto offset = at(i) - bytes_.data();
      std::memcpy(masked.data() + offset, before_.data() + offset, size());
    }
    return masked == before_;
  }

 private:
  static constexpr std::size_t kMargin = 67;
  static constexpr std::uint8_t kPattern = 0xA5;
  Result view_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint8_t> before_;
};

}  // namespace mxo::test

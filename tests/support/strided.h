// Tensors with gaps: odd strides, offset pointers, transposed views, guard bytes around all.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "formats/any_view.h"
#include "ops/backend.h"

namespace mxo::test {

/// How the elements of a tensor lie in memory.
struct Lie {
  std::string name;
  Index step = 1;         ///< between neighbours of the last axis
  Index gap = 0;          ///< elements left out after each row
  Index offset = 0;       ///< elements before the first
  bool turned = false;    ///< the last two axes exchanged in memory
  bool reversed = false;  ///< the last axis runs backwards
};
constexpr Index kOddRows = -1;  ///< a gap of three or four, after which rows lie an odd way apart

inline std::vector<Lie> lies() {
  return {{"contiguous"},
          {"offset", 1, 0, 1},
          {"odd_rows", 1, 3, 5},
          {"wide_rows", 1, 64, 0},
          {"every_third", 3, 1, 1},
          {"turned", 1, 0, 0, true},
          {"turned_odd", 1, 7, 3, true},
          {"turned_every_second", 2, 5, 1, true}};
}

/// A buffer full of guard bytes with a strided tensor in it.
class Strided {
 public:
  Strided() = default;
  Strided(Dtype dtype, const std::vector<Index>& shape, const Lie& lie)
      : size_(static_cast<Index>(size_of(dtype))), offset_(lie.offset) {
    view_.dtype = dtype;
    view_.rank = static_cast<int>(shape.size());
    for (int i = 0; i < view_.rank; ++i) view_.extent[i] = shape[static_cast<std::size_t>(i)];
    std::vector<int> order;  // axes from the innermost outwards
    for (int i = view_.rank - 1; i >= 0; --i) order.push_back(i);
    if (lie.turned && view_.rank >= 2) std::swap(order[0], order[1]);
    Index stride = lie.step;
    for (std::size_t i = 0; i < order.size(); ++i) {
      view_.stride[order[i]] = stride;
      stride *= view_.extent[order[i]];
      if (i == 0) stride += lie.gap != kOddRows ? lie.gap : stride % 2 == 0 ? 3 : 4;
    }
    const int last = view_.rank - 1;
    if (lie.reversed && view_.extent[last] > 0) {
      offset_ += (view_.extent[last] - 1) * view_.stride[last];
      view_.stride[last] = -view_.stride[last];
    }
    used_ = static_cast<std::size_t>((stride + offset_ + 16) * size_);
    bytes_.resize(used_ + 3 * kLine);
    wipe();
  }
  /// Fills every byte with the pattern again.
  void wipe() { std::fill(bytes_.begin(), bytes_.end(), std::byte{0xA5}); }

  Operand operand() const { return placed<const void>(bytes_.data()); }
  Result result() { return placed<void>(bytes_.data()); }
  Index elements() const { return view_.elements(); }
  /// Where in bytes() the first element lies.
  std::size_t first_byte() const { return kLine + static_cast<std::size_t>(offset_ * size_); }
  /// Everything: a line of guard bytes, the elements and their gaps, guard bytes.
  std::vector<std::byte> bytes() const {
    const std::byte* first = start(bytes_.data()) - kLine;
    return {first, first + kLine + used_ + kLine};
  }

  /// Takes such bytes.
  void take(const std::vector<std::byte>& bytes) {
    std::copy(bytes.begin(), bytes.end(), start(bytes_.data()) - kLine);
  }

  /// Where an element lies, indices given axis by axis; and the bits there.
  Index offset(std::initializer_list<Index> index) const {
    Index at = offset_;
    int axis = 0;
    for (const Index i : index) at += i * view_.stride[axis++];
    return at;
  }
  void set_bits(Index offset, std::uint32_t bits) {
    std::memcpy(start(bytes_.data()) + offset * size_, &bits, static_cast<std::size_t>(size_));
  }
  std::uint32_t bits(Index offset) const {
    std::uint32_t value = 0;
    std::memcpy(&value, start(bytes_.data()) + offset * size_, static_cast<std::size_t>(size_));
    return value;
  }

  /// The address of row-major element i.
  std::byte* at(Index i) {
    Index where = offset_;
    for (int axis = view_.rank - 1; axis >= 0; --axis) {
      where += i % view_.extent[axis] * view_.stride[axis];
      i /= view_.extent[axis];
    }
    return start(bytes_.data()) + where * size_;
  }

 private:
  static constexpr std::size_t kLine = 64;
  /// A line boundary with a line before it, so that an offset of 0 is an aligned tensor.
  template <typename Byte>
  static Byte* start(Byte* data) {
    return data + 2 * kLine - reinterpret_cast<std::uintptr_t>(data) % kLine;
  }
  template <typename Void, typename Byte>
  AnyView<Void> placed(Byte* data) const {
    AnyView<Void> view;
    view.data = start(data) + offset_ * size_;
    view.dtype = view_.dtype;
    view.rank = view_.rank;
    std::copy_n(view_.extent, kMaxRank, view.extent);
    std::copy_n(view_.stride, kMaxRank, view.stride);
    return view;
  }

  Index size_ = 1;
  Index offset_ = 0;
  std::size_t used_ = 0;
  Operand view_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(3 * kLine);
};

/// A copy, in a backend's memory, of a strided tensor with all that surrounds it.
class Mirror {
 public:
  Mirror(Backend& backend, const Strided& of) : backend_(&backend), of_(&of) {
    const std::vector<std::byte> bytes = of.bytes();
    memory_ = backend.allocate(bytes.size());
    backend.upload(memory_, bytes.data(), bytes.size());
  }
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  ~Mirror() { backend_->release(memory_); }

  Operand operand() const {
    Operand view = of_->operand();
    view.data = memory_ + of_->first_byte();
    return view;
  }
  Result result() const {
    const Operand operand = this->operand();
    Result view{memory_ + of_->first_byte(), operand.dtype, operand.rank, {}, {}};
    std::copy_n(operand.extent, kMaxRank, view.extent);
    std::copy_n(operand.stride, kMaxRank, view.stride);
    return view;
  }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> host(of_->bytes().size());
    backend_->download(host.data(), memory_, host.size());
    return host;
  }

 private:
  Backend* backend_;
  const Strided* of_;
  std::byte* memory_;
};

/// Fills x with floats that reach every path: plain noise, blocks of one scale, subnormals,
/// extremes, zeros, infinities and NaNs of both signs; or any bit pattern.
enum class Fill { noise, blocks, edges, anything };

inline void fill(Strided& x, Fill how, std::uint32_t seed) {
  std::minstd_rand random(seed);
  const auto uniform = [&] { return static_cast<float>(random()) * 0x1p-30f - 1.0f; };
  const bool f32 = x.operand().dtype == Dtype::f32;
  constexpr std::uint32_t kEdges[] = {
      0x00000000, 0x80000000, 0x00000001, 0x00010000, 0x80010000, 0x007F0000, 0x00800000,
      0x04600001, 0x047FFFFF, 0x07E00001, 0x3F800000, 0x43E00000, 0x43E00001, 0x43E80000,
      0x43F00000, 0xC3E80000, 0x47600000, 0x7F780000, 0x7F7F0000, 0xFF7FFFFF, 0x7F700000,
      0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F810000, 0x3A800000, 0x3B000000};
  int exponent = 0;
  for (Index i = 0; i < x.elements(); ++i) {
    if (i % 32 == 0) exponent = static_cast<int>(random() % 270) - 142;
    float value = uniform() * uniform();
    if (how == Fill::blocks) value = std::ldexp(value, exponent - static_cast<int>(random() % 20));
    auto word = bit_cast<std::uint32_t>(value);
    if (how == Fill::edges && random() % 3 != 0) word = kEdges[random() % std::size(kEdges)];
    if (how == Fill::anything) word = static_cast<std::uint32_t>(random() << 16 ^ random());
    if (f32) {
      std::memcpy(x.at(i), &word, 4);
    } else {
      const auto half = static_cast<std::uint16_t>(word >> 16);
      std::memcpy(x.at(i), &half, 2);
    }
  }
}

/// A contiguous or strided tensor of 32-bit integers.
inline Strided integers(const std::vector<std::int32_t>& values, const Lie& lie = {"contiguous"}) {
  Strided tensor(Dtype::i32, {static_cast<Index>(values.size())}, lie);
  for (std::size_t i = 0; i < values.size(); ++i)
    std::memcpy(tensor.at(static_cast<Index>(i)), &values[i], sizeof(std::int32_t));
  return tensor;
}

/// Random bytes in every element, whatever the type.
inline void fill_bytes(Strided& tensor, std::uint32_t seed) {
  std::minstd_rand random(seed);
  const std::size_t size = size_of(tensor.operand().dtype);
  for (Index i = 0; i < tensor.elements(); ++i) {
    for (std::size_t b = 0; b < size; ++b) tensor.at(i)[b] = static_cast<std::byte>(random() >> 8);
  }
}

}  // namespace mxo::test

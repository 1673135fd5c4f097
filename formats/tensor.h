// Owning, aligned, row-major host storage that hands out views.
// Thread safety: as a vector's: any threads read at once, or one writes.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "formats/any_view.h"

namespace mxo {

/// Contiguous elements of one type, zero at birth, aligned to 64 bytes.  Without a shape it has no
/// memory, as one that was moved from: to be copied or assigned, and no operand.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Dtype dtype, std::vector<Index> shape) : dtype_(dtype), shape_(std::move(shape)) {
    for (const Index e : shape_) elements_ *= e;
    allocate();
    std::memset(memory_.get(), 0, bytes_);
  }
  Tensor(const Tensor& other)
      : dtype_(other.dtype_), shape_(other.shape_), elements_(other.elements_) {
    if (!other.memory_) return;
    allocate();
    std::memcpy(memory_.get(), other.memory_.get(), bytes_);
  }
  Tensor& operator=(const Tensor& other) { return *this = Tensor(other); }
  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor taken(std::move(other));
    swap(taken);
    return *this;
  }

  Dtype dtype() const { return dtype_; }
  const std::vector<Index>& shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  Index extent(int axis) const { return shape_[static_cast<std::size_t>(axis)]; }
  Index elements() const { return elements_; }
  std::size_t bytes() const { return bytes_; }
  std::byte* data() { return memory_.get(); }
  const std::byte* data() const { return memory_.get(); }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(memory_.get());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(memory_.get());
  }

  Operand operand() const { return view<const void>(memory_.get()); }
  Result result() { return view<void>(memory_.get()); }

  /// The same bytes under another element type of the same size ("U8" read as e4m3).
  void reinterpret_as(Dtype dtype) {
    if (size_of(dtype) != size_of(dtype_)) {
      throw Error(Fault::dtype, "cannot read " + std::string(name_of(dtype_)) + " as " +
                                    std::string(name_of(dtype)) + ": the sizes differ");
    }
    dtype_ = dtype;
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Release {
    void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
  };

  void allocate() {
    bytes_ = static_cast<std::size_t>(elements_) * size_of(dtype_);
    memory_.reset(static_cast<std::byte*>(::operator new[](bytes_ + 1, kAlignment)));
  }
  void swap(Tensor& other) noexcept {
    std::swap(dtype_, other.dtype_);
    std::swap(shape_, other.shape_);
    std::swap(elements_, other.elements_);
    std::swap(bytes_, other.bytes_);
    std::swap(memory_, other.memory_);
  }

  template <typename Void>
  AnyView<Void> view(Void* data) const {
    if (rank() > kMaxRank) throw Error(Fault::shape, "operands have at most 4 dimensions");
    AnyView<Void> v;
    v.data = data;
    v.dtype = dtype_;
    v.rank = rank();
    Index stride = 1;
    for (int i = v.rank - 1; i >= 0; --i) {
      v.extent[i] = extent(i);
      v.stride[i] = stride;
      stride *= extent(i);
    }
    return v;
  }

  Dtype dtype_ = Dtype::f32;
  std::vector<Index> shape_;
  Index elements_ = 1;  ///< the product of the extents: of none, 1
  std::size_t bytes_ = 0;
  std::unique_ptr<std::byte[], Release> memory_;
};

}  // namespace mxo

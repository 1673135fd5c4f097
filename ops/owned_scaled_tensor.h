// A scaled tensor with the memory it lies in.
// Thread safety: as a vector's: any threads read at once, or one writes.
#pragma once

#include "ops/backend_tensor.h"
#include "ops/scaled_tensor.h"

namespace mxo {

/// A scaled tensor in a backend's own memory, or a view of memory that others own.
class OwnedScaledTensor {
 public:
  OwnedScaledTensor() = default;
  /// Room for codes of `shape`, and for scales of `scale_shape`.
  OwnedScaledTensor(Backend& backend, Dtype format, std::span<const Index> shape, Dtype scale,
                    std::span<const Index> scale_shape, const BlockExtents& block)
      : codes_(backend, format, shape.data(), static_cast<int>(shape.size())),
        scales_(backend, scale, scale_shape.data(), static_cast<int>(scale_shape.size())),
        view_{codes_.operand(), scales_.operand(), block} {}
  OwnedScaledTensor(BackendTensor codes, BackendTensor scales, const BlockExtents& block)
      : codes_(std::move(codes)),
        scales_(std::move(scales)),
        view_{codes_.operand(), scales_.operand(), block} {}
  /// A tensor without scales.
  explicit OwnedScaledTensor(BackendTensor plain)
      : codes_(std::move(plain)), view_{codes_.operand(), {}, {}} {}
  /// A view of memory that others own.
  static OwnedScaledTensor borrowed(const ScaledTensor& view) {
    OwnedScaledTensor tensor;
    tensor.view_ = view;
    return tensor;
  }

  bool given() const { return view_.given(); }
  const ScaledTensor& view() const { return view_; }
  const Operand& codes() const { return view_.codes; }
  const Operand& scales() const { return view_.scales; }
  /// Writable; only for memory it owns.
  ScaledResult result() { return {codes_.result(), scales_.result(), view_.block, view_.storage}; }
  /// The memory of the codes, where it is owned; what remains is empty.
  BackendTensor take_codes() {
    view_ = {};
    return std::move(codes_);
  }

 private:
  BackendTensor codes_;
  BackendTensor scales_;
  ScaledTensor view_;
};

}  // namespace mxo

// A tensor whose element type and rank are known at run time only: the operands of operators.
// Thread safety: values; what they point to is as its owner says.
#pragma once

#include <string>

#include "formats/dtype.h"
#include "formats/tensor_view.h"

namespace mxo {

inline constexpr int kMaxRank = 4;

/// `Void` is `const void` for what an operator reads, `void` for what it writes.
template <typename Void>
struct AnyView {
  Void* data = nullptr;
  Dtype dtype = Dtype::f32;
  int rank = 0;
  Index extent[kMaxRank] = {};
  Index stride[kMaxRank] = {};  ///< in elements

  /// True where an optional operand was given.  An empty tensor is given: its rank is not 0.
  constexpr bool given() const { return rank > 0; }
  constexpr Index elements() const {
    Index n = 1;
    for (int i = 0; i < rank; ++i) n *= extent[i];
    return n;
  }
  constexpr bool contiguous() const {
    Index expected = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (extent[i] != 1 && stride[i] != expected) return false;
      expected *= extent[i];
    }
    return true;
  }
  /// The typed view.  The caller has checked rank and type (ops/*.cc do).
  template <typename T, int Rank>
  constexpr TensorView<T, Rank> as() const {
    TensorView<T, Rank> view;
    view.data = static_cast<T*>(data);
    for (int i = 0; i < Rank; ++i) {
      view.extent[i] = extent[i];
      view.stride[i] = stride[i];
    }
    return view;
  }
};

using Operand = AnyView<const void>;
using Result = AnyView<void>;

/// The same memory, to be read.
constexpr Operand to_read(const Result& result) {
  Operand operand{result.data, result.dtype, result.rank, {}, {}};
  for (int i = 0; i < kMaxRank; ++i) {
    operand.extent[i] = result.extent[i];
    operand.stride[i] = result.stride[i];
  }
  return operand;
}

/// "e4m3 [128, 64]", for messages.
template <typename Void>
std::string describe(const AnyView<Void>& view) {
  std::string text(name_of(view.dtype));
  text += " [";
  for (int i = 0; i < view.rank; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(view.extent[i]);
  }
  return text + "]";
}

}  // namespace mxo

// A pointer with a shape.  Owns nothing, checks nothing in the inner loop.
// Thread safety: values; what they point to is as its owner says.
#pragma once

#include <cstdint>

#include "formats/host_device.h"

namespace mxo {

using Index = std::int64_t;

MXO_HD constexpr Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }
MXO_HD constexpr Index round_up(Index a, Index b) { return ceil_div(a, b) * b; }

/// Rank-N strided view; strides count elements, not bytes.  Plain arrays, because
/// nvcc does not admit std::array's operators to device code.
template <typename T, int Rank>
struct TensorView {
  T* data = nullptr;
  Index extent[Rank] = {};
  Index stride[Rank] = {};

  template <typename... I>
  requires(sizeof...(I) == Rank) MXO_HD constexpr T& operator()(I... index) const {
    Index offset = 0;
    int axis = 0;
    ((offset += static_cast<Index>(index) * stride[axis++]), ...);
    return data[offset];
  }
};

template <typename T>
using Matrix = TensorView<T, 2>;

/// A row-major view over contiguous storage.
template <typename T>
MXO_HD constexpr Matrix<T> row_major(T* data, Index rows, Index columns) {
  return {data, {rows, columns}, {columns, 1}};
}

}  // namespace mxo

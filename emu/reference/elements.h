// Loops over the elements of views of any rank and stride.
#pragma once

#include "formats/any_view.h"

namespace mxo {

/// Element offset of row-major position `i` in a strided view.
template <typename Void>
Index offset_of(const AnyView<Void>& view, Index i) {
  Index offset = 0;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    offset += i % view.extent[axis] * view.stride[axis];
    i /= view.extent[axis];
  }
  return offset;
}

/// A view of rank 2 or 3 as rank 3, with a leading extent of 1 if need be.
template <typename T, typename Void>
TensorView<T, 3> batched(const AnyView<Void>& view) {
  if (view.rank == 3) return view.template as<T, 3>();
  return {static_cast<T*>(view.data),
          {1, view.extent[0], view.extent[1]},
          {0, view.stride[0], view.stride[1]}};
}

/// Calls run(TypeTag<X>, TypeTag<Code>) for x in f32, bf16 or f16 and codes in an 8-bit format.
template <typename Fn>
void visit_quantized(Dtype x, Dtype codes, Fn&& run) {
  visit_minifloat8(codes,
                   [&](auto code) { visit_wide_float(x, [&](auto wide) { run(wide, code); }); });
}

}  // namespace mxo

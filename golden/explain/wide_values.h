// Elements of f32, bf16 or f16 tensors as floats, and back.
#pragma once

#include "formats/tensor.h"

namespace mxo {

inline float wide_value(const Tensor& t, Index i) {
  return visit_wide_float(
      t.dtype(), [&](auto tag) { return to_float(t.as<typename decltype(tag)::type>()[i]); });
}

/// t[i] = v, rounded to nearest even.
inline void store_wide(Tensor& t, Index i, float v) {
  visit_wide_float(t.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    t.as<T>()[i] = from_float<T>(v);
  });
}

}  // namespace mxo

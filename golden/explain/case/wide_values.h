// Elements of f32, bf16 or f16 tensors as floats, and back; integers hold the bits of f32 or bf16.
#pragma once

#include "formats/tensor.h"

namespace mxo {

inline float wide_value(const Tensor& t, Index i) {
  if (size_of(t.dtype()) == 4) return t.as<float>()[i];
  return t.dtype() == Dtype::f16 ? decode(t.as<F16>()[i]) : decode(t.as<BF16>()[i]);
}

/// t[i] = v, rounded to nearest even.
inline void store_wide(Tensor& t, Index i, float v) {
  if (size_of(t.dtype()) == 4) {
    t.as<float>()[i] = v;
  } else if (t.dtype() == Dtype::f16) {
    t.as<F16>()[i] = encode<kF16>(v);
  } else {
    t.as<BF16>()[i] = encode<kBF16>(v);
  }
}

}  // namespace mxo

// The inner loops over rows of floats: swiglu, its gradients, sums of scaled rows.  One table per
// instruction set.
#pragma once

#include "emu/cpu/isa.h"
#include "formats/dtype.h"
#include "formats/tensor_view.h"

namespace mxo::cpu {

/// Loops over n contiguous elements; an absent probability or weight is 1, which changes no bit.
/// Every entry returns the bits of its scalar version, except for the sign and payload of NaNs in
/// f32 sums and products.  Indexed by float_index.
struct FloatKernels {
  using Gate = void(const void* a, const void* b, Index n, float prob, void* y) noexcept;
  /// products[i] = ((a * sigma(a)) * b) * dy, the terms of dprobs; null if not wanted.
  using Gradient = void(const void* a, const void* b, const void* dy, Index n, float prob, void* da,
                        void* db, float* products) noexcept;
  /// sum[i] = sum[i] + fl(x[i] * weight).
  using AddScaled = void(const void* x, Index n, float weight, float* sum) noexcept;
  /// y[i] = fl(x[i] * weight), rounded to its type; every NaN the canonical one.
  using Scale = void(const void* x, Index n, float weight, void* y) noexcept;
  /// products[i] = fl(x[i] * z[i]).
  using Multiply = void(const void* x, const void* z, Index n, float* products) noexcept;
  Gate* gate[2][2];             ///< type of x, of y
  Gradient* gradient[2][2][2];  ///< type of x, of dy, of dx
  AddScaled* add_scaled[2];     ///< type of x
  Scale* scale[2][2];           ///< type of x, of y
  Multiply* multiply[2][2];     ///< type of x, of z
};

/// f32, bf16.
constexpr int float_index(Dtype dtype) { return dtype == Dtype::f32 ? 0 : 1; }

extern const FloatKernels kFloatScalar;

const FloatKernels& float_kernels(Isa isa);

}  // namespace mxo::cpu

// Loops over rows of floats in plain C++, complete: the other tables must return the same bits.
#include "emu/cpu/float_kernels.h"
#include "emu/reference/elementwise.h"
#include "emu/reference/swiglu_elements.h"
#include "ops/swiglu.h"

namespace mxo::cpu {
namespace {

using F32 = float;

template <typename X, typename Y>
void gate(const void* a, const void* b, Index n, float prob, void* y) noexcept {
  for (Index i = 0; i < n; ++i) {
    const float gated =
        swiglu_gated(to_float(static_cast<const X*>(a)[i]), to_float(static_cast<const X*>(b)[i]));
    static_cast<Y*>(y)[i] = rounded<Y>(gated * prob);
  }
}

template <typename X, typename D, typename Y>
void gradient(const void* a, const void* b, const void* dy, Index n, float prob, void* da, void* db,
              float* products) noexcept {
  for (Index i = 0; i < n; ++i) {
    const float gate_of = to_float(static_cast<const X*>(a)[i]);
    const float up = to_float(static_cast<const X*>(b)[i]);
    const float d = to_float(static_cast<const D*>(dy)[i]);
    const SwigluGradient g = swiglu_gradient(gate_of, up, d * prob);
    static_cast<Y*>(da)[i] = rounded<Y>(g.da);
    static_cast<Y*>(db)[i] = rounded<Y>(g.db);
    if (products != nullptr) products[i] = swiglu_gated(gate_of, up) * d;
  }
}

template <typename X>
void add_scaled(const void* x, Index n, float weight, float* sum) noexcept {
  for (Index i = 0; i < n; ++i) sum[i] += to_float(static_cast<const X*>(x)[i]) * weight;
}

template <typename X, typename Y>
void scale(const void* x, Index n, float weight, void* y) noexcept {
  for (Index i = 0; i < n; ++i) {
    static_cast<Y*>(y)[i] = rounded<Y>(to_float(static_cast<const X*>(x)[i]) * weight);
  }
}

template <typename X, typename Z>
void multiply(const void* x, const void* z, Index n, float* products) noexcept {
  for (Index i = 0; i < n; ++i) {
    products[i] = to_float(static_cast<const X*>(x)[i]) * to_float(static_cast<const Z*>(z)[i]);
  }
}

}  // namespace

const FloatKernels kFloatScalar = {
    {{gate<F32, F32>, gate<F32, BF16>}, {gate<BF16, F32>, gate<BF16, BF16>}},
    {{{gradient<F32, F32, F32>, gradient<F32, F32, BF16>},
      {gradient<F32, BF16, F32>, gradient<F32, BF16, BF16>}},
     {{gradient<BF16, F32, F32>, gradient<BF16, F32, BF16>},
      {gradient<BF16, BF16, F32>, gradient<BF16, BF16, BF16>}}},
    {add_scaled<F32>, add_scaled<BF16>},
    {{scale<F32, F32>, scale<F32, BF16>}, {scale<BF16, F32>, scale<BF16, BF16>}},
    {{multiply<F32, F32>, multiply<F32, BF16>}, {multiply<BF16, F32>, multiply<BF16, BF16>}},
};

}  // namespace mxo::cpu

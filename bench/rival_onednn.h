// oneDNN's bf16 matrix product as a rival.
#pragma once

#include "formats/dtype.h"
#include "formats/tensor_view.h"

namespace mxo::bench {

bool have_onednn();

/// A matrix of bf16, its elements so many apart.
struct Laid {
  const BF16* data;
  Index row_step, column_step;
};
/// y[m, n] = sum over k of a[m, k] b[k, n], y row-major.
void onednn_product(const Laid& a, const Laid& b, BF16* y, Index m, Index n, Index k);

/// y[m, n] = sum over k of x[m, k] w[n, k], all row-major.
inline void onednn_matmul(const BF16* x, const BF16* w, BF16* y, Index m, Index n, Index k) {
  onednn_product({x, k, 1}, {w, 1, k}, y, m, n, k);
}

}  // namespace mxo::bench

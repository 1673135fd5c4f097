// oneDNN's bf16 matrix product as a rival.
#pragma once

#include "formats/dtype.h"
#include "formats/tensor_view.h"

namespace mxo::bench {

bool have_onednn();
/// y[m, n] = sum over k of x[m, k] w[n, k], all bf16 and row-major.
void onednn_matmul(const BF16* x, const BF16* w, BF16* y, Index m, Index n, Index k);

}  // namespace mxo::bench

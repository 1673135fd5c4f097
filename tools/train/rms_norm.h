// Root-mean-square normalisation of rows, and its gradients.
#pragma once

#include <cmath>

#include "tools/train/rows.h"

namespace mxo::tools {

inline constexpr double kRmsEpsilon = 1e-6;

/// y = (x * r) * gain with r = 1 / sqrt(sum of squares / D + epsilon), of every row.
template <typename Real>
void rms_norm(const Real* x, Index rows, Index width, const Real* gain, Real* inverse, Real* y) {
  for (Index t = 0; t < rows; ++t, x += width, y += width) {
    const Real squares = sum_of<Real>(width, [x](Index d) { return x[d] * x[d]; });
    const Real mean = squares / static_cast<Real>(width);
    const Real r = Real{1} / std::sqrt(mean + static_cast<Real>(kRmsEpsilon));
    inverse[t] = r;
    for (Index d = 0; d < width; ++d) y[d] = (x[d] * r) * gain[d];
  }
}

/// Adds to dx, and to dgain row by row.
template <typename Real>
void rms_norm_backward(const Real* x, const Real* inverse, Index rows, Index width,
                       const Real* gain, const Real* dy, Real* dx, Real* dgain) {
  for (Index t = 0; t < rows; ++t, x += width, dy += width, dx += width) {
    const Real r = inverse[t];
    const Real dot = sum_of<Real>(width, [=](Index d) { return (dy[d] * gain[d]) * x[d]; });
    const Real along = (dot / static_cast<Real>(width)) * (r * r);
    for (Index d = 0; d < width; ++d) {
      dgain[d] += dy[d] * (x[d] * r);
      dx[d] += r * (dy[d] * gain[d] - x[d] * along);
    }
  }
}

}  // namespace mxo::tools

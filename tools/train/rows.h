// Sums and softmax of a row, in orders that vectors can keep.
#pragma once

#include <algorithm>

#include "tools/train/elementary.h"

namespace mxo::tools {

/// The sum of term(0), ... term(n - 1): eight sums, term i to sum i mod 8, ascending; then those
/// ascending.
template <typename Real, typename Term>
Real sum_of(Index n, const Term& term) {
  constexpr Index kSums = 8;
  Real sums[kSums] = {};
  const Index whole = n - n % kSums;
  for (Index i = 0; i < whole; i += kSums) {
    for (Index j = 0; j < kSums; ++j) sums[j] += term(i + j);
  }
  for (Index j = 0; j < n % kSums; ++j) sums[j] += term(whole + j);
  Real sum = 0;
  for (const Real part : sums) sum += part;
  return sum;
}

/// The largest of n >= 1; a NaN only if it is the first.
template <typename Real>
Real largest(const Real* x, Index n) {
  constexpr Index kParts = 8;
  Real parts[kParts];
  for (Real& part : parts) part = x[0];
  const Index whole = n - n % kParts;
  for (Index i = 0; i < whole; i += kParts) {
    for (Index j = 0; j < kParts; ++j) parts[j] = x[i + j] > parts[j] ? x[i + j] : parts[j];
  }
  for (Index j = 0; j < n % kParts; ++j)
    parts[j] = x[whole + j] > parts[j] ? x[whole + j] : parts[j];
  for (const Real part : parts) parts[0] = part > parts[0] ? part : parts[0];
  return parts[0];
}

/// Row z of n logits becomes its softmax: e = exp_small(fl(z - largest)), each divided by sum_of
/// them.  Returns the sum, and the largest through `top`.
template <typename Real>
Real softmax(Real* z, Index n, Real* top) {
  *top = largest(z, n);
  for (Index i = 0; i < n; ++i) z[i] = exp_small(z[i] - *top);
  const Real sum = sum_of<Real>(n, [z](Index i) { return z[i]; });
  for (Index i = 0; i < n; ++i) z[i] /= sum;
  return sum;
}

}  // namespace mxo::tools

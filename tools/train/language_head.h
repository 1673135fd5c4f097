// The two ends of a language model over bytes: embedding, and cross-entropy.
#pragma once

#include <cstdint>
#include <span>

#include "tools/train/rows.h"

namespace mxo::tools {

inline constexpr Index kBytes = 256;

/// x[t] = tokens[byte t]; the table is [256, D].
template <typename Real>
void embed(std::span<const std::uint8_t> text, const Real* tokens, Index width, Real* x) {
  for (const std::uint8_t byte : text) x = std::copy_n(tokens + byte * width, width, x);
}

/// Adds to columns `first` to `end` of the gradient of the table, t ascending.
template <typename Real>
void embed_backward(std::span<const std::uint8_t> text, const Real* dx, Index width, Index first,
                    Index end, Real* dtokens) {
  for (const std::uint8_t byte : text) {
    for (Index d = first; d < end; ++d) dtokens[byte * width + d] += dx[d];
    dx += width;
  }
}

/// Rows z of logits become their softmax.  Returns the sum over t ascending of the losses, each
/// log(sum over bytes of exp(z - largest)) - (z of the next byte - largest).
template <typename Real>
double cross_entropy(Real* z, std::span<const std::uint8_t> next) {
  double total = 0.0;
  for (const std::uint8_t byte : next) {
    const Real wanted = z[byte];
    Real top = 0;
    const Real sum = softmax(z, kBytes, &top);
    total += static_cast<double>(log_of(sum) - (wanted - top));
    z += kBytes;
  }
  return total;
}

/// What cross_entropy made of z becomes the gradient of `share` times the sum of the losses.
template <typename Real>
void cross_entropy_backward(Real* z, std::span<const std::uint8_t> next, Real share) {
  for (const std::uint8_t byte : next) {
    z[byte] -= 1;
    for (Index b = 0; b < kBytes; ++b) z[b] *= share;
    z += kBytes;
  }
}

}  // namespace mxo::tools

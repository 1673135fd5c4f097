// The two ends of a language model over bytes: embedding, and cross-entropy behind a projection.
#pragma once

#include <cstdint>
#include <span>

#include "tools/train/elementary.h"
#include "tools/train/rms_norm.h"

namespace mxo::tools {

inline constexpr Eigen::Index kBytes = 256;

/// x[t] = tokens[byte t] + positions[t]; tables [256, D] and [context, D].
template <typename Real>
Matrix<Real> embed(std::span<const std::uint8_t> text, const Real* tokens, const Real* positions,
                   Eigen::Index width) {
  const auto rows = static_cast<Eigen::Index>(text.size());
  const ConstMatrixMap<Real> table(tokens, kBytes, width);
  Matrix<Real> x = ConstMatrixMap<Real>(positions, rows, width);
  for (Eigen::Index t = 0; t < rows; ++t) x.row(t) += table.row(text[static_cast<std::size_t>(t)]);
  return x;
}

/// Adds to the gradients of the tables, t ascending.
template <typename Real>
void embed_backward(std::span<const std::uint8_t> text, const Matrix<Real>& dx, Real* dtokens,
                    Real* dpositions) {
  MatrixMap<Real> table(dtokens, kBytes, dx.cols());
  for (Eigen::Index t = 0; t < dx.rows(); ++t) {
    table.row(text[static_cast<std::size_t>(t)]) += dx.row(t);
  }
  MatrixMap<Real>(dpositions, dx.rows(), dx.cols()) += dx;
}

/// -log softmax(z)[next byte], z = rms_norm(x) W; gain [D], W [D, 256].
template <typename Real>
class LanguageHead {
 public:
  /// Returns the sum over the sequence, t ascending, of the losses; each is
  /// log(sum over bytes ascending of exp(z - max)) - (z of the next byte - max).
  double forward(const Matrix<Real>& x, std::span<const std::uint8_t> next, const Real* gain,
                 const Real* w) {
    normal_ = norm_.forward(x, gain);
    chances_ = multiply(normal_, ConstMatrixMap<Real>(w, x.cols(), kBytes));
    double total = 0.0;
    for (Eigen::Index t = 0; t < x.rows(); ++t) {
      auto z = chances_.row(t);
      Real top = z(0);
      for (Eigen::Index b = 1; b < kBytes; ++b) top = std::max(top, z(b));
      const Real wanted = z(next[static_cast<std::size_t>(t)]) - top;
      Real sum = 0;
      for (Eigen::Index b = 0; b < kBytes; ++b) {
        z(b) = exp_of(z(b) - top);
        sum += z(b);
      }
      for (Eigen::Index b = 0; b < kBytes; ++b) z(b) /= sum;
      total += static_cast<double>(log_of(sum) - wanted);
    }
    return total;
  }

  /// Gradients of the loss of the sequence times `share`: adds to dgain and dw, returns dx.
  Matrix<Real> backward(std::span<const std::uint8_t> next, Real share, const Real* gain,
                        const Real* w, Real* dgain, Real* dw) const {
    Matrix<Real> dz = chances_;
    for (Eigen::Index t = 0; t < dz.rows(); ++t) dz(t, next[static_cast<std::size_t>(t)]) -= 1;
    dz *= share;
    const Eigen::Index width = normal_.cols();
    MatrixMap<Real>(dw, width, kBytes) += multiply(normal_.transpose(), dz);
    const Matrix<Real> dnormal = multiply(dz, ConstMatrixMap<Real>(w, width, kBytes).transpose());
    return norm_.backward(dnormal, gain, dgain);
  }

 private:
  RmsNorm<Real> norm_;
  Matrix<Real> normal_;
  Matrix<Real> chances_;
};

}  // namespace mxo::tools

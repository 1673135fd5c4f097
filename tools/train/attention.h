// Causal self-attention of one sequence, with its normalisation in front, and its gradients.
#pragma once

#include <vector>

#include "tools/train/elementary.h"
#include "tools/train/rms_norm.h"

namespace mxo::tools {

/// Weights, or gradients of them: gain [D], qkv [D, 3D], out [D, D], each in row order.
template <typename Real>
struct AttentionWeights {
  Real* gain;
  Real* qkv;
  Real* out;
};

/// y = o W_out, o_h = softmax(q_h k_h^T / sqrt(D/H), causal) v_h, [q | k | v] = rms_norm(x) W_qkv.
/// The softmax of row t: exp(fl(s - max)) over u <= t ascending, each divided by their sum.
template <typename Real>
class Attention {
 public:
  Matrix<Real> forward(const Matrix<Real>& x, const AttentionWeights<const Real>& w, int heads) {
    const Eigen::Index width = x.cols();
    normal_ = norm_.forward(x, w.gain);
    qkv_ = multiply(normal_, ConstMatrixMap<Real>(w.qkv, width, 3 * width));
    mixed_.resize(x.rows(), width);
    chances_.resize(static_cast<std::size_t>(heads));
    const Eigen::Index d = width / heads;
    for (int h = 0; h < heads; ++h) {
      Matrix<Real>& p = chances_[static_cast<std::size_t>(h)];
      p = multiply(part(0, h, d), part(1, h, d).transpose());
      for (Eigen::Index t = 0; t < p.rows(); ++t) softmax(p, t, scale(d));
      mixed_.middleCols(h * d, d) = multiply(p, part(2, h, d));
    }
    return multiply(mixed_, ConstMatrixMap<Real>(w.out, width, width));
  }

  /// Adds to the gradients of the weights and returns dx.
  Matrix<Real> backward(const Matrix<Real>& dy, const AttentionWeights<const Real>& w,
                        const AttentionWeights<Real>& dw) const {
    const Eigen::Index width = dy.cols();
    const Eigen::Index d = width / static_cast<Eigen::Index>(chances_.size());
    MatrixMap<Real>(dw.out, width, width) += multiply(mixed_.transpose(), dy);
    const Matrix<Real> dmixed = multiply(dy, ConstMatrixMap<Real>(w.out, width, width).transpose());
    Matrix<Real> dqkv(dy.rows(), 3 * width);
    for (std::size_t head = 0; head < chances_.size(); ++head) {
      const auto h = static_cast<Eigen::Index>(head);
      const Matrix<Real>& p = chances_[head];
      const auto dout = dmixed.middleCols(h * d, d);
      Matrix<Real> ds = multiply(dout, part(2, h, d).transpose());
      for (Eigen::Index t = 0; t < ds.rows(); ++t) softmax_backward(p, ds, t, scale(d));
      dqkv.middleCols(h * d, d) = multiply(ds, part(1, h, d));
      dqkv.middleCols(width + h * d, d) = multiply(ds.transpose(), part(0, h, d));
      dqkv.middleCols(2 * width + h * d, d) = multiply(p.transpose(), dout);
    }
    MatrixMap<Real>(dw.qkv, width, 3 * width) += multiply(normal_.transpose(), dqkv);
    const Matrix<Real> dnormal =
        multiply(dqkv, ConstMatrixMap<Real>(w.qkv, width, 3 * width).transpose());
    return norm_.backward(dnormal, w.gain, dw.gain);
  }

 private:
  /// q, k or v of one head.
  auto part(Eigen::Index which, Eigen::Index head, Eigen::Index d) const {
    return qkv_.middleCols(which * (qkv_.cols() / 3) + head * d, d);
  }
  static Real scale(Eigen::Index d) { return Real{1} / std::sqrt(static_cast<Real>(d)); }

  static void softmax(Matrix<Real>& s, Eigen::Index t, Real scale) {
    Real top = s(t, 0) * scale;
    for (Eigen::Index u = 0; u <= t; ++u) {
      s(t, u) *= scale;
      top = std::max(top, s(t, u));
    }
    Real sum = 0;
    for (Eigen::Index u = 0; u <= t; ++u) {
      s(t, u) = exp_of(s(t, u) - top);
      sum += s(t, u);
    }
    for (Eigen::Index u = 0; u <= t; ++u) s(t, u) /= sum;
    for (Eigen::Index u = t + 1; u < s.cols(); ++u) s(t, u) = 0;
  }
  static void softmax_backward(const Matrix<Real>& p, Matrix<Real>& ds, Eigen::Index t,
                               Real scale) {
    Real dot = 0;
    for (Eigen::Index u = 0; u <= t; ++u) dot += p(t, u) * ds(t, u);
    for (Eigen::Index u = 0; u <= t; ++u) ds(t, u) = (p(t, u) * (ds(t, u) - dot)) * scale;
    for (Eigen::Index u = t + 1; u < ds.cols(); ++u) ds(t, u) = 0;
  }

  RmsNorm<Real> norm_;
  Matrix<Real> normal_;
  Matrix<Real> qkv_;
  Matrix<Real> mixed_;                 ///< the heads' outputs, side by side
  std::vector<Matrix<Real>> chances_;  ///< softmax of every head
};

}  // namespace mxo::tools

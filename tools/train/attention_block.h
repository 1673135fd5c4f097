// Attention over the sequences of a rank, with its normalisation in front and its two products.
#pragma once

#include "tools/train/attention.h"
#include "tools/train/linear.h"
#include "tools/train/norm.h"
#include "tools/train/rotary.h"

namespace mxo::tools {

/// y = o w_out^T, o the heads side by side, [q | k | v] = rms_norm(x) w_qkv^T, q and k turned by
/// their place.  A head of a sequence is the work of one thread.
class AttentionBlock {
 public:
  AttentionBlock(const Rank& rank, const std::string& name, const Rotary<float>& rotary);

  Matrix<float> forward(const Matrix<float>& x, Parameters& parameters);
  /// Adds to dx.  Collective.
  void backward(Matrix<float>& dx, Parameters& parameters);

 private:
  Index head_width() const { return rank_.options.width / rank_.options.heads; }
  /// task(first token, head) for every head of every sequence.
  template <typename Task>
  void each_head(const Task& task) const;
  /// q, k or v of a head of the sequence that begins at `token`, in rows of three widths.
  template <typename Real>
  Head<Real> part(Real* rows, Index token, Index which, Index head) const;
  void turn(float* rows, Index token, Index head, float sign) const;

  const Rank& rank_;
  const Rotary<float>& rotary_;
  Norm norm_;
  Linear qkv_;
  Linear out_;
  Matrix<float> rows_;  ///< [q | k | v]
};

}  // namespace mxo::tools

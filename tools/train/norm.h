// The normalisation in front of a block, over the tokens of a rank.
#pragma once

#include "tools/train/parallel.h"
#include "tools/train/parameters.h"
#include "tools/train/rank.h"
#include "tools/train/rms_norm.h"

namespace mxo::tools {

class Norm {
 public:
  Norm(const Rank& rank, std::string gain) : rank_(rank), gain_(std::move(gain)) {}

  Matrix<float> forward(const Matrix<float>& x, Parameters& parameters) {
    const float* gain = parameters[gain_].data();
    x_ = x;
    inverse_.resize(static_cast<std::size_t>(x.rows()));
    Matrix<float> y(x.rows(), x.cols());
    each_sequence([&](Index first, Index end) {
      rms_norm(row_of(x_, first), end - first, x.cols(), gain, inverse_.data() + first,
               row_of(y, first));
    });
    return y;
  }

  /// Adds to dx.  Gradients of the gain are made for every sequence, and added in their order.
  /// Collective.
  void backward(const Matrix<float>& dy, Matrix<float>& dx, Parameters& parameters) {
    Parameter& gain = parameters[gain_];
    const Index width = x_.cols();
    const Index context = rank_.options.context;
    Matrix<float> parts = Matrix<float>::Zero((x_.rows() + context - 1) / context, width);
    each_sequence([&](Index first, Index end) {
      rms_norm_backward(row_of(x_, first), inverse_.data() + first, end - first, width, gain.data(),
                        row_of(dy, first), row_of(dx, first), row_of(parts, first / context));
    });
    Matrix<float> copy;
    const Matrix<float>& all = rank_.rows_of_all(parts, copy);
    float* sum = gain.gradient.as<float>();
    std::fill_n(sum, width, 0.0f);
    for (Index s = 0; s < all.rows(); ++s) {
      for (Index d = 0; d < width; ++d) sum[d] += all(s, d);
    }
  }

 private:
  template <typename Task>
  void each_sequence(const Task& task) const {
    for_each_part(x_.rows(), rank_.options.context, rank_.threads, task);
  }

  const Rank& rank_;
  std::string gain_;
  Matrix<float> x_;
  std::vector<float> inverse_;
};

}  // namespace mxo::tools

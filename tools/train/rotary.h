// Rotary positions: queries and keys turned by angles that grow with their place.
#pragma once

#include <vector>

#include "tools/train/elementary.h"

namespace mxo::tools {

/// Of d numbers, i and i + d/2 are turned together by t * 10000^(-2i/d).
/// Source: Su et al., "RoFormer"; the halves as transformers has them (rotate_half).
template <typename Real>
class Rotary {
 public:
  Rotary(Index context, Index width) : half_(width / 2) {
    constexpr double kLogOfBase = 9.2103403719761827;
    for (Index t = 0; t < context; ++t) {
      for (Index i = 0; i < half_; ++i) {
        const double share = 2.0 * static_cast<double>(i) / static_cast<double>(width);
        const double frequency = exp_pair(-kLogOfBase * share).high;
        const auto [c, s] = cos_sin(static_cast<double>(t) * frequency);
        cos_.push_back(static_cast<Real>(c));
        sin_.push_back(static_cast<Real>(s));
      }
    }
  }

  /// A row of place t, in place; `sign` -1 turns it back, which is how gradients go.
  void turn(Real* x, Index t, Real sign) const {
    const Real* c = cos_.data() + t * half_;
    const Real* s = sin_.data() + t * half_;
    for (Index i = 0; i < half_; ++i) {
      const Real a = x[i];
      const Real b = x[i + half_];
      const Real sine = sign * s[i];
      x[i] = a * c[i] - b * sine;
      x[i + half_] = b * c[i] + a * sine;
    }
  }

 private:
  Index half_;
  std::vector<Real> cos_;
  std::vector<Real> sin_;
};

}  // namespace mxo::tools

// Scales measured from the output of a small product, and what they have to be.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "golden/explain/recover/effective.h"
#include "tests/golden/multiplied.h"

namespace mxo {

using Numbers = std::vector<double>;

/// Scales of x at those places times three.
inline Call x_tripled(const Call& call, const std::vector<Index>& at) {
  return edited<float>(call, "x.scales", [&](float* s) {
    for (const Index i : at) s[i] *= 3.0f;
  });
}

inline void expect_ratios(const Effective& e, const Numbers& ratios, double within = 1e-4) {
  EXPECT_TRUE(e.fits()) << e.misfit;
  ASSERT_EQ(e.ratio.size(), ratios.size());
  for (std::size_t b = 0; b < ratios.size(); ++b) {
    EXPECT_NEAR(e.ratio[b], ratios[b], within) << b;
    EXPECT_TRUE(e.known(static_cast<Index>(b)));
    EXPECT_LT(std::abs(e.ratio[b] - ratios[b]), 6.0 * e.sigma[b] + 3e-7);
  }
}

}  // namespace mxo

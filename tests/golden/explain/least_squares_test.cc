// Least squares against numbers that are known.
#include "golden/explain/find/finding.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "golden/explain/case/output.h"

namespace mxo {
namespace {

TEST(LeastSquares, UnknownsAreFoundFromWeightedEquations) {
  // 3 a - 2 b + 0 c, off by +-1/16 in turns, of very different weights.
  LeastSquares equations(3);
  for (int i = 0; i < 64; ++i) {
    const double a = 1.0 + i % 7;
    const double b = 1e6 * (1.0 + i % 5);
    const double off = i % 2 == 0 ? 0x1p-4 : -0x1p-4;
    equations.add(std::array{a, b, 0.0}, 3.0 * a - 2.0 * b + off, i % 3 == 0 ? 4.0 : 1.0);
  }
  const auto fit = equations.solved();
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->x[0], 3.0, 3.0 * fit->sigma[0] * fit->misfit);
  EXPECT_NEAR(fit->x[1], -2.0, 3.0 * fit->sigma[1] * fit->misfit);
  EXPECT_LT(fit->sigma[0], 0.1);
  EXPECT_LT(fit->sigma[1], 1e-6);
  EXPECT_EQ(fit->x[2], 0.0);
  EXPECT_TRUE(std::isinf(fit->sigma[2]));
  // 22 equations are off by 1/4, 42 by 1/16.
  EXPECT_NEAR(fit->misfit, std::sqrt((22 * 16 + 42) / 64.0) / 16.0, 5e-3);
  EXPECT_NEAR(fit->left, fit->misfit * fit->misfit * 64.0, 1e-9);
}

}  // namespace
}  // namespace mxo

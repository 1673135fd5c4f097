// exp and the logistic function at the ends of their ranges.
#include "formats/exp.h"

#include <cmath>

#include <gtest/gtest.h>

namespace mxo {
namespace {

TEST(Exp, KeepsSubnormalsAndOverflowsWhereTheRealValueDoes) {
  EXPECT_EQ(exp_rn(0.0f), 1.0f);
  EXPECT_EQ(exp_rn(-0.0f), 1.0f);
  EXPECT_EQ(bit_cast<std::uint32_t>(exp_rn(1.0f)), 0x402DF854u);  // 2.7182817459106445
  EXPECT_EQ(exp_rn(-103.0f), 0x1p-149f);
  EXPECT_EQ(exp_rn(-104.0f), 0.0f);
  EXPECT_LT(exp_rn(88.72283f), INFINITY);
  EXPECT_EQ(exp_rn(88.72284f), INFINITY);
  EXPECT_EQ(exp_rn(-INFINITY), 0.0f);
  EXPECT_TRUE(std::isnan(exp_rn(NAN)));
}

TEST(Sigmoid, IsAHalfAtZeroAndReachesBothEnds) {
  EXPECT_EQ(sigmoid_rn(0.0f), 0.5f);
  EXPECT_EQ(sigmoid_rn(20.0f), 1.0f);
  EXPECT_EQ(sigmoid_rn(INFINITY), 1.0f);
  EXPECT_EQ(sigmoid_rn(-INFINITY), 0.0f);
  EXPECT_EQ(sigmoid_rn(-103.0f), 0x1p-149f);
  EXPECT_TRUE(std::isnan(sigmoid_rn(NAN)));
}

}  // namespace
}  // namespace mxo

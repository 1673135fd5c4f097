// Products and quotients that are rounded once, inline and out of line.
#include "formats/rounded_once.h"

#include <gtest/gtest.h>

namespace mxo {
namespace {

TEST(RoundedOnce, ProductsAndQuotientsAreThoseOfTheirTypes) {
  const float x = 1.0f + 0x1p-12f;  // its square needs 25 bits
  EXPECT_EQ(mul_rn(x, x), 1.0f + 0x1p-11f);
  EXPECT_EQ(library::mul_rn(x, x), 1.0f + 0x1p-11f);
  EXPECT_EQ(div_rn(1.0f, 3.0f), 0x1.555556p-2f);
  EXPECT_EQ(library::div_rn(1.0f, 3.0f), 0x1.555556p-2f);
  EXPECT_EQ(div_rn(1.0, 3.0), 0x1.5555555555555p-2);
  EXPECT_EQ(library::div_rn(1.0, 3.0), 0x1.5555555555555p-2);
}

}  // namespace
}  // namespace mxo

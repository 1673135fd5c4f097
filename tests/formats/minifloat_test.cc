// The codecs at the points where formats differ.
#include "formats/minifloat.h"

#include <gtest/gtest.h>

namespace mxo {
namespace {

TEST(Minifloat, DecodesTheExtremesOfEveryFormat) {
  EXPECT_EQ(decode(E4M3{0x7E}), 448.0f);
  EXPECT_EQ(decode(E4M3Fnuz{0x7F}), 240.0f);
  EXPECT_EQ(decode(E5M2{0x7B}), 57344.0f);
  EXPECT_EQ(decode(E5M2Fnuz{0x7F}), 57344.0f);
  EXPECT_EQ(decode(E4M3{0x01}), 0x1p-9f);
  EXPECT_EQ(decode(E4M3Fnuz{0x01}), 0x1p-10f);
  EXPECT_EQ(decode(E5M2{0x01}), 0x1p-16f);
  EXPECT_EQ(decode(E5M2Fnuz{0x01}), 0x1p-17f);
  EXPECT_EQ(decode(BF16{0x0001}), 0x1p-133f);
  EXPECT_EQ(decode(F16{0x0001}), 0x1p-24f);
}

}  // namespace
}  // namespace mxo

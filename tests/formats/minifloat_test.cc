// NaN as this library writes it, and with the sign of an operand; the rest is in
// minifloat_oracle_test.cc.
#include "formats/minifloat.h"

#include <gtest/gtest.h>

namespace mxo {
namespace {

float of(std::uint32_t word) { return bit_cast<float>(word); }

TEST(Minifloat, NansAreThoseThisLibraryWrites) {
  EXPECT_EQ(make_nan<kE4M3>().bits, 0x7F);
  EXPECT_EQ(make_nan<kE4M3>(1).bits, 0xFF);
  EXPECT_EQ(make_nan<kE5M2>().bits, 0x7F);
  EXPECT_EQ(make_nan<kE5M2>(1).bits, 0xFF);
  EXPECT_EQ(make_nan<kE4M3Fnuz>(1).bits, 0x80);
  EXPECT_EQ(make_nan<kE5M2Fnuz>().bits, 0x80);
  EXPECT_EQ(make_nan<kF16>().bits, 0x7E00);
  EXPECT_EQ(make_nan<kBF16>(1).bits, 0xFFC0);
}

TEST(Minifloat, NanOperandsKeepTheirSignWhereAsked) {
  for (const std::uint32_t nan : {0x7F800001u, 0x7FFFFFFFu}) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const float operand = of(nan | sign);
      const auto signed_nan = encode<kE4M3>(operand, Overflow::nonfinite, NanSign::of_operand);
      EXPECT_EQ(signed_nan.bits, sign != 0 ? 0xFF : 0x7F);
      EXPECT_EQ(encode<kE4M3>(operand).bits, 0x7F);
      EXPECT_EQ(encode<kE4M3>(operand, Overflow::saturate).bits, 0x7F);
      EXPECT_EQ(encode<kE5M2Fnuz>(operand).bits, 0x80);
    }
  }
}

}  // namespace
}  // namespace mxo

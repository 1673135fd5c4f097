// Codes that are no finite number, and where formats differ; the rest is in
// minifloat_oracle_test.cc.
#include "formats/minifloat.h"

#include <cmath>

#include "tests/support/formats_under_test.h"

namespace mxo {
namespace {

float of(std::uint32_t word) { return bit_cast<float>(word); }
std::uint32_t bits(float x) { return bit_cast<std::uint32_t>(x); }

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

template <typename Format>
class EveryCode : public testing::Test {
 protected:
  static constexpr FormatSpec kSpec = Format::spec;
  static constexpr int kSignBit = 1 << kSpec.sign_shift();

  static Format code(int bits) { return {static_cast<typename Format::Bits>(bits)}; }
};
TYPED_TEST_SUITE(EveryCode, test::AllFormats, test::FormatName);

TYPED_TEST(EveryCode, BeyondTheFiniteOnesIsInfiniteOrNan) {
  constexpr FormatSpec spec = TypeParam::spec;
  const bool ieee = spec.special == Special::ieee;
  for (int c = spec.max_finite() + 1; c < TestFixture::kSignBit; ++c) {
    for (const int sign : {0, TestFixture::kSignBit}) {
      const bool infinite = ieee && c == spec.max_finite() + 1;
      EXPECT_EQ(is_infinite(this->code(c | sign)), infinite) << c;
      EXPECT_EQ(is_nan(this->code(c | sign)), !infinite) << c;
      const float expected = infinite ? (sign != 0 ? -INFINITY : INFINITY) : of(0x7FC00000);
      EXPECT_EQ(bits(decode(this->code(c | sign))), bits(expected)) << c;
    }
  }
  if (spec.special == Special::nan_minus_0) {
    EXPECT_TRUE(is_nan(this->code(TestFixture::kSignBit)));
    EXPECT_EQ(bits(decode(this->code(TestFixture::kSignBit))), 0x7FC00000u);
  }
}

}  // namespace
}  // namespace mxo

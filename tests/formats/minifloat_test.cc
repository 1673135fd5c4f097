// The codecs at every code, between neighbours, and where formats differ.
#include "formats/minifloat.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "tests/support/formats_under_test.h"

namespace mxo {
namespace {

float of(std::uint32_t word) { return bit_cast<float>(word); }
std::uint32_t bits(float x) { return bit_cast<std::uint32_t>(x); }

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

TEST(Minifloat, HoldsOneByteOrTwoFromZero) {
  EXPECT_EQ(sizeof(E4M3), 1u);
  EXPECT_EQ(sizeof(E5M2Fnuz), 1u);
  EXPECT_EQ(sizeof(F16), 2u);
  EXPECT_EQ(sizeof(BF16), 2u);
  EXPECT_EQ(E4M3{}.bits, 0);
  EXPECT_TRUE(E4M3{3} == E4M3{3});
  EXPECT_FALSE(E4M3{3} == E4M3{4});
}

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
  /// The definition: (-1)^s 2^e (1 + f / 2^m), below the least exponent without the one.
  static double value(int magnitude) {
    const int field = magnitude >> kSpec.mantissa_bits;
    const int fraction = magnitude % (1 << kSpec.mantissa_bits);
    const int whole = fraction + (field > 0 ? 1 << kSpec.mantissa_bits : 0);
    return std::ldexp(whole, (field > 0 ? field : 1) - kSpec.bias - kSpec.mantissa_bits);
  }
};
TYPED_TEST_SUITE(EveryCode, test::AllFormats, test::FormatName);

TYPED_TEST(EveryCode, IsItsValueAndComesBack) {
  constexpr FormatSpec spec = TypeParam::spec;
  constexpr bool fnuz = spec.special == Special::nan_minus_0;
  for (int c = 0; c <= spec.max_finite(); ++c) {
    const auto expected = static_cast<float>(this->value(c));
    ASSERT_EQ(bits(decode(this->code(c))), bits(expected)) << c;
    ASSERT_EQ(encode<spec>(expected).bits, c);
    ASSERT_FALSE(is_nan(this->code(c)));
    ASSERT_FALSE(is_infinite(this->code(c)));
    if (fnuz && c == 0) continue;
    const int negative = c | TestFixture::kSignBit;
    ASSERT_EQ(bits(decode(this->code(negative))), bits(-expected)) << c;
    ASSERT_EQ(encode<spec>(-expected).bits, negative);
    ASSERT_FALSE(is_nan(this->code(negative)));
    ASSERT_FALSE(is_infinite(this->code(negative)));
  }
  if (fnuz) {
    EXPECT_EQ(encode<spec>(-0.0f).bits, 0);
  }
}

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

TYPED_TEST(EveryCode, NeighboursPartAtTheirMiddle) {
  constexpr FormatSpec spec = TypeParam::spec;
  for (int c = 0; c < spec.max_finite(); ++c) {
    const auto middle = static_cast<float>((this->value(c) + this->value(c + 1)) / 2);
    ASSERT_EQ(encode<spec>(of(bits(middle) - 1)).bits, c);
    ASSERT_EQ(encode<spec>(middle).bits, c + c % 2);
    ASSERT_EQ(encode<spec>(of(bits(middle) + 1)).bits, c + 1);
    ASSERT_EQ(encode<spec>(of(bits(middle) + 2)).bits, c + 1);
  }
  EXPECT_EQ(encode<spec>(0x1p-149f).bits, 0);
}

TYPED_TEST(EveryCode, OverflowStartsAtTheMiddleBeyondTheLast) {
  constexpr FormatSpec spec = TypeParam::spec;
  const int last = spec.max_finite();
  const auto middle = static_cast<float>((this->value(last) + this->value(last + 1)) / 2);
  const int nonfinite = spec.special == Special::ieee           ? last + 1
                        : spec.special == Special::nan_all_ones ? TestFixture::kSignBit - 1
                                                                : TestFixture::kSignBit;
  const int sign = TestFixture::kSignBit;
  const auto beyond = {of(bits(middle) + 1), INFINITY};
  for (const float x : beyond) {
    EXPECT_EQ(encode<spec>(x, Overflow::saturate).bits, last);
    EXPECT_EQ(encode<spec>(-x, Overflow::saturate).bits, last | sign);
    EXPECT_EQ(encode<spec>(x, Overflow::nonfinite).bits, nonfinite);
    EXPECT_EQ(encode<spec>(-x, Overflow::nonfinite).bits, nonfinite | sign);
  }
  EXPECT_EQ(encode<spec>(of(bits(middle) - 1), Overflow::nonfinite).bits, last);
  EXPECT_EQ(encode<spec>(middle, Overflow::nonfinite).bits, last % 2 == 0 ? last : nonfinite);
}

}  // namespace
}  // namespace mxo

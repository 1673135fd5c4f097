// One bit that is flipped wherever something differs, and what it may be instead.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/golden/mapped.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;

/// Rows of four numbers that came as others.
Words rows_of_four(Dtype dtype, const Bits& wanted, const Bits& actual) {
  const auto rows = static_cast<Index>(wanted.size()) / 4;
  Came came(of_bits(dtype, {rows, 4}, wanted), of_bits(dtype, {rows, 4}, actual));
  return mapped(came);
}

TEST(MappedBit, IsNamedWithItsPlace) {
  EXPECT_EQ(mapped(Dtype::u8, {5, 9, 16, 33, 8}, {5, 1, 24, 33, 0}),
            Words{"bit.flipped: bit 3 is flipped in elements 1 to 2 and 4 of y (3)"});
  EXPECT_EQ(rows_of_four(Dtype::u8, {5, 9, 16, 33, 8, 7, 6, 4}, {5, 9, 16, 33, 8, 7, 70, 4}),
            Words{"bit.flipped: bit 6 is flipped in column 2 of row 1 of y (1)"});
}

TEST(MappedBit, IsOneBitAndTheSame) {
  EXPECT_EQ(mapped(Dtype::u8, {5, 9, 16, 33}, {5, 1, 26, 33}), Words{}) << "two bits";
  EXPECT_EQ(mapped(Dtype::u8, {5, 9, 16, 33}, {5, 1, 18, 33}), Words{}) << "two that are others";
}

TEST(MappedBit, IsNotTheLastWhichRoundingAltersToo) {
  EXPECT_EQ(mapped(Dtype::f32, {0x3F800001, 0x40000002, 5, 6}, {0x3F800000, 0x40000002, 5, 6}),
            Words{});
  EXPECT_EQ(mapped(Dtype::f32, {0x3F800001, 0x40000002, 5, 6}, {0x3F800000, 0x40000003, 5, 6}),
            Words{});
}

TEST(MappedBit, OfTwoThatChangedPlacesIsNone) {
  const std::string is = "row.reordered: values change places within their rows in ";
  EXPECT_EQ(mapped(Dtype::u8, {5, 13, 21, 40}, {13, 5, 21, 40}),
            Words{is + "elements 0 to 1 of y (2)"});
  EXPECT_EQ(mapped(Dtype::u8, {13, 5, 21, 40}, {5, 13, 21, 40}),
            Words{is + "elements 0 to 1 of y (2)"});
  EXPECT_EQ(rows_of_four(Dtype::u8, {1, 2, 3, 4, 5, 13, 21, 40}, {1, 2, 3, 4, 13, 5, 21, 40}),
            Words{is + "columns 0 to 1 of row 1 of y (2)"});
  EXPECT_EQ(rows_of_four(Dtype::u8, {5, 2, 3, 4, 13, 9, 21, 40}, {13, 2, 3, 4, 5, 9, 21, 40}),
            Words{"bit.flipped: bit 3 is flipped in column 0 of y (2)"})
      << "of two rows";
}

/// Numbers of e4m3 of which those named have the other sign.
Words turned(Bits wanted, const std::vector<std::size_t>& at) {
  Bits actual = wanted;
  for (const std::size_t i : at) actual[i] ^= 0x80;
  return rows_of_four(Dtype::e4m3, wanted, actual);
}

const Bits kSigns{0xB1, 0xB2, 0xB3, 0x34, 0xB5, 0xB6, 0x37, 0x38, 0xB9, 0xBA, 0x3B, 0x3C};

TEST(MappedBit, OfSignsIsSaidOfSigns) {
  EXPECT_EQ(turned(kSigns, {0, 1, 4, 8}),
            Words{"value.sign_lost: signs are lost in columns 0 to 1 of y (4)"});
  EXPECT_EQ(turned(kSigns, {0, 3, 4, 8}),
            Words{"value.negated: signs are turned in columns 0 and 3 of y (4)"});
  EXPECT_EQ(turned(kSigns, {3, 6, 7, 10}),
            Words{"value.negated: signs are turned in columns 2 to 3 of y (4)"});
  EXPECT_EQ(turned(kSigns, {0, 1, 4}),
            Words{"bit.flipped: bit 7 is flipped in columns 0 to 1 of rows 0 to 1 of y (3)"});
}

TEST(MappedBit, OfSignsIsABitOfIntegers) {
  EXPECT_EQ(mapped(Dtype::u8, {1, 2, 3, 4, 5, 6}, {129, 130, 131, 4, 133, 6}),
            Words{"bit.flipped: bit 7 is flipped in elements 0 to 2 and 4 of y (4)"});
}

TEST(MappedBit, IsSoughtInWhatIsLeft) {
  Came exchanged(of_bits(Dtype::u8, {1, 4}, {5, 13, 21, 40}),
                 of_bits(Dtype::u8, {1, 4}, {13, 5, 22, 40}));
  exchanged.output.settle(2);
  EXPECT_EQ(mapped(exchanged),
            Words{"row.reordered: values change places within their rows in elements 0 to 1 of y "
                  "(2)"});
  Came came(of_bits(Dtype::u8, {1, 4}, {5, 9, 16, 33}), of_bits(Dtype::u8, {1, 4}, {6, 1, 24, 33}));
  came.output.settle(0);
  EXPECT_EQ(mapped(came), Words{"bit.flipped: bit 3 is flipped in elements 1 to 2 of y (2)"});
  EXPECT_EQ(mapped(came), Words{}) << "nothing is left";
}

}  // namespace
}  // namespace mxo

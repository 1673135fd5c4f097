// Integers and scales that are all off by one number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/golden/mapped.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;

const Bits kNumbers{5, 1000, 77, 123456};

TEST(MappedOffsets, OfIntegersAreOffByANumber) {
  const auto by = [](Dtype dtype, std::uint64_t more, std::uint64_t all) {
    return mapped(dtype, kNumbers, [&](std::uint64_t w) { return (w + more) & all; });
  };
  const std::uint64_t low = 0xFFFFFFFF;
  const std::string is = "value.offset: y: every number is ";
  for (const Dtype dtype : {Dtype::i32, Dtype::u32}) {
    EXPECT_EQ(by(dtype, 3, low), Words{is + "3 too high (4)"});
    EXPECT_EQ(by(dtype, static_cast<std::uint64_t>(-3), low), Words{is + "3 too low (4)"});
  }
  EXPECT_EQ(by(Dtype::i64, 3, ~std::uint64_t{0}), Words{is + "3 too high (4)"});
  EXPECT_EQ(by(Dtype::i64, static_cast<std::uint64_t>(-6), ~std::uint64_t{0}),
            Words{is + "6 too low (4)"})
      << "below zero";
}

TEST(MappedOffsets, OfIntegersComeRound) {
  EXPECT_EQ(mapped(Dtype::u8, {3, 255, 9, 30}, {4, 0, 10, 31}),
            Words{"value.offset: y: every number is 1 too high (4)"});
  EXPECT_EQ(mapped(Dtype::i64, {std::uint64_t{1} << 63, 0, 9},
                   {(std::uint64_t{1} << 63) - 7, static_cast<std::uint64_t>(-7), 2}),
            Words{"value.offset: y: every number is 7 too low (3)"});
}

TEST(MappedOffsets, OfIntegersMayBeAFew) {
  const std::string is = "value.offset: y: every number is 3 too high ";
  EXPECT_EQ(mapped(Dtype::i32, {5}, {8}), Words{is + "(1)"});
  EXPECT_EQ(mapped(Dtype::i32, {5, 9, 12}, {8, 12, 15}), Words{is + "(3)"});
  const auto rows = [](Index wrong) {
    // Rows of three numbers: the first ones are 3 too high, and others by each another number.
    Bits wanted;
    Bits actual;
    for (Index i = 0; i < 21; ++i) {
      wanted.push_back(static_cast<std::uint64_t>(100 + 41 * i));
      actual.push_back(wanted.back() + static_cast<std::uint64_t>(i < 21 - wrong ? 3 : 1000 * i));
    }
    Came came(of_bits(Dtype::i32, {7, 3}, wanted), of_bits(Dtype::i32, {7, 3}, actual));
    return mapped(came);
  };
  EXPECT_EQ(rows(9), Words{"value.offset: rows 0 to 3 of y: every number is 3 too high (12)"});
  EXPECT_EQ(rows(12), Words{}) << "nine of 21 agree";
}

TEST(MappedOffsets, HaveToBeThoseOfMoreThanHalf) {
  // Two rows of four: one is 3 too high, of the other none is alike.
  const Bits wanted{5, 6, 17, 18, 70, 81, 92, 113};
  const auto of = [&](std::uint64_t fifth) {
    Came came(of_bits(Dtype::i32, {2, 4}, wanted),
              of_bits(Dtype::i32, {2, 4}, {8, 9, 20, 21, fifth, 97, 220, 520}));
    return mapped(came);
  };
  EXPECT_EQ(of(777), Words{});
  EXPECT_EQ(of(73), Words{"value.offset: row 0 of y: every number is 3 too high (4)"});
}

/// Rows of `columns` numbers of which some come 3 too high and others by each another number.
std::string offset_of_rows(Index rows, Index columns, const std::vector<Index>& right,
                           const std::vector<Index>& other) {
  Bits wanted;
  Bits actual;
  for (Index i = 0; i < rows * columns; ++i) {
    const auto is_in = [&](const std::vector<Index>& list) {
      return std::find(list.begin(), list.end(), i / columns) != list.end();
    };
    wanted.push_back(static_cast<std::uint64_t>(100 + 41 * i));
    const Index more = is_in(right) ? 0 : is_in(other) ? 1000 + 997 * i : 3;
    actual.push_back(wanted.back() + static_cast<std::uint64_t>(more));
  }
  Came came(of_bits(Dtype::i32, {rows, columns}, wanted),
            of_bits(Dtype::i32, {rows, columns}, actual));
  const Words words = mapped(came);
  return words.empty() ? "" : words.front();
}

TEST(MappedOffsets, OfAFewAreAllLookedAt) {
  // Of seven that differ four agree; of the first, third, fifth and seventh one would.
  EXPECT_NE(offset_of_rows(7, 1, {}, {0, 2, 4}).find("every number is 3 too high (4)"),
            std::string::npos);
}

TEST(MappedOffsets, OfWhatDiffersAreLookedAt) {
  EXPECT_EQ(offset_of_rows(4, 4, {0, 1, 3}, {}),
            "value.offset: row 2 of y: every number is 3 too high (4)");
}

TEST(MappedOffsets, OfScalesAreOfTheExponent) {
  EXPECT_EQ(mapped(Dtype::e8m0, {120, 130, 127, 99}, {121, 131, 128, 100}),
            Words{"scale.exponent: y: every scale byte is 1 too high (4)"});
  EXPECT_EQ(mapped(Dtype::e8m0, {120, 130, 127, 99}, {118, 128, 125, 97}),
            Words{"scale.exponent: y: every scale byte is 2 too low (4)"});
}

TEST(MappedOffsets, AreSampledFromAllOver) {
  // 1024 rows of two, of which every fourth element is looked at: the first of each second row.
  const Came both(filled<std::int32_t>(Dtype::i32, {1024, 2}, [](Index i) { return 50 * i; }),
                  filled<std::int32_t>(Dtype::i32, {1024, 2},
                                       [](Index i) { return 50 * i + (i / 2 % 2 == 0 ? 3 : 21); }));
  Output output = both.output;
  const std::vector<Claim> claims = recover_mapped(output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].sentence.substr(claims[0].sentence.find(": ")),
            ": every number is 3 too high");
  EXPECT_EQ(claims[0].elements, 1024);
}

}  // namespace
}  // namespace mxo

// Parts of an output that one bit pattern fills: what it is called, and where it may be.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/golden/filled_runs.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;

/// What is said where row 2 of four holds these bits.
Words of_row(Dtype dtype, std::uint64_t bits, Index columns = 16, const std::string& name = "y") {
  const Tensor owed = of_no_fill(dtype, {4, columns});
  return fills_said(owed, with_fill(owed, 2 * columns, columns, bits), name);
}

Words constant(const std::string& id, const std::string& bits, const std::string& cause) {
  return {"constant." + id + " 16: row 2 of y holds " + bits + ": " + cause};
}

TEST(Unwritten, ZerosAreNamedByTheirPlace) {
  const Tensor owed = of_no_fill(Dtype::f32, {4, 8});
  Came came(owed, with_fill(owed, 8, 16, 0));
  const auto claims = recover_unwritten(came.output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "never_written.zero");
  EXPECT_EQ(claims[0].sentence,
            "rows 1 to 2 of y hold zeros: never written, cleared, or made of zeros");
  EXPECT_EQ(claims[0].where.rows, "1-2");
  EXPECT_EQ(claims[0].where.columns, "");
  EXPECT_EQ(claims[0].elements, 16);
  EXPECT_EQ(came.output.left, 0);
}

TEST(Unwritten, NansAreOneFill) {
  const Tensor owed = of_no_fill(Dtype::bf16, {4, 8});
  Tensor came = with_fill(owed, 16, 4, 0x7FC0);
  came = with_fill(std::move(came), 20, 4, 0xFFFF);
  EXPECT_EQ(fills_said(owed, came),
            Words{"never_written.nan 8: row 2 of y holds NaN: never written, or made of a NaN that "
                  "was read"});
  EXPECT_EQ(of_row(Dtype::f32, 0x7FC00000).size(), 1u);
  EXPECT_EQ(of_row(Dtype::f64, 0x7FF8000000000000u).size(), 1u);
  EXPECT_EQ(of_row(Dtype::e4m3, 0x7F)[0].find("never_written.nan"), 0u);
}

TEST(Unwritten, InfinitiesAndTheLargestAreNamed) {
  const std::string infinite = "overflow, or the fill of the buffer";
  EXPECT_EQ(of_row(Dtype::bf16, 0x7F80), constant("infinite", "0x7F80", infinite));
  EXPECT_EQ(of_row(Dtype::f32, 0xFF800000), constant("infinite", "0xFF800000", infinite));
  EXPECT_EQ(of_row(Dtype::e5m2, 0x7C), constant("infinite", "0x7C", infinite));
  const std::string largest = "the largest number, saturated, or the fill of the buffer";
  EXPECT_EQ(of_row(Dtype::bf16, 0x7F7F), constant("largest", "0x7F7F", largest));
  EXPECT_EQ(of_row(Dtype::f32, 0xFF7FFFFF), constant("largest", "0xFF7FFFFF", largest));
  EXPECT_EQ(of_row(Dtype::e4m3, 0x7E), constant("largest", "0x7E", largest)) << "before NaN";
  EXPECT_EQ(of_row(Dtype::e5m2, 0xFB), constant("largest", "0xFB", largest)) << "before infinity";
}

TEST(Unwritten, OtherBitsAreWrittenOut) {
  const std::string other = "the fill of the buffer, never written, or one value for all of them";
  EXPECT_EQ(of_row(Dtype::e4m3, 0x7D), constant("fill", "0x7D", other)) << "the largest but one";
  EXPECT_EQ(of_row(Dtype::u8, 0xAB), constant("fill", "0xAB", other));
  EXPECT_EQ(of_row(Dtype::i16, 0x1234), constant("fill", "0x1234", other));
  EXPECT_EQ(of_row(Dtype::bf16, 0x8000), constant("fill", "0x8000", other)) << "minus zero";
  EXPECT_EQ(of_row(Dtype::i32, 0xDEADBEEF), constant("fill", "0xDEADBEEF", other));
  EXPECT_EQ(of_row(Dtype::i64, 0xFEDCBA9876543210u), constant("fill", "0xFEDCBA9876543210", other));
}

/// A scale may be the same for many blocks: zeros and NaN are none.
TEST(Unwritten, ScalesThatAreAlikeAreNoFill) {
  for (const char* name : {"scales", "x.scales"}) {
    EXPECT_EQ(of_row(Dtype::e8m0, 0x7F, 16, name), Words{});
    EXPECT_EQ(of_row(Dtype::f32, 0x3F800000, 16, name), Words{});
    EXPECT_EQ(of_row(Dtype::f32, 0, 16, name).size(), 1u);
    EXPECT_EQ(of_row(Dtype::e8m0, 0xFF, 16, name).size(), 1u);
  }
  EXPECT_EQ(of_row(Dtype::e8m0, 0x7F, 16, "scales.codes").size(), 1u);
}

/// What is owed the same may have been computed the same, and wrong.
TEST(Unwritten, OneValueForAnotherIsNoFill) {
  const Tensor owed = with_fill(of_no_fill(Dtype::f32, {4, 12}), 0, 48, 0x40000000);
  EXPECT_EQ(fills_said(owed, with_fill(owed, 12, 12, 0x3F800000)), Words{});
  EXPECT_EQ(fills_said(owed, with_fill(owed, 12, 12, 0)).size(), 1u);
  EXPECT_EQ(fills_said(owed, with_fill(owed, 12, 12, 0x7FC00000)).size(), 1u);
  const Tensor varied = with_fill(owed, 17, 1, 0x40400000);
  EXPECT_EQ(fills_said(varied, with_fill(varied, 12, 12, 0x3F800000)).size(), 1u);
}

TEST(Unwritten, FillsAreEachAClaim) {
  const Tensor owed = of_no_fill(Dtype::bf16, {2, 32});
  Tensor came = with_fill(owed, 3, 8, 0);
  came = with_fill(std::move(came), 11, 9, 0x7FFF);
  came = with_fill(std::move(came), 20, 1, 0x3333);
  came = with_fill(std::move(came), 32 + 24, 8, 0x1234);
  Came c(owed, came);
  EXPECT_EQ(fills_said(c),
            (Words{zeros_at(8, "columns 3 to 10 of row 0 of y hold"),
                   "constant.fill 8: columns 24 to 31 of row 1 of y hold 0x1234: the fill of the "
                   "buffer, never written, or one value for all of them",
                   "never_written.nan 9: columns 11 to 19 of row 0 of y hold NaN: never written, "
                   "or made of a NaN that was read"}));
  EXPECT_EQ(c.output.left, 1);
}

/// Half of those that hold it are neighbours, or it is chance.  What is owed zeros does not count.
TEST(Unwritten, ScatteredOnesAreChance) {
  Tensor owed = with_fill(of_no_fill(Dtype::f32, {2, 40}), 20, 6, 0, 2);
  const Tensor run = with_fill(owed, 40, 8, 0);
  EXPECT_EQ(fills_said(owed, with_fill(run, 2, 8, 0, 2)),
            Words{zeros_at(8, "columns 0 to 7 of row 1 of y hold")});
  EXPECT_EQ(fills_said(owed, with_fill(run, 0, 9, 0, 2)), Words{});
  EXPECT_EQ(fills_said(owed, with_fill(run, 2, 9, 0x7FC00000, 2)),
            Words{zeros_at(8, "columns 0 to 7 of row 1 of y hold")})
      << "NaN is another";
  const Tensor nans = with_fill(owed, 40, 8, 0x7FC00000);
  EXPECT_EQ(fills_said(owed, with_fill(nans, 2, 9, 0x7FC00000, 2)), Words{});
}

TEST(Unwritten, OutputsOfFewElementsAreNotLookedAt) {
  const Tensor owed = of_no_fill(Dtype::f32, {2, 8});
  EXPECT_EQ(fills_said(owed, with_fill(owed, 0, 16, 0)), Words{zeros_at(16, "all of y hold")});
  EXPECT_EQ(fills_said(owed, owed), Words{});
  const Tensor small = of_no_fill(Dtype::f32, {3, 5});
  EXPECT_EQ(fills_said(small, with_fill(small, 0, 15, 0)), Words{});
}

}  // namespace
}  // namespace mxo

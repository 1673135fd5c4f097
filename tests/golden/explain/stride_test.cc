// Rows of an output that are written at another stride than it has.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"

namespace mxo {
namespace {

constexpr Index kRows = 20;
constexpr Index kColumns = 8;

/// i32 that count from 0, and -1 but where row r is written from `start` + r `stride` on.
Came written(Index start, Index stride, std::int32_t between = -1) {
  const Tensor all = counted({kRows, kColumns});
  Tensor came = filled<std::int32_t>(Dtype::i32, {kRows, kColumns}, [=](Index) { return between; });
  for (Index r = 0; r < kRows; ++r) {
    const Index to = start + r * stride;
    if (to + kColumns > kRows * kColumns) break;
    std::copy_n(all.as<std::int32_t>() + r * kColumns, kColumns, came.as<std::int32_t>() + to);
  }
  return {all, came};
}

std::string sentence_of(Came& came) {
  const std::vector<Claim> claims = recover_stride(came.output);
  return claims.empty() ? "none" : claims.front().sentence;
}

std::string of(Index start, Index stride) {
  Came came = written(start, stride);
  return sentence_of(came);
}

TEST(Stride, IsThatOfTheRowsThatCame) {
  Came came = written(0, 11);
  const std::vector<Claim> claims = recover_stride(came.output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "rows.stride");
  EXPECT_EQ(claims[0].sentence, "rows of y are written 11 elements apart rather than 8");
  EXPECT_EQ(claims[0].where.tensor, "y");
  EXPECT_EQ(claims[0].elements, static_cast<double>(came.output.differing));
  EXPECT_EQ(came.output.left, 0);
}

TEST(Stride, MayBeginLater) {
  Came came = written(3, 9);
  EXPECT_EQ(sentence_of(came), "rows of y are written 9 elements apart rather than 8");
  EXPECT_EQ(came.output.left, 0);
}

TEST(Stride, IsNoneForRowsOneAfterTheOther) {
  EXPECT_EQ(of(0, 8), "none");
  EXPECT_EQ(of(3, 8), "none") << "late is another cause";
}

TEST(Stride, IsLongerThanARow) {
  // Rows 2 before row 1, or over it: what came is no picture of a stride.
  const Tensor all = counted({kRows, kColumns});
  Came shorter(all, taken(all, [](Index i) {
                 const Index r = i / kColumns;
                 return r == 10 ? 16 + i % 8 : r == 11 ? 8 + i % 8 : -1;
               }));
  EXPECT_EQ(sentence_of(shorter), "none");
}

TEST(Stride, ShowsInThreeRows) {
  // From element 88 on there is room for three rows of 32 elements each, or for two of 40.
  EXPECT_EQ(of(88, 32), "rows of y are written 32 elements apart rather than 8");
  EXPECT_EQ(of(0, 76), "rows of y are written 76 elements apart rather than 8");
  EXPECT_EQ(of(0, 77), "none");
}

TEST(Stride, IsRefusedByOneRowThatIsElsewhere) {
  Came came = written(0, 11);
  ++came.actual.as<std::int32_t>()[5 * 11];
  EXPECT_EQ(sentence_of(came), "none");
}

TEST(Stride, NeedsThreeRowsOfSixteenBytes) {
  const auto of_size = [](Index rows, Index columns) {
    const Tensor all = counted({rows, columns});
    Came came(all, taken(all, [=](Index i) {
                return i % (columns + 1) == columns
                           ? -1
                           : i / (columns + 1) * columns + i % (columns + 1);
              }));
    return sentence_of(came);
  };
  EXPECT_EQ(of_size(8, 4), "rows of y are written 5 elements apart rather than 4");
  EXPECT_EQ(of_size(8, 3), "none");
  EXPECT_EQ(of_size(4, 8), "rows of y are written 9 elements apart rather than 8");
  EXPECT_EQ(of_size(3, 8), "none") << "the third has no room";
  EXPECT_EQ(of_size(2, 8), "none");
}

TEST(Stride, OfRowsOfOneValueIsNone) {
  Tensor all = counted({kRows, kColumns});
  std::fill_n(all.as<std::int32_t>() + 8, 8, 1000);
  Came came(all, taken(all, [](Index i) {
              const Index r = i / 11;
              return i % 11 < 8 && r * 11 + 8 <= kRows * kColumns ? r * 8 + i % 11 : -1;
            }));
  EXPECT_EQ(sentence_of(came), "none");
}

TEST(Stride, OfWholeRowsLeavesNoRowsBetween) {
  EXPECT_EQ(of(0, 24), "rows of y are written 24 elements apart rather than 8");
  Came came = written(0, 24);
  const std::int32_t* rows = came.expected.as<std::int32_t>();
  std::copy_n(rows + 12 * 8, 8, came.actual.as<std::int32_t>() + 19 * 8);
  EXPECT_EQ(sentence_of(came), "none") << "row 12 in place 19: rows in another order";
  Came zeros = written(0, 24, 0);
  EXPECT_EQ(sentence_of(zeros), "rows of y are written 24 elements apart rather than 8")
      << "zeros are no row";
  Came others = written(0, 24);
  for (Index i = 0; i < 8; ++i)
    others.actual.as<std::int32_t>()[19 * 8 + i] = -5 - static_cast<std::int32_t>(i);
  EXPECT_EQ(sentence_of(others), "rows of y are written 24 elements apart rather than 8")
      << "nor are values that nobody expects";
}

}  // namespace
}  // namespace mxo

// Columns that hold what others should, and values that changed places within their rows.
#include <gtest/gtest.h>

#include <bit>

#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"

namespace mxo {
namespace {

using Column = std::function<Index(Index row, Index column)>;

/// Numbers [rows, columns] that came with those of other columns; no source: another number.
struct Moved : Came {
  Moved(Index rows, Index columns, const Column& from, const std::string& name = "y")
      : Came(counted({rows, columns}), moved(rows, columns, from), {"any", {}, {}}, name) {}
  static Tensor moved(Index rows, Index columns, const Column& from) {
    return filled<std::int32_t>(Dtype::i32, {rows, columns}, [&](Index i) {
      const Index source = from(i / columns, i % columns);
      return source < 0 ? -1 - i : i / columns * columns + source;
    });
  }
  std::vector<Claim> claims() { return recover_exchanged(output); }
  std::string words() {
    const std::vector<Claim> found = claims();
    return found.empty() ? "none" : found.front().id + ": " + found.front().sentence;
  }
};

Column all_rows(const std::function<Index(Index)>& from) {
  return [from](Index, Index c) { return from(c); };
}

/// Columns a and b change places.
Column pair(Index a, Index b) {
  return all_rows([=](Index c) { return c == a ? b : c == b ? a : c; });
}

TEST(Exchanged, ColumnsChangePlaces) {
  Moved came(5, 8, pair(2, 6));
  const std::vector<Claim> claims = came.claims();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "columns.exchanged");
  EXPECT_EQ(claims[0].sentence, "columns 2 and 6 of y change places");
  EXPECT_EQ(claims[0].where.tensor, "y");
  EXPECT_EQ(claims[0].where.columns, "2, 6");
  EXPECT_EQ(claims[0].elements, 10.0);
  EXPECT_EQ(came.output.left, 0);
  EXPECT_EQ(Moved(5, 8, pair(0, 7)).words(),
            "columns.exchanged: columns 0 and 7 of y change places");
}

TEST(Exchanged, PairsAreNamedUpToFour) {
  const auto pairs = [](Index n) {
    return Moved(3, 16, all_rows([n](Index c) { return c < n ? c ^ 1 : c; })).words();
  };
  const std::string four =
      "columns.exchanged: columns 0 and 1, columns 2 and 3, columns 4 and 5, "
      "columns 6 and 7";
  EXPECT_EQ(pairs(4), "columns.exchanged: columns 0 and 1, columns 2 and 3 of y change places");
  EXPECT_EQ(pairs(8), four + " of y change places");
  EXPECT_EQ(pairs(12), four + " and 2 more pairs of y change places");
}

TEST(Exchanged, RowsAreNamedWhereTheyAreFew) {
  const auto rows = [](Index n) {
    return Moved(8, 4, [n](Index r, Index c) { return r < n ? c ^ 2 : c; }).words();
  };
  const std::string pairs = "columns.exchanged: columns 0 and 2, columns 1 and 3 of ";
  EXPECT_EQ(rows(6), pairs + "y change places");
  EXPECT_EQ(rows(5), pairs + "rows 0 to 4 of y change places");
  Moved came(8, 4, [](Index r, Index c) { return r == 2 || r == 5 ? c ^ 2 : c; });
  const std::vector<Claim> claims = came.claims();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].sentence,
            "columns 0 and 2, columns 1 and 3 of rows 2 and 5 of y change places");
  EXPECT_EQ(claims[0].where.rows, "2, 5");
  EXPECT_EQ(came.output.left, 0);
}

TEST(Exchanged, EachHoldsTheOther) {
  EXPECT_EQ(Moved(5, 8, all_rows([](Index c) { return c == 2 ? 6 : c; })).words(), "none");
  EXPECT_EQ(Moved(5, 8, all_rows([](Index c) { return c == 2   ? 6
                                                      : c == 6 ? 2
                                                      : c == 4 ? -1
                                                               : c; }))
                .words(),
            "none")
      << "column 4 holds neither";
  EXPECT_EQ(Moved(5, 8, all_rows([](Index c) { return c == 2   ? 6
                                                      : c == 6 ? 4
                                                      : c == 4 ? 2
                                                               : c; }))
                .words(),
            "none")
      << "three in a ring";
  EXPECT_EQ(Moved(5, 8, [](Index r, Index c) { return c != 2 && c != 6 ? c
                                                      : r == 3         ? -1
                                                                       : 8 - c; })
                .words(),
            "none")
      << "but for one row";
}

TEST(Exchanged, InOneRowAreNeighbours) {
  const auto in_row = [](Index rows, Index a, Index b, const std::string& name = "y") {
    return Moved(
               rows, 8, [=](Index r, Index c) { return r > 0 ? c : pair(a, b)(r, c); }, name)
        .words();
  };
  EXPECT_EQ(in_row(2, 3, 4), "columns.exchanged: columns 3 and 4 of row 0 of y change places");
  EXPECT_EQ(in_row(2, 3, 5), "none") << "by chance";
  EXPECT_EQ(in_row(1, 3, 4), "none") << "there is no other row";
  EXPECT_EQ(Moved(2, 8, [](Index r, Index c) { return r > 0 || c > 3 ? c : c ^ 1; }).words(),
            "none")
      << "two pairs of one row";
  EXPECT_EQ(in_row(3, 3, 5, "experts"),
            "columns.exchanged: slots 3 and 5 of row 0 of experts change places");
  EXPECT_EQ(in_row(3, 3, 5, "top_weights"),
            "columns.exchanged: slots 3 and 5 of row 0 of top_weights change places");
  EXPECT_EQ(in_row(1, 3, 5, "experts"),
            "columns.exchanged: slots 3 and 5 of experts change places");
}

TEST(Exchanged, ColumnsHoldThoseSoFarAway) {
  const auto by = [](Index d) {
    return all_rows([d](Index c) { return c >= 2 && c <= 5 ? c + d : c; });
  };
  Moved came(4, 8, by(1));
  const std::vector<Claim> claims = came.claims();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "columns.shifted");
  EXPECT_EQ(claims[0].sentence, "columns 2 to 5 of y hold those 1 after");
  EXPECT_EQ(claims[0].elements, 16.0);
  EXPECT_EQ(came.output.left, 0);
  EXPECT_EQ(Moved(4, 8, by(-2)).words(),
            "columns.shifted: columns 2 to 5 of y hold those 2 before");
  EXPECT_EQ(Moved(4, 8, by(2), "experts").words(),
            "columns.shifted: slots 2 to 5 of experts hold those 2 after");
  Moved half(4, 8, [&](Index r, Index c) { return r < 2 ? by(2)(r, c) : c; });
  EXPECT_EQ(half.words(), "columns.shifted: columns 2 to 5 of rows 0 to 1 of y hold those 2 after");
}

TEST(Exchanged, ColumnsHoldOthersFromEndToEnd) {
  // The first and the last, each from the farthest column there is.
  EXPECT_EQ(Moved(4, 8, all_rows([](Index c) { return c < 2 ? c + 6 : c; })).words(),
            "columns.shifted: columns 0 to 1 of y hold those 6 after");
  EXPECT_EQ(Moved(4, 8, all_rows([](Index c) { return c > 5 ? c - 6 : c; })).words(),
            "columns.shifted: columns 6 to 7 of y hold those 6 before");
  EXPECT_EQ(Moved(4, 8, all_rows([](Index c) { return (c + 1) % 8; })).words(), "none")
      << "the last has none after it";
  EXPECT_EQ(Moved(4, 8, all_rows([](Index c) { return (c + 7) % 8; })).words(), "none");
}

TEST(Exchanged, ColumnsHoldNoneOfOtherRows) {
  // The last column of a row holds the first of the next.
  EXPECT_EQ(Moved(4, 8, [](Index r, Index c) { return r < 3 ? c + 1 : c; }).words(), "none");
}

TEST(Exchanged, ShiftedColumnsAreTwoAndEightElements) {
  const auto two = all_rows([](Index c) { return c == 2 || c == 3 ? c + 1 : c; });
  EXPECT_NE(Moved(4, 8, two).words(), "none");
  EXPECT_EQ(Moved(3, 8, two).words(), "none") << "six elements";
  EXPECT_EQ(Moved(9, 8, all_rows([](Index c) { return c == 2 ? 3 : c; })).words(), "none");
}

/// Slots of a token in an order of its own.
Index turned(Index r, Index c) { return (c + r % 3 + 1) % 4; }

TEST(Exchanged, TokensHoldTheirSlotsInAnyOrder) {
  Moved came(6, 4, turned, "experts");
  const std::vector<Claim> claims = came.claims();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "row.reordered");
  EXPECT_EQ(claims[0].sentence, "values change places within their rows in all of experts");
  EXPECT_EQ(claims[0].elements, 24.0);
  EXPECT_EQ(came.output.left, 0);
  const auto below = [](Index n) {
    return [n](Index r, Index c) { return r < n ? turned(r, c) : c; };
  };
  EXPECT_EQ(Moved(6, 4, below(4), "weights").words(),
            "row.reordered: values change places within their rows in rows 0 to 3 of weights");
  EXPECT_EQ(Moved(6, 4, below(3), "weights").words(), "none") << "three tokens";
  EXPECT_EQ(Moved(6, 4, turned, "y").words(), "none") << "columns are no slots";
  Moved other(
      6, 4, [](Index r, Index c) { return r == 5 && c == 3 ? -1 : turned(r, c); }, "experts");
  EXPECT_EQ(other.words(), "none") << "one holds another number";
  EXPECT_EQ(other.output.left, 24);
}

TEST(Exchanged, TokensMayKeepSomeSlots) {
  // Even tokens exchange slots 0 and 1, odd ones 2 and 3.
  const auto some = [](Index r, Index c) { return c / 2 == r % 2 ? c ^ 1 : c; };
  Moved came(6, 4, some, "experts");
  const std::vector<Claim> claims = came.claims();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "row.reordered");
  EXPECT_EQ(claims[0].elements, 12.0);
}

TEST(Exchanged, TokensMayHoldAnyNaN) {
  const auto value = [](Index from, std::uint32_t nan) {
    return [=](Index i) {
      const Index at = i % 4 < 3 ? (i % 4 + from * (i / 4 % 2 + 1)) % 3 : 3;
      return at == 3 ? nan : std::bit_cast<std::uint32_t>(static_cast<float>(9 - at));
    };
  };
  Came came(filled<std::uint32_t>(Dtype::f32, {4, 4}, value(0, 0x7FC00000)),
            filled<std::uint32_t>(Dtype::f32, {4, 4}, value(1, 0x7FC00001)), {"any", {}, {}},
            "weights");
  ASSERT_EQ(came.output.differing, 12);
  const std::vector<Claim> claims = recover_exchanged(came.output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].sentence,
            "values change places within their rows in columns 0 to 2 of weights");
}

TEST(Exchanged, IsNotLookedForElsewhere) {
  Moved explained(5, 8, pair(2, 6));
  explained.output.settle(2);
  EXPECT_EQ(explained.words(), "none");
  EXPECT_EQ(Moved(5, 8, pair(0, 0)).words(), "none") << "nothing differs";
  EXPECT_EQ(Moved(5, 8, [](Index r, Index c) { return r == 1 && c == 1 ? 2 : c; }).words(), "none");
  EXPECT_EQ(Moved(1, 2, pair(0, 1), "experts").words(),
            "columns.exchanged: slots 0 and 1 of experts change places");
  EXPECT_EQ(Moved(8, 1, all_rows([](Index) { return -1; }), "experts").words(), "none");
  EXPECT_NE(Moved(2, 512, pair(3, 500)).words(), "none");
  EXPECT_EQ(Moved(2, 513, pair(3, 500)).words(), "none");
}

}  // namespace
}  // namespace mxo

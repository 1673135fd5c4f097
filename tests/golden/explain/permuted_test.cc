// Rows or columns in an order that comes again every few.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"

namespace mxo {
namespace {

using From = std::function<Index(Index)>;

/// counted({rows, columns}) whose rows, or columns, come from others; from none: another number.
Tensor reordered(Index rows, Index columns, bool of_rows, const From& from) {
  return taken(counted({rows, columns}), [&](Index i) {
    const Index source = from(of_rows ? i / columns : i % columns);
    return of_rows ? source * columns + i % columns : i / columns * columns + source;
  });
}

std::string words(Output& output, bool of_rows) {
  const auto claims = of_rows ? recover_row_order(output) : recover_column_order(output);
  return claims.empty() ? "none" : claims.front().sentence;
}

/// `lines` lines of `width` elements in an order: rows, and columns, which say the same.
std::string words(Index lines, Index width, const From& from) {
  Came rows(counted({lines, width}), reordered(lines, width, true, from));
  Came columns(counted({width, lines}), reordered(width, lines, false, from));
  const std::string by_rows = words(rows.output, true);
  const std::string by_columns = words(columns.output, false);
  if (by_rows == "none") {
    EXPECT_EQ(by_columns, "none");
    return "none";
  }
  EXPECT_EQ(by_rows.substr(0, 7), "y: rows");
  EXPECT_EQ(by_columns.substr(0, 10), "y: columns");
  EXPECT_EQ(by_rows.substr(7), by_columns.substr(10));
  return by_rows.substr(8);
}

From order(std::vector<Index> list) {
  return [list](Index i) {
    const auto n = static_cast<Index>(list.size());
    return i / n * n + list[static_cast<std::size_t>(i % n)];
  };
}

TEST(Permuted, RowsAndColumnsAreTakenInRuns) {
  EXPECT_EQ(words(8, 3, [](Index i) { return i ^ 1; }),
            "are taken in runs of 2 in the order 1, 0 (reversed)");
  EXPECT_EQ(words(8, 5, [](Index i) { return i ^ 3; }),
            "are taken in runs of 4 in the order 3, 2, 1, 0 (reversed)");
  EXPECT_EQ(words(8, 5, order({2, 0, 3, 1})), "are taken in runs of 4 in the order 2, 0, 3, 1");
}

TEST(Permuted, ClaimsAreOfAllThatDiffers) {
  Came rows(counted({8, 4}), reordered(8, 4, true, order({0, 2, 1, 3})));
  const std::vector<Claim> claims = recover_row_order(rows.output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "order.rows");
  EXPECT_EQ(claims[0].elements, 16.0);
  EXPECT_EQ(claims[0].where.rows, "1-2, 5-6");
  EXPECT_EQ(rows.output.left, 0);
  Came columns(counted({4, 8}), reordered(4, 8, false, order({0, 2, 1, 3})));
  ASSERT_EQ(recover_column_order(columns.output).at(0).id, "order.columns");
  EXPECT_EQ(columns.output.left, 0);
  Came other(counted({8, 4}), reordered(8, 4, true, order({0, 2, 1, 3})));
  EXPECT_EQ(words(other.output, false), "none") << "rows are not columns";
}

TEST(Permuted, OrdersWithoutANameComeAgain) {
  const From odd = order({2, 0, 3, 1});
  EXPECT_EQ(words(4, 5, odd), "none");
  EXPECT_EQ(words(7, 5, [&](Index i) { return i < 4 ? odd(i) : i; }), "none");
  EXPECT_EQ(words(8, 5, [&](Index i) { return odd(i); }),
            "are taken in runs of 4 in the order 2, 0, 3, 1");
  EXPECT_EQ(words(4, 5, [](Index i) { return 3 - i; }),
            "are taken in runs of 4 in the order 3, 2, 1, 0 (reversed)");
}

TEST(Permuted, OrdersWithoutANameShowInTwoRuns) {
  // Of twelve rows those from `first` to before `last` are told from others.
  const auto alike = [](Index first, Index last, const std::vector<Index>& list) {
    const auto value = [&](Index i) { return i / 5 >= first && i / 5 < last ? i : i % 5 - 9; };
    const auto given = filled<std::int32_t>(Dtype::i32, {12, 5}, value);
    Came came(given, taken(given, [&](Index i) { return order(list)(i / 5) * 5 + i % 5; }));
    return words(came.output, true);
  };
  const std::vector<Index> odd{2, 0, 3, 1};
  EXPECT_EQ(alike(0, 8, odd), "y: rows are taken in runs of 4 in the order 2, 0, 3, 1");
  EXPECT_EQ(alike(4, 12, odd), "y: rows are taken in runs of 4 in the order 2, 0, 3, 1");
  EXPECT_EQ(alike(0, 4, odd), "none") << "the rows of the other runs are alike";
  EXPECT_EQ(alike(4, 8, odd), "none");
  EXPECT_EQ(alike(8, 12, odd), "none");
  // The first and the last row of a run differ.
  EXPECT_EQ(alike(0, 12, {3, 1, 2, 0}), "y: rows are taken in runs of 4 in the order 3, 1, 2, 0");
  EXPECT_EQ(alike(4, 8, {3, 1, 2, 0}), "none");
}

TEST(Permuted, OrdersWithoutANameHaveTwoCompleteRuns) {
  const auto in_seven = [](Index i) {
    const Index from = order({2, 0, 3, 1})(i);
    return from < 7 ? from : i;
  };
  EXPECT_EQ(words(7, 5, in_seven), "none");
}

TEST(Permuted, ColumnsAreTakenSoInEveryRow) {
  const auto from = [](Index row) {
    return [row](Index i) { return i / 8 == row ? i : i / 8 * 8 + (i % 8 ^ 1); };
  };
  for (const Index row : {0, 2, 3}) {
    Came came(counted({4, 8}), taken(counted({4, 8}), from(row)));
    EXPECT_EQ(words(came.output, false), "none") << row;
  }
}

TEST(Permuted, OneForAllComesAgain) {
  EXPECT_EQ(words(8, 3, [](Index i) { return i & ~3; }),
            "are taken in runs of 4 in the order 0, 0, 0, 0 (the first of each run for all of it)");
  EXPECT_EQ(words(8, 3, [](Index) { return 0; }), "none");
  EXPECT_EQ(words(8, 3, [](Index) { return 7; }), "none");
}

TEST(Permuted, AnIncompleteRunMayBeAny) {
  EXPECT_EQ(words(10, 5, [](Index i) { return i < 8 ? i ^ 3 : i; }),
            "are taken in runs of 4 in the order 3, 2, 1, 0 (reversed)");
  EXPECT_EQ(words(3, 5, [](Index i) { return 2 - i; }), "none") << "no run of four";
}

TEST(Permuted, ACompleteRunIsNot) {
  const From first = [](Index i) {
    return i < 4 ? 3 - i : i == 4 ? 6 : i == 5 ? 4 : i == 6 ? 7 : 5;
  };
  EXPECT_EQ(words(8, 5, first), "none");
}

TEST(Permuted, IsToldByEightElements) {
  const From pair = [](Index i) { return 1 - i; };
  EXPECT_EQ(words(2, 4, pair), "are taken in runs of 2 in the order 1, 0 (reversed)");
  EXPECT_EQ(words(2, 3, pair), "none");
}

TEST(Permuted, IsNotLookedForWhereSomethingIsExplained) {
  for (const bool of_rows : {true, false}) {
    Came came(counted({8, 8}), reordered(8, 8, of_rows, [](Index i) { return i ^ 1; }));
    came.output.settle(9);
    EXPECT_EQ(words(came.output, of_rows), "none");
    EXPECT_EQ(came.output.left, 63);
  }
}

TEST(Permuted, EndsWithTheRowsOfGroups) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("group_ends", filled<std::int32_t>(Dtype::i32, {1}, [](Index) { return 6; }));
  Tensor actual = reordered(8, 4, true, [](Index i) { return i ^ 1; });
  for (Index i = 24; i < 32; ++i) actual.as<std::int32_t>()[i] = -1;
  Came rows(counted({8, 4}), actual, call);
  EXPECT_EQ(words(rows.output, true),
            "y: rows are taken in runs of 2 in the order 1, 0 (reversed)");
  actual = reordered(8, 4, false, [](Index i) { return i ^ 1; });
  for (Index i = 24; i < 32; ++i) actual.as<std::int32_t>()[i] = -1;
  Came columns(counted({8, 4}), actual, call);
  EXPECT_EQ(words(columns.output, false),
            "y: columns are taken in runs of 2 in the order 1, 0 (reversed)");
}

}  // namespace
}  // namespace mxo

// Rows, tiles and experts that hold their own sum and what was summed elsewhere.
#include <gtest/gtest.h>

#include <cmath>

#include "formats/minifloat.h"
#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"

namespace mxo {
namespace {

/// Numbers that are sums of few others by chance only: multiples of 1/64 below 16.
float number(Index i) {
  const auto bits = static_cast<std::uint32_t>(i) * 2654435761u;
  return static_cast<float>(static_cast<int>(bits >> 21) - 1024) / 64.0f;
}

Tensor numbers(std::vector<Index> shape) {
  return filled<float>(Dtype::f32, std::move(shape), number);
}

/// The first claim: its id, sentence and elements.
template <typename Recover>
std::string first(const Recover& recover, Came& came) {
  const Index left = came.output.left;
  const std::vector<Claim> claims = recover(came.output);
  if (claims.empty()) return "";
  Index settled = left - came.output.left;
  for (const Claim& c : claims) settled -= static_cast<Index>(c.elements);
  EXPECT_EQ(settled, 0);
  return claims.front().id + ": " + claims.front().sentence;
}

/// Numbers [shape] to which edit(values) was done.
template <typename Recover, typename Edit>
std::string of(const Recover& recover, std::vector<Index> shape, const Edit& edit) {
  Tensor actual = numbers(shape);
  edit(actual.as<float>());
  Came came(numbers(std::move(shape)), std::move(actual));
  return first(recover, came);
}

constexpr Index kColumns = 20;

/// Rows [begin, end) of y have added the row `by` on, as it is expected.
void add_rows(float* y, Index begin, Index end, Index by) {
  for (Index i = begin * kColumns; i < end * kColumns; ++i) y[i] += number(i + by * kColumns);
}

const std::string kNotCleared = ": accumulators that were not cleared, or a row added twice";

TEST(AddedRows, HoldTheSumOfAnother) {
  for (const auto& [by, words] :
       {std::pair{Index{-3}, "3 rows before"}, {Index{2}, "2 rows after"}}) {
    EXPECT_EQ(of(recover_added, {12, kColumns}, [by = by](float* y) { add_rows(y, 4, 8, by); }),
              std::string("rows.added: rows 4 to 7 of y hold their own sum and that of ") + words +
                  kNotCleared);
  }
}

TEST(AddedRows, AreFourOrMore) {
  EXPECT_EQ(of(recover_added, {12, kColumns}, [](float* y) { add_rows(y, 4, 7, 1); }), "");
  EXPECT_EQ(of(recover_added, {12, 3},
               [](float* y) {
                 for (Index i = 3; i < 30; ++i) y[i] += number(i + 3);
               }),
            "")
      << "of three columns";
  EXPECT_NE(of(recover_added, {12, 4},
               [](float* y) {
                 for (Index i = 4; i < 40; ++i) y[i] += number(i + 4);
               }),
            "");
}

TEST(AddedRows, ReachTheFirstAndLastRow) {
  EXPECT_EQ(
      of(recover_added, {6, kColumns}, [](float* y) { add_rows(y, 1, 6, -1); }),
      "rows.added: rows 1 to 5 of y hold their own sum and that of 1 row before" + kNotCleared);
  EXPECT_EQ(
      of(recover_added, {6, kColumns}, [](float* y) { add_rows(y, 0, 5, 1); }),
      "rows.added: rows 0 to 4 of y hold their own sum and that of 1 row after" + kNotCleared);
}

TEST(AddedRows, ThatDoubleAreAFactor) {
  EXPECT_EQ(of(recover_added, {12, kColumns}, [](float* y) { add_rows(y, 2, 10, 0); }), "");
}

TEST(AddedRows, HaveToFitInEveryColumn) {
  for (const Index column : {0, 15, 16, 19}) {
    EXPECT_EQ(of(recover_added, {12, kColumns},
                 [&](float* y) {
                   add_rows(y, 4, 8, -3);
                   y[5 * kColumns + column] += 1.0f;
                 }),
              "")
        << column;
  }
}

TEST(AddedRows, WithoutOneThatDoesNotFitAreToldAlone) {
  EXPECT_EQ(
      of(recover_added, {12, kColumns},
         [&](float* y) {
           add_rows(y, 4, 10, -3);
           y[9 * kColumns + 2] += 1.0f;
         }),
      "rows.added: rows 4 to 8 of y hold their own sum and that of 3 rows before" + kNotCleared);
}

TEST(AddedRows, OfTwoDistancesAreTwoCauses) {
  Tensor actual = numbers({24, kColumns});
  add_rows(actual.as<float>(), 4, 8, -3);
  add_rows(actual.as<float>(), 12, 17, 5);
  Came came(numbers({24, kColumns}), std::move(actual));
  const std::vector<Claim> claims = recover_added(came.output);
  ASSERT_EQ(claims.size(), 2u);
  EXPECT_EQ(claims[0].where.rows, "4-7");
  EXPECT_EQ(claims[0].elements, 4 * kColumns);
  EXPECT_EQ(claims[1].where.rows, "12-16");
  EXPECT_EQ(claims[1].elements, 5 * kColumns);
  EXPECT_EQ(came.output.left, 0);
}

TEST(AddedRows, DifferInMostColumns) {
  // Half of the columns are added: no row of those that are.
  const auto columns_of = [](Index n) {
    return of(recover_added, {12, kColumns}, [n](float* y) {
      for (Index r = 4; r < 8; ++r) {
        for (Index c = 0; c < n; ++c) y[r * kColumns + c] += number((r - 3) * kColumns + c);
      }
    });
  };
  EXPECT_EQ(columns_of(10), "");
  EXPECT_EQ(columns_of(19), "");
  EXPECT_NE(columns_of(20), "");
}

TEST(AddedRows, HaveToShowInAQuarterOfTheColumns) {
  // Every element of rows 8 to 11 is a rounding away; rows 0 to 3, that are added, are zero but for
  // their first elements.
  const auto showing = [](Index n) {
    const auto value = [n](Index i) {
      const Index row = i / kColumns;
      const bool quiet = row < 4 && i % kColumns >= n;
      return quiet     ? 0.0
             : row < 4 ? static_cast<double>(row) + 2.0
                       : static_cast<double>(i % 7) + 1.0;
    };
    Tensor actual = filled<float>(Dtype::f32, {12, kColumns}, value);
    for (Index i = 8 * kColumns; i < 12 * kColumns; ++i) {
      const auto sum = static_cast<float>(value(i) + value(i - 8 * kColumns));
      actual.as<float>()[i] = std::nextafter(sum, 100.0f);
    }
    Came came(filled<float>(Dtype::f32, {12, kColumns}, value), std::move(actual));
    return recover_added(came.output).size();
  };
  EXPECT_EQ(showing(5), 0u);
  EXPECT_EQ(showing(6), 1u);
}

TEST(AddedRows, OfExpertsAreToldByExpert) {
  const auto expert = [](Index by) {
    return of(recover_added, {4, 3, kColumns}, [by](float* y) { add_rows(y, 6, 12, by); });
  };
  const std::string place =
      "rows.added: all of experts 2 to 3 of y hold their own sum and that of ";
  EXPECT_EQ(expert(-3), place + "1 expert before" + kNotCleared);
  EXPECT_EQ(expert(-6), place + "2 experts before" + kNotCleared);
  EXPECT_EQ(expert(-2), place + "2 rows before" + kNotCleared);
  EXPECT_EQ(of(recover_added, {4, 3, kColumns}, [](float* y) { add_rows(y, 0, 6, 3); }),
            "rows.added: all of experts 0 to 1 of y hold their own sum and that of 1 expert after" +
                kNotCleared);
}

TEST(AddedRows, AreRoundedToTheTypeOfTheOutput) {
  // The sum of three numbers, each half a step away, and no more.
  for (const auto& [type, step] : {std::pair{Dtype::bf16, 0x1p-7}, {Dtype::f16, 0x1p-10}}) {
    const auto bits = [type = type](double v) {
      const auto value = static_cast<float>(v);
      return type == Dtype::bf16 ? encode<kBF16>(value).bits : encode<kF16>(value).bits;
    };
    for (const auto& [steps, found] : {std::pair{1.0, true}, {4.0, false}}) {
      const auto value = [](Index i) { return 1.0 + static_cast<double>(i * 37 % 64) / 64.0; };
      const auto own =
          filled<std::uint16_t>(type, {12, kColumns}, [&](Index i) { return bits(value(i)); });
      const auto came_so =
          filled<std::uint16_t>(type, {12, kColumns}, [&, steps = steps, step = step](Index i) {
            const bool added = i / kColumns >= 4 && i / kColumns < 8;
            return bits(added ? value(i) + value(i - 3 * kColumns) + steps * 2.0 * step : value(i));
          });
      Came came(own, came_so);
      EXPECT_EQ(!first(recover_added, came).empty(), found) << describe(own.operand()) << steps;
    }
  }
}

TEST(AddedRows, AreNumbers) {
  Came came(counted({8, 8}),
            taken(counted({8, 8}), [](Index i) { return i < 32 ? 2 * i % 64 : i; }));
  EXPECT_TRUE(recover_added(came.output).empty());
  EXPECT_TRUE(recover_running(came.output).empty());
  EXPECT_EQ(of(recover_added, {8, 8}, [](float*) {}), "");
  EXPECT_EQ(of(recover_running, {8, 8}, [](float*) {}), "");
}

TEST(AddedTiles, HoldWhatCameBefore) {
  for (const Index by : {8, 16, 32, 64, 128, 192, 256, 512}) {
    // Columns [by, 2 by) hold what came in [0, by), and the next ones what came in those.
    const Index columns = 3 * by;
    EXPECT_EQ(of(recover_added, {8, columns},
                 [&](float* y) {
                   for (Index i = 0; i < 8 * columns; ++i) {
                     if (i % columns >= by) y[i] += y[i - by];
                   }
                 }),
              "columns.added: columns " + std::to_string(by) + " to " +
                  std::to_string(columns - 1) + " of y hold their own sum and what came " +
                  std::to_string(by) + " columns before: accumulators that were not cleared");
  }
}

TEST(AddedTiles, HaveSixtyFourElements) {
  const auto tiles = [](Index rows) {
    return of(recover_added, {rows + 3, 16}, [rows](float* y) {
      for (Index i = 0; i < rows * 16; ++i) {
        if (i % 16 >= 8) y[i] += y[i - 8];
      }
    });
  };
  EXPECT_EQ(tiles(7), "");
  EXPECT_NE(tiles(8).find("columns.added"), std::string::npos);
}

TEST(AddedTiles, AreAllThatDiffers) {
  const auto with = [](const auto& more) {
    return of(recover_added, {12, 16}, [&](float* y) {
      for (Index i = 0; i < 192; ++i) {
        if (i % 16 >= 8) y[i] += y[i - 8];
      }
      more(y);
    });
  };
  EXPECT_NE(with([](float*) {}), "");
  EXPECT_EQ(with([](float* y) { y[3] += 1.0f; }), "");
  EXPECT_EQ(with([](float* y) { y[8] += 1.0f; }), "");
  EXPECT_EQ(with([](float* y) { y[191] += 1.0f; }), "");
  EXPECT_EQ(of(recover_added, {12, 16},
               [](float* y) {
                 for (Index i = 8; i < 192; ++i) y[i] += y[i - 8];
               }),
            "")
      << "from row to row";
}

/// Numbers [shape] that run on `unit` elements apart.
std::string running(std::vector<Index> shape, Index unit, double off = 0.0) {
  return of(recover_running, shape, [&](float* y) {
    const Index n = numbers(shape).elements();
    for (Index i = unit; i < n; ++i) y[i] += y[i - unit];
    y[n - 1] += static_cast<float>(off);
  });
}

TEST(RunningTotals, AreOfRowsOrExperts) {
  const std::string rows =
      "rows.running: every row of y holds its own sum and what came in the row before: running "
      "totals, sums that are not begun anew";
  EXPECT_EQ(running({8, 20}, 20), rows);
  EXPECT_EQ(running({4, 3, 20}, 60),
            "rows.running: every expert of y holds its own sum and what came in the expert before: "
            "running totals, sums that are not begun anew");
  EXPECT_EQ(running({4, 3, 20}, 20), "") << "rows of experts";
  EXPECT_EQ(running({8, 20}, 40), "");
  EXPECT_EQ(running({2, 40}, 40), rows);
  EXPECT_EQ(running({2, 31}, 31), "") << "fewer than 32 elements";
  EXPECT_EQ(running({1, 40}, 20), "");
  EXPECT_EQ(running({1, 3, 40}, 40), "") << "one expert";
}

TEST(RunningTotals, HoldInEveryElement) {
  EXPECT_EQ(running({8, 20}, 20, 1.0), "");
  EXPECT_EQ(of(recover_running, {8, 20},
               [](float* y) {
                 for (Index i = 20; i < 160; ++i) y[i] += y[i - 20];
                 y[0] += 1.0f;
               }),
            "");
}

TEST(RunningTotals, MayBeSummedInAnotherOrder) {
  const auto apart = [](double roundings) {
    const auto value = [](Index) { return 1.0f; };
    Tensor actual = filled<float>(Dtype::f32, {2, 40}, value);
    for (Index i = 40; i < 80; ++i) {
      actual.as<float>()[i] = static_cast<float>(2.0 + 4.0 * 0x1p-23 * roundings);
    }
    Came came(filled<float>(Dtype::f32, {2, 40}, value), std::move(actual));
    return first(recover_running, came);
  };
  EXPECT_NE(apart(1.0), "");
  EXPECT_NE(apart(60.0), "");
  EXPECT_EQ(apart(68.0), "");
}

TEST(RunningTotals, HaveToShow) {
  // Sums of zeros and something are that, in any order.
  const auto value = [](Index i) { return i / 40 == 1 ? 1.0 : 0.0; };
  Came came(
      filled<float>(Dtype::f32, {3, 40}, value),
      filled<float>(Dtype::f32, {3, 40}, [&](Index i) { return i / 40 == 2 ? 1.0 : value(i); }));
  EXPECT_NE(first(recover_running, came), "");
  Came some(filled<float>(Dtype::f32, {3, 40}, value),
            filled<float>(Dtype::f32, {3, 40},
                          [&](Index i) { return i / 40 == 2 && i % 40 < 31 ? 1.0 : value(i); }));
  EXPECT_EQ(first(recover_running, some), "");
}

TEST(AddedSums, AreNotToldWhereSomethingIsExplained) {
  Tensor actual = numbers({8, 20});
  for (Index i = 20; i < 160; ++i) actual.as<float>()[i] += actual.as<float>()[i - 20];
  Came came(numbers({8, 20}), std::move(actual));
  came.output.settle(100);
  EXPECT_TRUE(recover_running(came.output).empty());
  Tensor tiles = numbers({12, 16});
  for (Index i = 0; i < 192; ++i) {
    if (i % 16 >= 8) tiles.as<float>()[i] += tiles.as<float>()[i - 8];
  }
  Came columns(numbers({12, 16}), std::move(tiles));
  columns.output.settle(8);
  EXPECT_EQ(first(recover_added, columns), "");
}

}  // namespace
}  // namespace mxo

// Rows and columns times numbers that they share, or each its own, and numbers added to columns.
#include <limits>

#include "tests/golden/numbered.h"

namespace mxo {
namespace {

Words words_of(Came&& came) { return in_words(recover_scaled(came.output)); }

Words shared(const std::string& where, const std::string& number, Index elements) {
  return {"value.factor: " + where + " of y: every value is " + number +
          " times what is expected (" + std::to_string(elements) + ")"};
}

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Rows times by[row], as long as there are so many.
From rows_by(std::vector<double> by) {
  return [by = std::move(by)](Index r, Index, double v) {
    return r < static_cast<Index>(by.size()) ? v * by[static_cast<std::size_t>(r)] : v;
  };
}

TEST(ScaledLines, ShareANumber) {
  Came rows = numbered(Dtype::f32, 6, 8, rows_by({1, 3, 1, 3}));
  EXPECT_EQ(in_words(recover_scaled(rows.output)), shared("rows 1 and 3", "3", 16));
  EXPECT_EQ(rows.output.left, 0);
  const From third = [](Index, Index c, double v) { return c == 2 ? 0.7 * v : v; };
  EXPECT_EQ(words_of(numbered(Dtype::f32, 8, 6, third)), shared("column 2", "0.7", 8));
  const From first = [](Index, Index c, double v) { return c == 0 ? 0.7 * v : v; };
  EXPECT_EQ(words_of(numbered(Dtype::f32, 8, 6, first)), shared("column 0", "0.7", 8));
  EXPECT_EQ(words_of(numbered(Dtype::bf16, 6, 40, rows_by({1, 3, 1, 3}))),
            shared("rows 1 and 3", "3", 80));
}

TEST(ScaledLines, ShareUpToThreeNumbers) {
  EXPECT_EQ(words_of(numbered(Dtype::f32, 4, 8, rows_by({1, 7, 3, 5}))),
            shared("row 2", "3", 8) + shared("row 3", "5", 8) + shared("row 1", "7", 8));
  Came four = numbered(Dtype::f32, 7, 8, rows_by({1, 7, 3, 5, 9, 3, 3}));
  EXPECT_EQ(
      in_words(recover_scaled(four.output)),
      shared("rows 2 and 5 to 6", "3", 24) + shared("row 3", "5", 8) + shared("row 1", "7", 8));
  EXPECT_EQ(four.output.left, 8);
}

TEST(ScaledLines, WithTheMostElementsComeFirst) {
  EXPECT_EQ(words_of(numbered(Dtype::f32, 5, 8, rows_by({3, 5, 5, 7, 1}))),
            shared("rows 1 to 2", "5", 16) + shared("row 0", "3", 8) + shared("row 3", "7", 8));
}

TEST(ScaledLines, AreMultipliedFromFirstToLast) {
  const From within = [](Index r, Index c, double v) {
    return r == 1 && c >= 2 && c < 10 ? 3 * v : v;
  };
  EXPECT_EQ(words_of(numbered(Dtype::f32, 3, 12, within)),
            shared("columns 2 to 9 of row 1", "3", 8));
  for (const Index other : {2, 5, 9}) {
    const From but_one = [&](Index r, Index c, double v) {
      return r == 1 && c == other ? 4 * v : within(r, c, v);
    };
    EXPECT_EQ(words_of(numbered(Dtype::f32, 3, 12, but_one)), Words{}) << other;
    Came settled = numbered(Dtype::f32, 3, 13, [&](Index r, Index c, double v) {
      return r == 1 && c == 10 ? 3 * v : but_one(r, c, v);
    });
    settled.output.settle(13 + other);
    EXPECT_EQ(in_words(recover_scaled(settled.output)).size(), 1u) << other;
    EXPECT_EQ(settled.output.left, 0);
  }
  const From gap = [&](Index r, Index c, double v) { return c == 5 ? v : within(r, c, v); };
  EXPECT_EQ(words_of(numbered(Dtype::f32, 3, 12, gap)), Words{}) << "one that is right";
}

TEST(ScaledLines, TellTheirNumberByEightElements) {
  // One other element differs.
  const auto words = [](Dtype dtype, Index elements) {
    return words_of(numbered(dtype, 3, elements, [](Index r, Index c, double v) {
      return r == 1 ? 3 * v : r == 2 && c == 0 ? 5 * v : v;
    }));
  };
  EXPECT_EQ(words(Dtype::f32, 8), shared("row 1", "3", 8));
  EXPECT_EQ(words(Dtype::f32, 7), Words{});
  EXPECT_EQ(words(Dtype::bf16, 64), shared("row 1", "3", 64));
  EXPECT_EQ(words(Dtype::bf16, 63), Words{});
  EXPECT_EQ(words(Dtype::f16, 63), Words{});
  EXPECT_EQ(words_of(numbered(Dtype::f32, 2, 7, rows_by({3}))), Words{}) << "seven in all";
}

TEST(ScaledLines, OfTwoElementsSayNothing) {
  const auto words = [](Index columns) {
    return words_of(numbered(Dtype::f32, 9, columns, rows_by({3, 1, 3, 1, 3, 1, 3, 1, 3})));
  };
  EXPECT_EQ(words(3), shared("every 2nd row from 0", "3", 15));
  EXPECT_EQ(words(2), Words{});
}

TEST(ScaledLines, AreOfNumbersThatSaySomething) {
  for (const double by : {0.0, 1.0 + 0x1p-19, 1.0 + 4e-6, 1.0 - 4e-6}) {
    EXPECT_EQ(words_of(numbered(Dtype::f32, 3, 16, rows_by({1, by}))), Words{}) << by;
  }
  EXPECT_EQ(words_of(numbered(Dtype::f32, 3, 16, rows_by({1, 1.0 + 1.2e-5}))).size(), 1u);
  EXPECT_EQ(words_of(numbered(Dtype::f32, 3, 16, rows_by({1, 1.0 - 1.2e-5}))).size(), 1u);
  EXPECT_EQ(words_of(numbered(Dtype::bf16, 3, 200, rows_by({1, 1.002}))), Words{});
  EXPECT_EQ(words_of(numbered(Dtype::bf16, 3, 200, rows_by({1, 1.01}))),
            shared("row 1", "1.01", 200));
}

TEST(ScaledLines, AreSaidInPartsOfThousands) {
  EXPECT_EQ(words_of(numbered(Dtype::f32, 3, 16, rows_by({1, 1.0 / 4096}))),
            shared("row 1", "1/4096", 16));
  EXPECT_EQ(words_of(numbered(Dtype::f32, 3, 16, rows_by({1, 4096}))), shared("row 1", "4096", 16));
}

TEST(ScaledLines, OfNoFloatsSayNothing) {
  const auto ones = filled<std::int32_t>(Dtype::i32, {8, 16}, [](Index) { return 1; });
  const auto threes = filled<std::int32_t>(Dtype::i32, {8, 16}, [](Index) { return 3; });
  EXPECT_EQ(words_of(Came(ones, threes)), Words{});
}

Words own(const std::string& where, const std::string& each, const std::string& range,
          Index elements) {
  return {"value.factors: " + where + " of y: each " + each +
          " is multiplied by a factor of its own, " + range + " (" + std::to_string(elements) +
          ")"};
}

/// `more` rows of which `odd` elements came as something else, behind rows by a number each.
Came rows_and_others(std::vector<double> by, Index odd, Index columns = 4) {
  const auto first = static_cast<Index>(by.size());
  const From rows = rows_by(std::move(by));
  return numbered(Dtype::f32, first + odd, columns, [=](Index r, Index c, double v) {
    return r >= first && c == r % 4 ? -7.0 * v * static_cast<double>(r * r) : rows(r, c, v);
  });
}

TEST(OwnFactors, OfFourLinesAreSaidTogether) {
  Came rows = numbered(Dtype::f32, 5, 8, rows_by({3, -5, 7, 9}));
  EXPECT_EQ(in_words(recover_scaled(rows.output)), own("rows 0 to 3", "row", "-5 to 9", 32));
  EXPECT_EQ(rows.output.left, 0);
  const From columns = [](Index, Index c, double v) {
    return c == 4 ? v : v * (1.5 + static_cast<double>(c));
  };
  EXPECT_EQ(words_of(numbered(Dtype::f32, 8, 5, columns)),
            own("columns 0 to 3", "column", "1.5 to 4.5", 32));
  EXPECT_EQ(words_of(numbered(Dtype::f32, 5, 3, rows_by({3, -5, 7, 9}))),
            own("rows 0 to 3", "row", "-5 to 9", 12))
      << "of three elements each";
}

TEST(OwnFactors, AreSaidWhereNoneIsThatOfHalf) {
  EXPECT_EQ(words_of(numbered(Dtype::f32, 6, 8, rows_by({3, 3, 5, 7, 9}))),
            own("rows 0 to 4", "row", "3 to 9", 40));
  EXPECT_EQ(words_of(numbered(Dtype::f32, 7, 8, rows_by({3, 3, 3, 5, 7, 9}))).front(),
            shared("rows 0 to 2", "3", 24).front());
}

TEST(OwnFactors, AreThoseOfNineInTen) {
  const std::vector<double> nine{3, 5, 7, 9, 11, 13, 15, 17, 19};
  Came enough = rows_and_others(nine, 4);
  EXPECT_EQ(in_words(recover_scaled(enough.output)), own("rows 0 to 8", "row", "3 to 19", 36));
  EXPECT_EQ(enough.output.left, 4);
  EXPECT_EQ(words_of(rows_and_others(nine, 5)), Words{});
}

TEST(OwnFactors, LeaveNothingOfTheirLinesToOthers) {
  std::vector<double> many;
  for (int r = 0; r < 25; ++r) many.push_back(3.0 + r);
  EXPECT_EQ(words_of(rows_and_others(many, 11, 8)), own("rows 0 to 24", "row", "3 to 27", 200));
}

TEST(OwnFactors, OfBf16AreToldBySixteen) {
  const auto words = [](Index columns, std::vector<double> by) {
    return words_of(numbered(Dtype::bf16, 6, columns, rows_by(std::move(by))));
  };
  EXPECT_EQ(words(16, {3, 5, 7, 9, 1, 1}).size(), 1u);
  EXPECT_EQ(words(15, {3, 5, 7, 9, 1, 1}), Words{});
}

TEST(OwnFactors, OfFewElementsTellLittle) {
  // One of the rows differs in 15 elements: it is explained, too, but proves nothing.
  const auto words = [](Index elements) {
    return words_of(numbered(Dtype::f16, 5, 40, [=](Index r, Index c, double v) {
      return r == 4 ? (c < elements ? 100.0 * v : v) : v * static_cast<double>(3 + 2 * r);
    }));
  };
  EXPECT_EQ(words(15), own("all", "row", "3 to 9", 175));
  EXPECT_EQ(words(16), own("all", "row", "3 to 100", 176));
  EXPECT_EQ(words(30), own("all", "row", "3 to 100", 190));
}

TEST(OwnFactors, AreNotOne) {
  // Row 4 came a little off, and row 5 as zeros.
  const From by = [](Index r, Index c, double v) {
    if (r == 4) return c < 3 ? v * (1.0 + 0x1p-22) : v;
    if (r == 5) return c < 3 ? 0.0 : v;
    return v * static_cast<double>(3 + 2 * r);
  };
  Came came = numbered(Dtype::f32, 6, 15, by);
  EXPECT_EQ(in_words(recover_scaled(came.output)), own("rows 0 to 3", "row", "3 to 9", 60));
  EXPECT_EQ(came.output.mark(5, 0), Mark::differs);
}

Words added(const std::string& where, const std::string& range, Index elements) {
  return {"value.offsets: " + where +
          " of y: each column has a number of its own added, a bias or what is missing of one: " +
          range + " (" + std::to_string(elements) + ")"};
}

/// Columns plus by[column], as long as there are so many.
From columns_plus(std::vector<double> by) {
  return [by = std::move(by)](Index, Index c, double v) {
    return c < static_cast<Index>(by.size()) ? v + by[static_cast<std::size_t>(c)] : v;
  };
}

TEST(Offsets, AreThoseOfColumns) {
  Came came = numbered(Dtype::f32, 6, 5, columns_plus({3, -5, 0.5, 1}));
  EXPECT_EQ(in_words(recover_scaled(came.output)), added("columns 0 to 3", "-5 to 3", 24));
  EXPECT_EQ(came.output.left, 0);
  EXPECT_EQ(words_of(numbered(Dtype::f32, 6, 5, columns_plus({3, 3, 3, 3}))),
            Words{"value.offset: columns 0 to 3 of y: one number is added, 3 (24)"})
      << "what all columns share is no number of their own";
  EXPECT_EQ(words_of(numbered(Dtype::bf16, 40, 5, columns_plus({3, -5, 0.5, 1}))),
            added("columns 0 to 3", "-5 to 3", 160));
  EXPECT_EQ(words_of(numbered(Dtype::f32, 6, 5, columns_plus({3, -5, 0.5}))), Words{});
}

TEST(Offsets, AreTheSameInAllOfAColumn) {
  const From plus = columns_plus({3, -5, 0.5, 1});
  const From but_one = [&](Index r, Index c, double v) {
    return plus(r, c, v) + (r == 5 && c == 1 ? 0.001 : 0.0);
  };
  EXPECT_EQ(words_of(numbered(Dtype::f32, 6, 5, but_one)), Words{});
}

TEST(Offsets, AreNotLookedForWhereSomethingIsExplained) {
  Came came = numbered(Dtype::f32, 6, 5, columns_plus({3, -5, 0.5, 1}));
  came.output.settle(0);
  EXPECT_EQ(in_words(recover_scaled(came.output)), Words{});
}

}  // namespace
}  // namespace mxo

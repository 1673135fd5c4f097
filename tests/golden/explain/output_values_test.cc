// Values times numbers, all of them or by lines, and numbers added: what is said of each, and
// which are too small, too irregular or too likely by chance for a name.
#include <cmath>
#include <limits>

#include "tests/golden/values_said.h"

namespace mxo {
namespace {

using namespace values_said;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

Value times(double by) {
  return [by](Index, Index, double v) { return v * by; };
}
/// Rows, or columns, by these numbers, as long as there are so many.
Value rows_by(std::vector<double> by) {
  return [by](Index r, Index, double v) {
    return r < static_cast<Index>(by.size()) ? v * by[static_cast<std::size_t>(r)] : v;
  };
}
Value columns_by(std::vector<double> by) {
  return [by](Index, Index c, double v) {
    return c < static_cast<Index>(by.size()) ? v * by[static_cast<std::size_t>(c)] : v;
  };
}
Value columns_plus(std::vector<double> by) {
  return [by](Index, Index c, double v) {
    return c < static_cast<Index>(by.size()) ? v + by[static_cast<std::size_t>(c)] : v;
  };
}
Value but_at(Index row, Index column, double by, const Value& value) {
  return
      [=](Index r, Index c, double v) { return r == row && c == column ? v * by : value(r, c, v); };
}

std::string by_number(const std::string& place, const std::string& text) {
  return "value.factor: " + place + " of y: every value is " + text + " times what is expected";
}

TEST(OutputValues, TimesOneNumberAreNamedByTheShortest) {
  std::vector<ValueRow> table;
  for (const auto& [by, text] : {std::pair<double, const char*>{3.0, "3"},
                                 {0.75, "0.75"},
                                 {0.025, "0.025"},
                                 {-2.0, "-2"},
                                 {1.0 / 3.0, "1/3"},
                                 {1.0 / 4095.0, "1/4095"},
                                 {1.0 / 7168.0, "0.000139509"},
                                 {4093.0, "4093"},
                                 {0.123, "0.123"},
                                 {0.5772157, "0.577216"}}) {
    table.push_back({{8, 16}, times(by), by_number("all", text)});
  }
  const Value small = times(0x1p-18);
  for (const ValueRow& v :
       std::vector<ValueRow>{{{64, 64}, times(-0.7), by_number("all", "-0.7"), Dtype::bf16},
                             {{64, 64}, times(1.0 / 7), by_number("all", "1/7"), Dtype::bf16},
                             {{64, 64}, times(0x3p-18), by_number("all", "3"), Dtype::f16, small},
                             {{8, 8}, times(3.0), by_number("all", "3")},
                             {{7, 9}, times(3.0), ""},  // 63 elements
                             {{8, 16}, times(4.0), ""},
                             {{8, 16}, times(1.0 + 0x1p-22), ""},
                             {{8, 16}, times(0.0), ""},
                             {{8, 16}, but_at(0, 0, 3.001, times(3.0)), ""},
                             {{8, 16}, but_at(3, 3, 1.0, times(3.0)), ""},
                             {{8, 16}, but_at(3, 3, -3.0, times(3.0)), ""}}) {
    table.push_back(v);
  }
  for (const auto& [want, got] : {std::pair{0.0, 0.0},
                                  {kNan, kNan},
                                  {kInfinite, kInfinite},
                                  {0.0, 1.0},
                                  {1.0, 0.0},
                                  {kNan, 1.0},
                                  {1.0, kInfinite}}) {
    const auto with = [](double one, double by) -> Value {
      return [=](Index r, Index c, double v) { return r == 1 && c == 2 ? one : by * v; };
    };
    const bool any = want == got || std::isnan(got);
    table.push_back(
        {{8, 16}, with(got, 3.0), any ? by_number("all", "3") : "", Dtype::f32, with(want, 1.0)});
  }
  expect_said(recover_one_factor, table);
}

TEST(OutputValues, OfLinesShareNumbersOrHaveTheirOwn) {
  const auto own = [](const std::string& place, const std::string& each, const std::string& range) {
    return "value.factors: " + place + " of y: each " + each +
           " is multiplied by a factor of its own, " + range;
  };
  const auto plus = [](const std::string& range) {
    return "value.offsets: columns 0 to 3 of y: each column has a number of its own added: " +
           range;
  };
  const std::string three =
      by_number("row 2", "3") + " | " + by_number("row 3", "5") + " | " + by_number("row 1", "7");
  const auto within = [](Index gap, double by) -> Value {
    return [=](Index r, Index c, double v) {
      return r != 1 || c < 2 || c > 9 ? v : c == gap ? by * v : 3 * v;
    };
  };
  const Value runs = [](Index r, Index c, double v) {
    return r < 3 && c >= 2 * r && c < 2 * r + 4 ? 3 * v : v;
  };
  // Behind rows by a number each so many elements of other rows.
  const auto nine_and = [](Index odd) -> Value {
    return [=](Index r, Index c, double v) {
      return r < 9                       ? v * static_cast<double>(3 + 2 * r)
             : r < 9 + odd && c == r % 4 ? -7.0 * v * static_cast<double>(r * r)
                                         : v;
    };
  };
  expect_said(
      recover_scaled,
      {
          {{6, 8}, rows_by({1, 3, 1, 3}), by_number("rows 1 and 3", "3")},
          {{8, 6}, columns_by({1, 1, 0.7}), by_number("column 2", "0.7")},
          {{6, 40}, rows_by({1, 3, 1, 3}), by_number("rows 1 and 3", "3"), Dtype::bf16},
          {{4, 8}, rows_by({1, 7, 3, 5}), three},
          {{5, 8},
           rows_by({3, 5, 5, 7}),
           by_number("rows 1 to 2", "5") + " | " + by_number("row 0", "3") + " | " +
               by_number("row 3", "7")},
          {{3, 12}, within(-1, 0), by_number("columns 2 to 9 of row 1", "3")},
          {{6, 12},
           runs,
           "value.factor: columns 0 to 7 of rows 0 to 2 of y: between the first and the last that "
           "differ in each, every value is 3 times what is expected"},
          {{3, 12}, within(5, 4), ""},
          {{3, 12}, within(5, 1), ""},  // one that is right
          {{3, 7}, rows_by({1, 3}), ""},
          {{3, 64}, rows_by({1, 3}), by_number("row 1", "3"), Dtype::bf16},
          {{3, 63}, rows_by({1, 3}), "", Dtype::bf16},
          {{9, 2}, rows_by({3, 1, 3, 1, 3, 1, 3, 1, 3}), ""},
          {{3, 16}, rows_by({1, 0}), ""},
          {{3, 16}, rows_by({1, 1 + 4e-6}), ""},
          {{3, 200}, rows_by({1, 1.002}), "", Dtype::bf16},
          {{3, 200}, rows_by({1, 1.01}), by_number("row 1", "1.01"), Dtype::bf16},
          {{5, 8}, rows_by({3, -5, 7, 9}), own("rows 0 to 3", "row", "-5 to 9")},
          {{8, 5}, columns_by({1.5, 2.5, 3.5, 4.5}), own("columns 0 to 3", "column", "1.5 to 4.5")},
          {{6, 8}, rows_by({3, 3, 5, 7, 9}), own("rows 0 to 4", "row", "3 to 9")},
          {{13, 4}, nine_and(4), own("rows 0 to 8", "row", "3 to 19")},
          {{14, 4}, nine_and(5), ""},  // fewer than nine in ten
          {{6, 16}, rows_by({3, 5, 7, 9}), own("rows 0 to 3", "row", "3 to 9"), Dtype::bf16},
          {{6, 15}, rows_by({3, 5, 7, 9}), "", Dtype::bf16},
          {{6, 5}, columns_plus({3, -5, 0.5, 1}), plus("-5 to 3")},
          {{40, 5}, columns_plus({3, -5, 0.5, 1}), plus("-5 to 3"), Dtype::bf16},
          {{6, 5},
           columns_plus({3, 3, 3, 3}),
           "value.offset: columns 0 to 3 of y: one number is added, 3"},
          {{6, 5}, columns_plus({3, -5, 0.5}), ""},
          {{6, 5}, but_at(5, 1, 1.001, columns_plus({3, -5, 0.5, 1})), ""},
      });
}

TEST(OutputValues, OfLinesAreTimesPowersOfTwo) {
  const auto by = [](const std::string& place, int exponent) {
    return "value.power_of_2: " + place + " of y: every value is multiplied by 2^" +
           std::to_string(exponent);
  };
  const auto own = [](const std::string& place, const std::string& each, const std::string& range) {
    return "value.power_of_2: " + place + " of y: every " + each +
           " is multiplied by a power of two of its own, " + range;
  };
  // Row 1 times 4, but for its first element.
  const auto first = [](double want, double got, const std::string& words) {
    const auto with = [](double one, double factor) -> Value {
      return [=](Index r, Index c, double v) { return r != 1 ? v : c == 0 ? one : factor * v; };
    };
    return ValueRow{{3, 9}, with(got, 4), words, Dtype::f32, with(want, 1)};
  };
  const std::string rest = by("columns 1 to 8 of row 1", 2);
  expect_said(
      recover_factors,
      {
          {{3, 4}, times(4), by("all", 2)},
          {{4, 4}, rows_by({1, 0.125, 0.125}), by("rows 1 to 2", -3)},
          {{8, 4}, columns_by({2}), by("column 0", 1), Dtype::bf16},
          {{4, 8},
           rows_by({1, 2, 4, 8}),
           by("row 1", 1) + " | " + by("row 2", 2) + " | " + by("row 3", 3),
           Dtype::f16},
          {{4, 3}, rows_by({0.0625, 0.125, 0.25, 0.5}), own("all", "row", "2^-4 to 2^-1")},
          {{3, 5},
           columns_by({0.0625, 0.125, 0.25, 0.5}),
           own("columns 0 to 3", "column", "2^-4 to 2^-1")},
          {{3, 7}, rows_by({2}), ""},  // seven elements
          {{3, 7}, rows_by({2, 4}), ""},
          first(0.0, 0.0, rest),
          first(1.5, 6.0, by("row 1", 2)),
          first(1.0, 0.0, ""),
          first(0.0, 1.0, ""),
          first(1.5, 3.0, ""),
          first(1.5, -6.0, ""),
          first(1.5, 1.5, ""),
          first(kNan, 4.0, ""),
          first(1.0, kInfinite, ""),
          first(kInfinite, kInfinite, ""),
          {{2, 8}, times(-0.0), "", Dtype::f32, times(0.0)},  // zeros of another sign
          // One factor of a column for as many elements as two of rows.
          {{10, 9},
           [](Index r, Index c, double v) {
             return r < 2 ? (c < 4 ? v * static_cast<double>(2 + 2 * r) : 0.0) : c == 8 ? 8 * v : v;
           },
           by("column 8 of rows 2 to 9", 3),
           Dtype::f32,
           [](Index r, Index c, double v) { return r < 2 && c >= 4 ? 0.0 : v; }},
          {{10, 9},  // one of each
           [](Index r, Index c, double v) {
             return r < 2 ? (c < 4 ? v * 2 : 0.0) : c == 8 ? 8 * v : v;
           },
           by("columns 0 to 3 of rows 0 to 1", 1),
           Dtype::f32,
           [](Index r, Index c, double v) { return r < 2 && c >= 4 ? 0.0 : v; }},
      });
}

}  // namespace
}  // namespace mxo

// Values of an output that are a function of what is expected: what is said of each function, and
// which are too small, too irregular or too likely by chance for a name.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "formats/minifloat.h"
#include "golden/explain/find/output/recover.h"
#include "tests/golden/claims_said.h"
#include "tests/golden/of_bits.h"

namespace mxo {
namespace {

using Find = std::vector<Claim> (*)(Output&);
using Value = std::function<double(Index row, Index column, double wanted)>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// From 1 to 2, of either sign, and no two neighbours alike.
double number(Index i) {
  const auto f = static_cast<double>(static_cast<std::uint32_t>(i + 1) * 2654435761u) * 0x1p-32;
  return (1.0 + f) * (i % 3 == 0 ? -1.0 : 1.0);
}

Tensor numbers(Dtype dtype, std::vector<Index> shape, const Value& value) {
  const Index columns = shape.back();
  Tensor t(dtype, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    const auto v = static_cast<float>(value(i / columns, i % columns, number(i)));
    if (dtype == Dtype::f32) t.as<float>()[i] = v;
    if (dtype == Dtype::bf16) t.as<BF16>()[i] = encode<kBF16>(v);
    if (dtype == Dtype::f16) t.as<F16>()[i] = encode<kF16>(v);
  }
  return t;
}

double as_it_is(Index, Index, double v) { return v; }

/// Numbers, each rounded on its own, that came as value(row, column, number).
struct Values {
  Find find;
  Dtype dtype;
  std::vector<Index> shape;
  Value value;
  std::string said;
  Value wanted = as_it_is;
};

void expect_said(const std::vector<Values>& table) {
  for (std::size_t n = 0; n < table.size(); ++n) {
    const Values& v = table[n];
    Came came(numbers(v.dtype, v.shape, v.wanted), numbers(v.dtype, v.shape, v.value));
    EXPECT_EQ(said(came.output, v.find), v.said) << "row " << n;
  }
}

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
  std::vector<Values> table;
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
    table.push_back({recover_one_factor, Dtype::f32, {8, 16}, times(by), by_number("all", text)});
  }
  const Value small = times(0x1p-18);
  for (const Values& v : std::vector<Values>{
           {recover_one_factor, Dtype::bf16, {64, 64}, times(-0.7), by_number("all", "-0.7")},
           {recover_one_factor, Dtype::bf16, {64, 64}, times(1.0 / 7), by_number("all", "1/7")},
           {recover_one_factor, Dtype::f16, {64, 64}, times(0x3p-18), by_number("all", "3"), small},
           {recover_one_factor, Dtype::f32, {8, 8}, times(3.0), by_number("all", "3")},
           {recover_one_factor, Dtype::f32, {7, 9}, times(3.0), ""},  // 63 elements
           {recover_one_factor, Dtype::f32, {8, 16}, times(4.0), ""},
           {recover_one_factor, Dtype::f32, {8, 16}, times(1.0 + 0x1p-22), ""},
           {recover_one_factor, Dtype::f32, {8, 16}, times(0.0), ""},
           {recover_one_factor, Dtype::f32, {8, 16}, but_at(0, 0, 3.001, times(3.0)), ""},
           {recover_one_factor, Dtype::f32, {8, 16}, but_at(3, 3, 1.0, times(3.0)), ""},
           {recover_one_factor, Dtype::f32, {8, 16}, but_at(3, 3, -3.0, times(3.0)), ""}}) {
    table.push_back(v);
  }
  for (const auto& [wanted, came] : {std::pair{0.0, 0.0},
                                     {kNan, kNan},
                                     {kInfinite, kInfinite},
                                     {0.0, 1.0},
                                     {1.0, 0.0},
                                     {kNan, 1.0},
                                     {1.0, kInfinite}}) {
    const auto with = [](double one, double by) -> Value {
      return [=](Index r, Index c, double v) { return r == 1 && c == 2 ? one : by * v; };
    };
    const bool any = wanted == came || std::isnan(came);
    table.push_back({recover_one_factor,
                     Dtype::f32,
                     {8, 16},
                     with(came, 3.0),
                     any ? by_number("all", "3") : "",
                     with(wanted, 1.0)});
  }
  expect_said(table);
}

TEST(OutputValues, OfLinesShareNumbersOrHaveTheirOwn) {
  const Find find = recover_scaled;
  const auto own = [](const std::string& place, const std::string& each, const std::string& range) {
    return "value.factors: " + place + " of y: each " + each +
           " is multiplied by a factor of its own, " + range;
  };
  const auto plus = [](const std::string& range) {
    return "value.offsets: columns 0 to 3 of y: each column has a number of its own added, a bias "
           "or what is missing of one: " +
           range;
  };
  const std::string three =
      by_number("row 2", "3") + " | " + by_number("row 3", "5") + " | " + by_number("row 1", "7");
  const auto within = [](Index gap, double by) -> Value {
    return [=](Index r, Index c, double v) {
      return r != 1 || c < 2 || c > 9 ? v : c == gap ? by * v : 3 * v;
    };
  };
  // Behind rows by a number each so many elements of other rows.
  const auto nine_and = [](Index odd) -> Value {
    return [=](Index r, Index c, double v) {
      return r < 9                       ? v * static_cast<double>(3 + 2 * r)
             : r < 9 + odd && c == r % 4 ? -7.0 * v * static_cast<double>(r * r)
                                         : v;
    };
  };
  expect_said({
      {find, Dtype::f32, {6, 8}, rows_by({1, 3, 1, 3}), by_number("rows 1 and 3", "3")},
      {find, Dtype::f32, {8, 6}, columns_by({1, 1, 0.7}), by_number("column 2", "0.7")},
      {find, Dtype::bf16, {6, 40}, rows_by({1, 3, 1, 3}), by_number("rows 1 and 3", "3")},
      {find, Dtype::f32, {4, 8}, rows_by({1, 7, 3, 5}), three},
      {find,
       Dtype::f32,
       {5, 8},
       rows_by({3, 5, 5, 7}),
       by_number("rows 1 to 2", "5") + " | " + by_number("row 0", "3") + " | " +
           by_number("row 3", "7")},
      {find, Dtype::f32, {3, 12}, within(-1, 0), by_number("columns 2 to 9 of row 1", "3")},
      {find, Dtype::f32, {3, 12}, within(5, 4), ""},
      {find, Dtype::f32, {3, 12}, within(5, 1), ""},  // one that is right
      {find, Dtype::f32, {3, 7}, rows_by({1, 3}), ""},
      {find, Dtype::bf16, {3, 64}, rows_by({1, 3}), by_number("row 1", "3")},
      {find, Dtype::bf16, {3, 63}, rows_by({1, 3}), ""},
      {find, Dtype::f32, {9, 2}, rows_by({3, 1, 3, 1, 3, 1, 3, 1, 3}), ""},
      {find, Dtype::f32, {3, 16}, rows_by({1, 0}), ""},
      {find, Dtype::f32, {3, 16}, rows_by({1, 1 + 4e-6}), ""},
      {find, Dtype::bf16, {3, 200}, rows_by({1, 1.002}), ""},
      {find, Dtype::bf16, {3, 200}, rows_by({1, 1.01}), by_number("row 1", "1.01")},
      {find, Dtype::f32, {5, 8}, rows_by({3, -5, 7, 9}), own("rows 0 to 3", "row", "-5 to 9")},
      {find,
       Dtype::f32,
       {8, 5},
       columns_by({1.5, 2.5, 3.5, 4.5}),
       own("columns 0 to 3", "column", "1.5 to 4.5")},
      {find, Dtype::f32, {6, 8}, rows_by({3, 3, 5, 7, 9}), own("rows 0 to 4", "row", "3 to 9")},
      {find, Dtype::f32, {13, 4}, nine_and(4), own("rows 0 to 8", "row", "3 to 19")},
      {find, Dtype::f32, {14, 4}, nine_and(5), ""},  // fewer than nine in ten
      {find, Dtype::bf16, {6, 16}, rows_by({3, 5, 7, 9}), own("rows 0 to 3", "row", "3 to 9")},
      {find, Dtype::bf16, {6, 15}, rows_by({3, 5, 7, 9}), ""},
      {find, Dtype::f32, {6, 5}, columns_plus({3, -5, 0.5, 1}), plus("-5 to 3")},
      {find, Dtype::bf16, {40, 5}, columns_plus({3, -5, 0.5, 1}), plus("-5 to 3")},
      {find,
       Dtype::f32,
       {6, 5},
       columns_plus({3, 3, 3, 3}),
       "value.offset: columns 0 to 3 of y: one number is added, 3"},
      {find, Dtype::f32, {6, 5}, columns_plus({3, -5, 0.5}), ""},
      {find, Dtype::f32, {6, 5}, but_at(5, 1, 1.001, columns_plus({3, -5, 0.5, 1})), ""},
  });
}

TEST(OutputValues, OfLinesAreTimesPowersOfTwo) {
  const Find find = recover_factors;
  const auto by = [](const std::string& place, int exponent) {
    return "value.power_of_2: " + place + " of y: every value is multiplied by 2^" +
           std::to_string(exponent);
  };
  const auto own = [](const std::string& place, const std::string& each, const std::string& range) {
    return "value.power_of_2: " + place + " of y: every " + each +
           " is multiplied by a power of two of its own, " + range;
  };
  // Row 1 times 4, but for its first element.
  const auto first = [](double wanted, double came, const std::string& words) {
    const auto with = [](double one, double factor) -> Value {
      return [=](Index r, Index c, double v) { return r != 1 ? v : c == 0 ? one : factor * v; };
    };
    return Values{recover_factors, Dtype::f32, {3, 9}, with(came, 4), words, with(wanted, 1)};
  };
  const std::string rest = by("columns 1 to 8 of row 1", 2);
  expect_said({
      {find, Dtype::f32, {3, 4}, times(4), by("all", 2)},
      {find, Dtype::f32, {4, 4}, rows_by({1, 0.125, 0.125}), by("rows 1 to 2", -3)},
      {find, Dtype::bf16, {8, 4}, columns_by({2}), by("column 0", 1)},
      {find,
       Dtype::f16,
       {4, 8},
       rows_by({1, 2, 4, 8}),
       by("row 1", 1) + " | " + by("row 2", 2) + " | " + by("row 3", 3)},
      {find,
       Dtype::f32,
       {4, 3},
       rows_by({0.0625, 0.125, 0.25, 0.5}),
       own("all", "row", "2^-4 to 2^-1")},
      {find,
       Dtype::f32,
       {3, 5},
       columns_by({0.0625, 0.125, 0.25, 0.5}),
       own("columns 0 to 3", "column", "2^-4 to 2^-1")},
      {find, Dtype::f32, {3, 7}, rows_by({2}), ""},  // seven elements
      {find, Dtype::f32, {3, 7}, rows_by({2, 4}), ""},
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
      {find, Dtype::f32, {2, 8}, times(-0.0), "", times(0.0)},  // zeros of another sign
      // One factor of a column for as many elements as two of rows.
      {find,
       Dtype::f32,
       {10, 9},
       [](Index r, Index c, double v) {
         return r < 2 ? (c < 4 ? v * static_cast<double>(2 + 2 * r) : 0.0) : c == 8 ? 8 * v : v;
       },
       by("column 8 of rows 2 to 9", 3),
       [](Index r, Index c, double v) { return r < 2 && c >= 4 ? 0.0 : v; }},
      {find,
       Dtype::f32,
       {10, 9},  // one of each
       [](Index r, Index c, double v) {
         return r < 2 ? (c < 4 ? v * 2 : 0.0) : c == 8 ? 8 * v : v;
       },
       by("columns 0 to 3 of rows 0 to 1", 1),
       [](Index r, Index c, double v) { return r < 2 && c >= 4 ? 0.0 : v; }},
  });
}

/// From 1 to 2 in 64 steps, from -16 to 16 in steps of 1/64: sums of few others by chance only.
double sixty_fourth(Index i) {
  const auto bits = static_cast<std::uint32_t>(i) * 2654435761u;
  return (static_cast<int>(bits >> 21) - 1024) / 64.0;
}

TEST(OutputValues, ThatWereNotClearedAreSums) {
  struct Sums {
    Find find;
    std::vector<Index> shape;
    std::function<void(float*)> edit;
    std::string said;
  };
  // Rows [begin, end) have added the row `by` on, as it is expected.
  const auto rows = [](Index columns, Index begin, Index end, Index by) {
    return [=](float* y) {
      for (Index i = begin * columns; i < end * columns; ++i)
        y[i] += static_cast<float>(sixty_fourth(i + by * columns));
    };
  };
  const auto running = [](Index n, Index from, Index by, double off = 0.0) {
    return [=](float* y) {
      for (Index i = from; i < n; ++i) y[i] += y[i - by];
      y[n - 1] += static_cast<float>(off);
    };
  };
  const auto tiles = [](Index columns, Index rows_added, Index by, Index odd = -1) {
    return [=](float* y) {
      for (Index i = 0; i < rows_added * columns; ++i) {
        if (i % columns >= by) y[i] += y[i - by];
      }
      if (odd >= 0) y[odd] += 1.0f;
    };
  };
  const auto odd_in = [](const std::function<void(float*)>& edit, Index at) {
    return [=](float* y) {
      edit(y);
      y[at] += 1.0f;
    };
  };
  const std::string cleared = ": accumulators that were not cleared";
  const auto added = [&](const std::string& place, const std::string& source) {
    return "rows.added: " + place + " of y hold their own sum and that of " + source + cleared +
           ", or a row added twice";
  };
  const auto totals = [](const std::string& each) {
    return "rows.running: every " + each + " of y holds its own sum and what came in the " + each +
           " before: running totals, sums that are not begun anew";
  };
  const std::string of_tiles = " of y hold their own sum and what came ";
  for (const Sums& s : std::vector<Sums>{
           {recover_added, {12, 20}, rows(20, 4, 8, -3), added("rows 4 to 7", "3 rows before")},
           {recover_added, {12, 20}, rows(20, 4, 8, 2), added("rows 4 to 7", "2 rows after")},
           {recover_added, {6, 20}, rows(20, 1, 6, -1), added("rows 1 to 5", "1 row before")},
           {recover_added, {6, 20}, rows(20, 0, 5, 1), added("rows 0 to 4", "1 row after")},
           {recover_added,
            {24, 20},
            [&](float* y) {
              rows(20, 4, 8, -3)(y);
              rows(20, 12, 17, 5)(y);
            },
            added("rows 4 to 7", "3 rows before") + " | " + added("rows 12 to 16", "5 rows after")},
           {recover_added,
            {4, 3, 20},
            rows(20, 6, 12, -6),
            added("all of experts 2 to 3", "2 experts before")},
           {recover_added,
            {4, 3, 20},
            rows(20, 6, 12, -2),
            added("all of experts 2 to 3", "2 rows before")},
           {recover_added,
            {12, 20},
            odd_in(rows(20, 4, 10, -3), 182),
            added("rows 4 to 8", "3 rows before")},
           {recover_added,
            {60, 8},  // only the last of many rows that differ are sums
            [&](float* y) {
              for (Index i = 0; i < 320; ++i) y[i] = static_cast<float>(300 + sixty_fourth(7 * i));
              rows(8, 40, 48, 12)(y);
            },
            added("rows 40 to 47", "12 rows after")},
           {recover_added, {12, 20}, rows(20, 4, 7, 1), ""},   // three rows
           {recover_added, {12, 3}, rows(3, 1, 10, 1), ""},    // three columns
           {recover_added, {12, 20}, rows(20, 2, 10, 0), ""},  // a factor of two
           {recover_added, {12, 20}, odd_in(rows(20, 4, 8, -3), 119), ""},
           {recover_added,
            {8, 24},
            tiles(24, 8, 8),
            "columns.added: columns 8 to 23" + of_tiles + "8 columns before" + cleared},
           {recover_added,
            {8, 1536},
            tiles(1536, 8, 512),
            "columns.added: columns 512 to 1535" + of_tiles + "512 columns before" + cleared},
           {recover_added, {10, 16}, tiles(16, 7, 8), ""},  // 56 elements
           {recover_added, {12, 16}, tiles(16, 12, 8, 3), ""},
           {recover_added, {12, 16}, running(192, 8, 8), ""},  // from row to row
           {recover_added, {12, 16}, tiles(16, 12, 8, 191), ""},
           {recover_running, {8, 20}, running(160, 20, 20), totals("row")},
           {recover_running, {4, 3, 20}, running(240, 60, 60), totals("expert")},
           {recover_running, {4, 3, 20}, running(240, 20, 20), ""},
           {recover_running, {2, 40}, running(80, 40, 40), totals("row")},
           {recover_running, {2, 31}, running(62, 31, 31), ""},
           {recover_running, {8, 20}, running(160, 20, 20, 1.0), ""},
           {recover_running, {8, 20}, odd_in(running(160, 20, 20), 0), ""}}) {
    const Tensor wanted = filled<float>(Dtype::f32, s.shape, sixty_fourth);
    Tensor actual = wanted;
    s.edit(actual.as<float>());
    Came came(wanted, actual);
    EXPECT_EQ(said(came.output, s.find), s.said);
    Came explained(wanted, std::move(actual));
    if (s.find != recover_running || s.said.empty()) continue;
    explained.output.settle(explained.output.owed * explained.output.columns - 1);
    EXPECT_EQ(said(explained.output, s.find), "") << "where something is explained";
  }
}

TEST(OutputValues, ThatAreSumsHaveToShow) {
  // Rows 8 to 11 are a rounding away, and in a quarter of them rows 0 to 3 were added.
  const auto first = [](Index r, Index c) { return c < 5 ? static_cast<double>(r + 2) : 0.0; };
  expect_said({{recover_added,
                Dtype::f32,
                {12, 20},
                [=](Index r, Index c, double v) {
                  return r < 4 ? first(r, c) : r < 8 ? v : (v + first(r - 8, c)) * (1 + 0x1p-23);
                },
                "",
                [=](Index r, Index c, double v) { return r < 4 ? first(r, c) : v; }}});
  // In half of row 1 what is added is nothing; rows of four columns tell which was added.
  const auto rows = [](double added, double step) {
    const auto value = [=](bool came) {
      return [=](Index r, Index c, double v) {
        if (r < 4) return c < 9 ? added * v : v;
        return r >= 8 ? v : came ? v + (c < 9 ? added : 1.0) * number((r - 4) * 12 + c) + step : v;
      };
    };
    Came came(numbers(Dtype::bf16, {12, 12}, value(false)),
              numbers(Dtype::bf16, {12, 12}, value(true)));
    return said(came.output, recover_added) != "";
  };
  EXPECT_TRUE(rows(1.0, 0.0));
  EXPECT_FALSE(rows(1.0, 0x1p-4)) << "more than roundings away";
  EXPECT_FALSE(rows(0x1p-20, 0.0)) << "most of what is added is lost";
}

/// "id: sentence" where words of bits came as others, in rows of so many.
std::string of_words(Dtype dtype, const Bits& wanted, const Bits& actual, Index columns = 0) {
  const auto n = static_cast<Index>(wanted.size());
  const std::vector<Index> shape{columns == 0 ? 1 : n / columns, columns == 0 ? n : columns};
  Came came(of_bits(dtype, shape, wanted), of_bits(dtype, shape, actual));
  return said(came.output, recover_mapped);
}

std::string of_floats(const std::vector<float>& wanted, const std::function<double(double)>& f) {
  Bits from;
  Bits to;
  for (const float v : wanted) from.push_back(std::bit_cast<std::uint32_t>(v));
  for (const float v : each_of(wanted, f)) to.push_back(std::bit_cast<std::uint32_t>(v));
  return of_words(Dtype::f32, from, to);
}

std::vector<float> with(std::vector<float> values, const std::vector<float>& more) {
  values.insert(values.end(), more.begin(), more.end());
  return values;
}

TEST(OutputValues, AreAKnownFunction) {
  const auto nan = static_cast<float>(kNan);
  const auto cut = [](int bits) {
    return [=](double v) { return std::ldexp(std::trunc(std::ldexp(v, bits)), -bits); };
  };
  const auto rounded = [](double v) { return std::ldexp(std::nearbyint(std::ldexp(v, 7)), -7); };
  const auto clamp = [](double v) { return v > 4.5 ? 4.5 : v < -4.5 ? -4.5 : v; };
  const auto above = [](double v) { return v > 4.5 ? 4.5 : v; };
  const std::vector<float> far{10, 11, 12, 13, 14, 15, 16, 17, 1, -1};
  const std::vector<float> negative{-1, -2, -3, -4, -5, -6, -7, -8};
  const std::string clamped = "value.clamped: y: values are clamped ";
  struct Function {
    std::vector<float> wanted;
    std::function<double(double)> f;
    std::string said;
  };
  for (const Function& row : std::vector<Function>{
           {{-0.0f, 1.0f, -1.0f, -0.0f},
            [](double v) { return v == 0.0 ? 0.0 : v; },
            "value.minus_zero: y: negative zeros lose their sign"},
           {{nan, 1.0f, -2.0f, nan},
            [](double v) { return std::isnan(v) ? 0.0 : v; },
            "value.nan_zero: y: NaN is written as zero"},
           {with(negative, {1, 3, -nan}), [](double v) { return v < 0.0 ? 0.0 : v; },
            "value.relu: y: negative values are written as zero (ReLU)"},
           {some_numbers(8), [](double v) { return 1.0f / static_cast<float>(v); },
            "value.reciprocal: y: values are 1 over what is expected"},
           {some_numbers(7), [](double v) { return 1.0f / static_cast<float>(v); }, ""},
           {{-1.1f, 2.3f, -3.3f},
            [](double v) { return std::abs(v); },
            "value.sign_lost: y: signs are lost"},
           {some_numbers(8), [](double v) { return -v; },
            "value.negated: y: every value is negated"},
           {with(far, {-20, 2}), clamp, clamped + "at 4.5"},
           {with(far, {-20, nan}), above, clamped + "above at 4.5, and not on the other side"},
           {each_of(with(far, {-20, 2}), [](double v) { return -v; }),
            [](double v) { return v < -4.5 ? -4.5 : v; },
            clamped + "below at -4.5, and not on the other side"},
           {{1.5f, 2.5f}, [](double) { return 0.0; }, ""},
           {with(some_numbers(8), {nan, 0.0f, -0.0f, 0x1p-125f}), [](double v) { return v / 2; },
            "value.power_of_2: y: every value is multiplied by 2^-1"},
           {with(some_numbers(8), {0x1p-126f}), [](double v) { return v / 2; }, ""},  // subnormal
           {{1.3f, 2.7f, 5.1f, 10.3f, 20.7f, 40.9f, 90.1f, 170.3f, 0x1p-126f},
            [](double v) { return v == 0x1p-126 ? 0.0 : v / 2; },
            ""},  // flushed
           {{1.3f, 2.7f, 5.1f, 10.3f, 20.7f, 40.9f, 90.1f, 170.3f, 300.7f},
            [](double v) { return std::exp2(std::ilogb(v)); },
            ""},  // no fraction is left
           {with(far, {-2, -nan}),
            [](double v) { return std::isnan(v) ? -4.5
                                  : v > 4.5     ? 4.5
                                                : v; }, clamped + "at 4.5"},
           {some_numbers(8), [](double v) { return v * 0x1p20; },
            "value.power_of_2: y: every value is multiplied by 2^20"},
           {some_numbers(7), [](double v) { return v * 2; }, ""},
           {some_numbers(9), [](double v) { return v * 3; }, ""},
           {some_numbers(10), [](double v) { return v < 0 ? 2 * v : 4 * v; }, ""},
           {some_numbers(24), cut(7), "value.truncated: y: values are cut to 7 fraction bits"},
           {some_numbers(24), cut(22), "value.truncated: y: values are cut to 22 fraction bits"},
           {with(some_numbers(24), {1.00390625f, 1.01171875f}), rounded,
            "value.rounded: y: values are rounded to 7 fraction bits on the way"},
           {some_numbers(7), cut(7), ""}}) {
    EXPECT_EQ(of_floats(row.wanted, row.f), row.said);
  }
  const std::string flushed = "value.subnormals_flushed: y: subnormal values are flushed to zero";
  const std::string zero = "value.subnormals_zero: y: subnormal values are flushed to +0";
  for (const auto& [dtype, fraction] : {std::pair{Dtype::f64, 52},
                                        {Dtype::f32, 23},
                                        {Dtype::bf16, 7},
                                        {Dtype::f16, 10},
                                        {Dtype::e4m3, 3},
                                        {Dtype::e5m2, 2},
                                        {Dtype::e4m3fnuz, 3},
                                        {Dtype::e5m2fnuz, 2}}) {
    const std::uint64_t one = std::uint64_t{1} << fraction;
    const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(dtype) - 1);
    EXPECT_EQ(of_words(dtype, {one, 1, one - 1, one + 1}, {one, 0, 0, one + 1}), flushed);
    EXPECT_EQ(of_words(dtype, {sign | 1, 1, sign | one}, {0, 0, sign | one}), zero);
  }
  EXPECT_EQ(of_words(Dtype::f32, {0xBF812345, 0xC0012345, 0x7FC00000},
                     {0x3F812345, 0x40012345, 0xFFC00001}),
            "value.sign_lost: y: signs are lost")
      << "beside any NaN";
  EXPECT_EQ(of_words(Dtype::f32, {0x80000001, 1, 0x3F800000}, {0x80000000, 0, 0x3F800000}),
            flushed);
}

TEST(OutputValues, AreTheSameWordsWithOtherBits) {
  const Bits bytes{0x12, 0x34, 0xF0, 0x07, 0x9A, 0x5C, 0x61, 0x2E};
  const auto each = [](Bits words, const std::function<std::uint64_t(std::uint64_t)>& f) {
    for (std::uint64_t& w : words) w = f(w);
    return words;
  };
  const auto flip = [](std::uint64_t mask) { return [=](std::uint64_t w) { return w ^ mask; }; };
  const auto nibbles = [](std::uint64_t w) { return w % 16 * 16 + w / 16; };
  const Bits seven(bytes.begin(), bytes.end() - 1);
  EXPECT_EQ(of_words(Dtype::e4m3, bytes, each(bytes, nibbles)),
            "value.nibbles: y: the nibbles of every byte are exchanged");
  EXPECT_EQ(of_words(Dtype::u8, seven, each(seven, nibbles)), "");
  for (const Dtype dtype : {Dtype::u16, Dtype::bf16, Dtype::i32, Dtype::f32, Dtype::i64}) {
    Bits words;
    Bits turned;
    for (std::uint64_t w = 1; w < 9; ++w) {
      words.push_back(w * 0x9E3779B97F4A7C15);
      std::uint64_t& to = turned.emplace_back();
      for (std::size_t b = 0; b < size_of(dtype); ++b)
        to = to << 8 | (words.back() >> (8 * b) & 255);
    }
    EXPECT_EQ(of_words(dtype, words, turned),
              "value.bytes: y: the bytes of every element are exchanged");
  }
  EXPECT_EQ(of_words(Dtype::u16, bytes, each(bytes, flip(0x24))),
            "bits.flipped: y: the same bits are flipped everywhere");
  EXPECT_EQ(of_words(Dtype::u16, seven, each(seven, flip(0x24))), "");
  const std::string high = "value.offset: y: every number is 3 too high";
  EXPECT_EQ(of_words(Dtype::i32, {5, 9, 12}, {8, 12, 15}), high);
  EXPECT_EQ(
      of_words(Dtype::i32, {5, 6, 17, 18, 70, 81, 92, 113}, {8, 9, 20, 21, 73, 97, 220, 520}, 4),
      "value.offset: row 0 of y: every number is 3 too high");
  EXPECT_EQ(
      of_words(Dtype::i32, {5, 6, 17, 18, 70, 81, 92, 113}, {8, 9, 20, 21, 777, 97, 220, 520}, 4),
      "")
      << "half agree";
  EXPECT_EQ(of_words(Dtype::e8m0, {120, 130, 127, 99}, {118, 128, 125, 97}),
            "scale.exponent: y: every scale byte is 2 too low");
}

TEST(OutputValues, WithOneBitFlippedMaySayMore) {
  const Bits codes{0xB1, 0xB2, 0xB3, 0x34, 0xB5, 0xB6, 0x37, 0x38, 0xB9, 0xBA, 0x3B, 0x3C};
  const auto turned = [&](const std::vector<std::size_t>& at) {
    Bits actual = codes;
    for (const std::size_t i : at) actual[i] ^= 0x80;
    return of_words(Dtype::e4m3, codes, actual, 4);
  };
  EXPECT_EQ(of_words(Dtype::u8, {5, 9, 16, 33, 8}, {5, 1, 24, 33, 0}),
            "bit.flipped: bit 3 is flipped in elements 1 to 2 and 4 of y");
  EXPECT_EQ(of_words(Dtype::u8, {5, 9, 16, 33}, {5, 1, 26, 33}), "") << "two bits";
  EXPECT_EQ(of_words(Dtype::u8, {5, 9, 16, 33}, {5, 1, 18, 33}), "") << "others";
  EXPECT_EQ(of_words(Dtype::f32, {0x3F800001, 0x40000002}, {0x3F800000, 0x40000002}), "")
      << "a rounding";
  EXPECT_EQ(of_words(Dtype::i32, {5, 9, 16}, {5, 9, 24}), "") << "a number";
  EXPECT_EQ(of_words(Dtype::u8, {5, 13, 21, 40}, {13, 5, 21, 40}),
            "row.reordered: values change places within their rows in elements 0 to 1 of y");
  EXPECT_EQ(of_words(Dtype::u8, {5, 2, 3, 4, 13, 9, 21, 40}, {13, 2, 3, 4, 5, 9, 21, 40}, 4),
            "bit.flipped: bit 3 is flipped in column 0 of y");
  EXPECT_EQ(turned({0, 1, 4, 8}), "value.sign_lost: signs are lost in columns 0 to 1 of y");
  EXPECT_EQ(turned({0, 3, 4, 8}), "value.negated: signs are turned in columns 0 and 3 of y");
  EXPECT_EQ(turned({0, 1, 4}),
            "bit.flipped: bit 7 is flipped in columns 0 to 1 of rows 0 to 1 of y");
  Came came(of_bits(Dtype::u8, {1, 4}, {5, 9, 16, 33}), of_bits(Dtype::u8, {1, 4}, {6, 1, 24, 33}));
  came.output.settle(0);
  EXPECT_EQ(said(came.output, recover_mapped),
            "bit.flipped: bit 3 is flipped in elements 1 to 2 of y");
  EXPECT_EQ(said(came.output, recover_mapped), "") << "nothing is left";
}

}  // namespace
}  // namespace mxo

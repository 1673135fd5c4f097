// The right values elsewhere: columns exchanged, rows and runs that moved, another stride; and
// which are too small, too irregular or too likely by chance for a name.
#include "tests/golden/places_said.h"

namespace mxo {
namespace {

using namespace places_said;

TEST(OutputMoves, OfColumnsAreExchangedOrShifted) {
  const auto shift = [](Index d) {
    return of_columns(8, [d](Index, Index c) { return c >= 2 && c <= 5 ? c + d : c; });
  };
  const std::string exchanged = "columns.exchanged: ";
  const std::string shifted = "columns.shifted: columns ";
  const std::string four =
      "columns 0 and 1, columns 2 and 3, columns 4 and 5, columns 6 and 7 and 2 more pairs of y";
  expect_said(
      recover_exchanged,
      {
          {{5, 8}, pair(8, 2, 6), exchanged + "columns 2 and 6 of y change places"},
          {{3, 16},
           of_columns(16, [](Index, Index c) { return c < 12 ? c ^ 1 : c; }),
           exchanged + four + " change places"},
          {{8, 4},
           of_columns(4, [](Index r, Index c) { return r < 5 ? c ^ 2 : c; }),
           exchanged + "columns 0 and 2, columns 1 and 3 of rows 0 to 4 of y change places"},
          {{5, 8}, of_columns(8, [](Index, Index c) { return c == 2 ? 6 : c; }), ""},
          {{5, 8},
           of_columns(8,
                      [](Index r, Index c) {
                        return r == 3 && c == 2 ? -1 : c == 2 || c == 6 ? 8 - c : c;
                      }),
           ""},
          // In one row by chance, unless they are neighbours.
          {{2, 8}, pair(8, 3, 4, 1), exchanged + "columns 3 and 4 of row 0 of y change places"},
          {{2, 8}, pair(8, 3, 5, 1), ""},
          {{1, 8}, pair(8, 3, 4), ""},
          {{4, 8}, shift(1), shifted + "2 to 5 of y hold those 1 after"},
          {{4, 8}, shift(-2), shifted + "2 to 5 of y hold those 2 before"},
          {{4, 8},
           of_columns(8, [](Index, Index c) { return c < 2 ? c + 6 : c; }),
           shifted + "0 to 1 of y hold those 6 after"},
          {{4, 8}, of_columns(8, [](Index, Index c) { return (c + 1) % 8; }), ""},
          {{3, 8},
           of_columns(8, [](Index, Index c) { return c / 2 == 1 ? c + 1 : c; }),
           ""},  // six elements
      });
  // Slots of tokens, each in its own order.
  const auto slots = [](Index tokens, Index shuffled, const std::string& name) {
    const From from =
        of_columns(4, [=](Index r, Index c) { return r < shuffled ? (c + r % 3 + 1) % 4 : c; });
    Differing got = got_from({tokens, 4}, from, {"any", {}, {}}, name);
    return said(got.output, recover_exchanged);
  };
  const std::string within = "row.reordered: values change places within their rows in ";
  EXPECT_EQ(slots(6, 6, "experts"), within + "all of experts");
  EXPECT_EQ(slots(6, 4, "top_weights"), within + "rows 0 to 3 of top_weights");
  EXPECT_EQ(slots(6, 3, "experts"), "");
  EXPECT_EQ(slots(6, 6, "y"), "");
  Differing one = got_from({3, 8}, pair(8, 3, 5, 1), {"any", {}, {}}, "experts");
  EXPECT_EQ(said(one.output, recover_exchanged),
            exchanged + "slots 3 and 5 of row 0 of experts change places");
}

TEST(OutputMoves, OfRowsThatMovedAreNamedByDistance) {
  const auto tile = [](Index columns, Index width, Index by) {
    return [=](Index i) { return i / columns < 16 && i % columns / width == 1 ? i + by : i; };
  };
  const auto four = [](Index r) {
    return r < 20 ? r + 40 : r < 30 ? r + 39 : r < 36 ? r + 38 : r == 36 ? 80 : r;
  };
  const std::string is = "rows.shifted: ";
  const std::string part = is + "columns 32 to 63 of rows 0 to 15 of y hold ";
  expect_said(
      recover_moved,
      {
          {{64, 8},
           of_rows(8, [](Index r) { return r >= 40 && r < 50 ? r - 20 : r; }),
           is + "rows 40 to 49 of y hold the rows 20 before them"},
          {{64, 8},
           of_rows(8, [](Index r) { return r == 3 ? 9 : r; }),
           is + "row 3 of y holds the row 6 after it"},
          {{64, 8},
           of_rows(8, [](Index r) { return r >= 10 && r < 20 ? r - 1 : r; }),
           is + "rows 10 to 19 of y each hold the row 1 before"},
          {{64, 8},
           of_rows(8, [](Index r) { return r < 45 && r >= 40 ? 7 : r; }),
           "rows.repeated: rows 40 to 44 of y repeat row 7"},
          {{64, 8},
           of_rows(8, [](Index r) { return (r * 37 + 11) % 64; }),
           "rows.permuted: all of y hold other rows of the output, in another order"},
          {{96, 8},
           of_rows(8, four),
           is + "rows 0 to 19 of y hold the rows 40 after them | " + is +
               "rows 20 to 29 of y hold the rows 39 after them | " + is +
               "rows 30 to 35 of y hold the rows 38 after them | " + is +
               "row 36 of y holds the row 44 after it"},
          {{256, 8},
           of_rows(
               8, [](Index r) { return r < 24   ? r + 60
                                       : r < 32 ? 140 + (r - 24) * (r - 24)
                                                : r; }),
           is +
               "rows 0 to 23 of y hold the rows 60 after them | "
               "rows.permuted: rows 24 to 31 of y hold other rows of the output, in another order"},
          {{128, 8},
           of_rows(8,
                   [](Index r) {
                     return r < 18 ? r + 60 : r < 21 ? r + 50 : r < 24 ? 100 + 3 * (r - 21) : r;
                   }),
           is + "rows 0 to 17 of y hold the rows 60 after them | " + is +
               "rows 18 to 20 of y hold the rows 50 after them | "
               "rows.permuted: rows 21 to 23 of y hold other rows of the output, in another order"},
          {{64, 4},
           of_rows(4, [](Index r) { return r < 20 ? r + 20 : r; }),
           is + "rows 0 to 19 of y hold the rows 20 after them"},
          {{64, 3}, of_rows(3, [](Index r) { return r < 20 ? r + 20 : r; }), ""},
          // Ten short rows of 32 that differ, each from elsewhere: alike by chance.
          {{64, 8},
           [](Index i) {
             const Index r = i / 8;
             return r % 2 != 0 ? i : r < 20 ? (60 - 3 * r) * 8 + i % 8 : -1;
           },
           ""},
          {{48, 96}, tile(96, 32, 16 * 96), part + "the rows 16 after them"},
          {{48, 96}, tile(96, 32, -32), part + "what is expected 32 elements before"},
          {{48, 48},
           tile(48, 16, 16 * 48),
           is + "columns 16 to 31 of rows 0 to 15 of y hold the rows 16 after them"},
          {{48, 48}, tile(48, 8, 16 * 48), ""},
          {{1, 96}, tile(96, 32, -32), ""},
          // A tile in a fiftieth of the differences.
          {{100, 64},
           [](Index i) { return i / 64 >= 50            ? i
                                : i / 64 == 0 && i < 32 ? i + 60 * 64 + 32
                                                        : -1; },
           ""},
      });
  Tensor all = counted({64, 8});
  for (Index r = 0; r < 64; r += 2) std::fill_n(all.as<std::int32_t>() + r * 8, 8, 1000 + r);
  Differing plain(all, taken(all, of_rows(8, [](Index r) { return r == 11 ? 20 : r; })));
  EXPECT_EQ(said(plain.output, recover_moved), "") << "one value";
  const auto copies = [](Index n) {
    const Tensor alike =
        taken(counted({64, 8}), of_rows(8, [n](Index r) { return r > 20 && r < 20 + n ? 20 : r; }));
    Differing got(alike, taken(alike, of_rows(8, [](Index r) { return r == 40 ? 21 : r; })));
    return said(got.output, recover_moved);
  };
  EXPECT_EQ(copies(4), is + "row 40 of y holds the row 17 before it") << "the nearest, row 23";
  EXPECT_EQ(copies(5), "") << "which, nobody can tell";
}

/// Scales [rows, columns] of which 4 values occur in no order and row r is row alike(r), where it
/// came as row from(r).
std::string of_short_rows(
    Index rows, Index columns, const From& from, const From& alike = [](Index r) { return r; }) {
  std::uint32_t state = 7;
  Tensor given = filled<std::uint8_t>(Dtype::e8m0, {rows, columns}, [&](Index) {
    state = state * 1664525u + 1013904223u;
    return 120 + (state >> 30);
  });
  const From same = of_rows(columns, alike);
  for (Index i = 0; i < rows * columns; ++i)
    given.as<std::uint8_t>()[i] = given.as<std::uint8_t>()[same(i)];
  const From source = of_rows(columns, from);
  Differing got(given, filled<std::uint8_t>(Dtype::e8m0, {rows, columns}, [&](Index i) {
                  return given.as<std::uint8_t>()[source(i)];
                }));
  return said(got.output, recover_moved_runs);
}

TEST(OutputMoves, OfShortRowsAreToldByRuns) {
  const std::string is = "rows.shifted: ";
  EXPECT_EQ(of_short_rows(64, 8, [](Index r) { return r < 48 ? r : r - 16; }),
            is + "rows 48 to 63 of y hold the rows 16 before them");
  EXPECT_EQ(of_short_rows(64, 4, [](Index r) { return (r + 32) % 64; }),
            is + "rows 32 to 63 of y hold the rows 32 before them | " + is +
                "rows 0 to 31 of y hold the rows 32 after them");
  EXPECT_EQ(of_short_rows(64, 15, [](Index r) { return r == 40 ? 41 : r; }),
            is + "row 40 of y holds the row 1 after it");
  EXPECT_EQ(of_short_rows(128, 1, [](Index r) { return r < 32 ? r + 64 : r; }),
            is + "rows 0 to 31 of y hold the rows 64 after them");
  EXPECT_EQ(of_short_rows(
                64, 8, [](Index r) { return r >= 24 && r < 32 ? r - 24 : r; },
                [](Index r) { return r >= 40 && r < 48 ? r - 40 : r; }),
            is + "rows 24 to 31 of y hold the rows 16 after them")
      << "the nearest of those that are alike";
  EXPECT_EQ(of_short_rows(64, 1, [](Index r) { return r < 8 ? r + 8 : r; }), "") << "chance";
  EXPECT_EQ(of_short_rows(64, 16, [](Index r) { return r < 32 ? r + 32 : r; }), "") << "long";
  EXPECT_EQ(
      of_short_rows(160, 8,
                    [](Index r) { return r / 32 == 4 ? r : r / 32 * 32 + (r + 3 + r / 32) % 32; }),
      "")
      << "at many distances";
}

TEST(OutputMoves, AtAnotherStrideAreNamed) {
  constexpr Index kColumns = 8;
  const auto written = [](Index start, Index stride) {
    return [=](Index i) {
      const Index r = (i - start) / stride;
      const Index c = (i - start) % stride;
      const bool is_in = i >= start && c < kColumns && start + r * stride + kColumns <= 160;
      return is_in ? r * kColumns + c : -1;
    };
  };
  const auto apart = [](Index n) {
    const bool rows = n % kColumns == 0;  // that may lie between them
    return std::string("rows.stride: rows of y ") + (rows ? "lie " : "are written ") +
           std::to_string(n) + " elements apart rather than 8" +
           (rows ? ", and what lies between them is no row" : "");
  };
  expect_said(recover_stride,
              {
                  {{20, 8}, written(0, 11), apart(11)},
                  {{20, 8}, written(3, 9), apart(9)},
                  {{20, 8}, written(0, 76), apart(76)},
                  {{20, 8}, written(0, 77), ""},  // no room for three
                  {{20, 8}, written(3, 8), ""},   // late
                  {{20, 8}, written(0, 24), apart(24)},
                  {{20, 8},
                   [&](Index i) { return i >= 152 ? i - 56 : written(0, 24)(i); },
                   ""},  // rows in another order
                  {{20, 8}, [&](Index i) { return i == 55 ? -1 : written(0, 11)(i); }, ""},
                  {{20, 3}, [&](Index i) { return i % 4 == 3 ? -1 : i / 4 * 3 + i % 4; }, ""},
              });
  // Each over the end of the one before.
  const auto over = [](Index stride, Index odd = -1) {
    return [=](Index i) {
      const Index r = std::min(i / stride, Index{19});
      return i == odd || i >= 19 * stride + 64 ? -1 : r * 64 + i - r * stride;
    };
  };
  const auto told = [](Index n, const char* noun, Index end) {
    return "rows.stride: rows of y are written " + std::to_string(n) + noun +
           " apart rather than 64, each over the end of the one before; what lies behind the last, "
           "from element " +
           std::to_string(end) + " on, is none of them";
  };
  expect_said(recover_stride, {
                                  {{20, 64}, over(1), told(1, " element", 83)},
                                  {{20, 64}, over(48), told(48, " elements", 976)},
                                  {{20, 64}, over(48, 300), ""},
                                  {{20, 64}, [&](Index i) { return i < 83 ? over(1)(i) : i; }, ""},
                              });
}

}  // namespace
}  // namespace mxo

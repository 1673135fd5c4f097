// The right values in another order: lanes, lines, axes, tiles; and which orders are too small, too
// irregular or too likely by chance for a name.
#include "tests/golden/places_said.h"

namespace mxo {
namespace {

using namespace places_said;

TEST(OutputPlaces, InAKnownOrderAreNamed) {
  std::vector<Places> table;
  for (const Index n : {2, 4, 8, 16, 32, 64, 128}) {
    const std::string every = std::to_string(n);
    const auto add = [&](const From& f, const std::string& words) {
      table.push_back({{2, 3 * n}, in_runs(n, f), "order." + words});
    };
    add([n](Index k) { return n - 1 - k; },
        "reversed_" + every + ": y: neighbours are reversed in runs of " + every);
    if (n == 2) continue;
    const std::string halves = ": y: the halves of every " + every + " neighbours are ";
    add([n](Index k) { return (k + n / 2) % n; },
        "exchanged_halves_" + every + halves + "exchanged");
    add([n](Index k) { return k % 2 * (n / 2) + k / 2; },
        "interleaved_" + every + halves + "interleaved");
    if (n == 4) continue;  // the same
    add([n](Index k) { return k < n / 2 ? 2 * k : 2 * k - n + 1; },
        "deinterleaved_" + every + ": y: even and odd ones of every " + every +
            " neighbours are set apart");
  }
  for (const Index by : {1, 2, 4, 8, 16, 32, 64, 128}) {
    const Index n = 2 * by + 3;
    const std::string words =
        "order.columns_shifted: y: each row is shifted by " + std::to_string(by);
    table.push_back(
        {{4, n}, in_runs(n, [=](Index k) { return (k + by) % n; }), words + " to the left"});
    table.push_back(
        {{4, n}, in_runs(n, [=](Index k) { return (k + n - by) % n; }), words + " to the right"});
  }
  for (const Index width : {2, 4, 8, 16, 32, 64, 128, 256}) {
    table.push_back(
        {{9 * width},
         [=](Index i) { return i % 9 * width + i / 9; },
         "order.transposed: y: it is written column-major, " + std::to_string(width) + " a row"});
  }
  for (const Index width : {4, 8, 16}) {
    table.push_back({{256 * width},
                     [=](Index i) { return tiled(i, width); },
                     "order.untiled: y: the rows of its matrix, " + std::to_string(width) +
                         " a row, take the place of 128x4 tiles"});
  }
  const std::string written = "order.transposed: y: it is written column-major";
  const std::string read = "order.untransposed: y: it is read column-major";
  const std::string tiles = "order.tiles: y: it is written in 128x4 tiles";
  const std::string untiled = "order.untiled: y: it is written as if its 128x4 tiles were rows";
  const auto turned = [](Index rows, Index columns) {
    return in_runs(rows * columns, [=](Index k) { return k % rows * columns + k / rows; });
  };
  const From to_tiles = in_runs(256 * 12, [](Index k) { return tiled(k, 12); });
  for (Places& row : std::vector<Places>{
           {{3, 12},
            in_runs(12, [](Index k) { return (k + 6) % 12; }),
            "order.halves: y: the halves of each row are exchanged"},
           {{3, 12},
            in_runs(12, [](Index k) { return k % 2 * 6 + k / 2; }),
            "order.interleaved: y: the halves of each row are interleaved"},
           {{5, 7}, turned(5, 7), written},
           {{5, 7}, turned(7, 5), read},
           {{3, 5, 7}, turned(5, 7), written},
           {{3, 5, 7}, turned(7, 5), read},
           {{3, 5, 7},
            of_rows(7, [](Index r) { return r % 3 * 5 + r / 3; }),
            "order.outer_exchanged: y: its first two axes are exchanged"},
           {{256, 12}, written_to(256 * 12, to_tiles), tiles},
           {{2, 256, 12}, written_to(2 * 256 * 12, to_tiles), tiles},
           {{2, 256, 12}, to_tiles, untiled},
           {{96, 16},
            [](Index i) { return i < 768 ? i ^ 1 : i ^ 7; },
            "order.reversed_2: rows 0 to 47 of y: neighbours are reversed in runs of 2 | "
            "order.reversed_8: y: neighbours are reversed in runs of 8"},
           {{4, 4},
            [](Index i) { return i < 8 ? i ^ 1 : i; },
            "order.reversed_2: rows 0 to 1 of y: neighbours are reversed in runs of 2"},
           // Too few, across rows, a width or a distance that nobody has.
           {{4, 4}, [](Index i) { return i < 4 ? i ^ 1 : i; }, ""},
           {{2, 12}, in_runs(8, [](Index k) { return 7 - k; }), ""},
           {{4, 14}, in_runs(14, [](Index k) { return (k + 3) % 14; }), ""},
           {{36}, [](Index i) { return i % 12 * 3 + i / 12; }, ""},
           {{128, 3}, [](Index i) { return 383 - i; }, ""}}) {
    table.push_back(row);
  }
  expect_said(recover_order, table);
}

TEST(OutputPlaces, LateOrEarlyAreNamed) {
  const auto by = [](Index d, Index n) {
    return [=](Index i) { return i + d < 0 || i + d >= n ? -1 : i + d; };
  };
  const auto words = [](const std::string& how) {
    return "elements.shifted: all of y is written " + how + ", across rows and tiles";
  };
  expect_said(
      shifted_output,
      {
          {{5, 9}, by(-2, 45), words("2 elements late (8 bytes)")},
          {{5, 9}, by(1, 45), words("1 element early (4 bytes)")},
          {{3, 100}, by(64, 300), words("64 elements early (256 bytes)")},
          {{3, 100}, by(65, 300), ""},
          {{6, 9}, by(-18, 54), ""},  // whole rows
          {{1, 25}, by(1, 25), words("1 element early (4 bytes)")},
          {{1, 24}, by(1, 24), ""},
          {{4, 11}, [](Index i) { return i == 20  ? -1
                                         : i < 42 ? i + 2
                                                  : -1; }, ""},
          {{4, 11}, [](Index i) { return i < 3 ? i : i - 3; }, words("3 elements late (12 bytes)")},
      });
}

TEST(OutputPlaces, OfLinesComeAgainEveryFew) {
  const From odd = in_runs(4, list_of({2, 0, 3, 1}));
  const From back = in_runs(4, [](Index k) { return 3 - k; });
  const std::string four = " in runs of 4 in the order ";
  struct Order {
    Index lines;
    Index width;
    From from;
    std::string words;
  };
  for (const Order& o : std::vector<Order>{
           {8, 3, [](Index i) { return i ^ 1; }, " in runs of 2 in the order 1, 0 (reversed)"},
           {8, 5, back, four + "3, 2, 1, 0 (reversed)"},
           {4, 5, back, four + "3, 2, 1, 0 (reversed)"},
           {10, 5, [&](Index i) { return i < 8 ? back(i) : i; }, four + "3, 2, 1, 0 (reversed)"},
           {8, 5, odd, four + "2, 0, 3, 1"},
           {8, 3, [](Index i) { return i & ~3; },
            four + "0, 0, 0, 0 (the first of each run for all of it)"},
           {4, 5, odd, ""},  // without a name, and once
           {7, 5, [&](Index i) { return i < 4 ? odd(i) : i; }, ""},
           {8, 3, [](Index) { return 0; }, ""},
           {8, 5, list_of({3, 2, 1, 0, 6, 4, 7, 5}), ""},
           {7, 5, [&](Index i) { return odd(i) < 7 ? odd(i) : i; }, ""},  // the second incomplete
           {2, 3, [](Index i) { return 1 - i; }, ""}}) {                  // six elements
    Differing rows = got_from({o.lines, o.width}, of_rows(o.width, o.from));
    Differing columns = got_from({o.width, o.lines},
                                 of_columns(o.lines, [&](Index, Index c) { return o.from(c); }));
    const auto words = [&](const std::string& lines) {
      return o.words.empty() ? "" : "order." + lines + ": y: " + lines + " are taken" + o.words;
    };
    EXPECT_EQ(said(rows.output, recover_row_order), words("rows"));
    EXPECT_EQ(said(columns.output, recover_column_order), words("columns"));
  }
  const Tensor alike =
      taken(counted({8, 5}), of_rows(5, [](Index r) { return std::min<Index>(r, 4); }));
  Differing once(alike, taken(alike, of_rows(5, [&](Index r) { return r < 4 ? odd(r) : r; })));
  EXPECT_EQ(said(once.output, recover_row_order), "") << "beside a run of lines that are alike";
  const auto but_in_row = [](Index row) {
    return of_columns(8, [row](Index r, Index c) { return r == row ? c : c ^ 1; });
  };
  expect_said(
      recover_column_order,
      {{{4, 8}, but_in_row(0), ""}, {{4, 8}, but_in_row(3), ""}, {{8, 4}, of_rows(4, odd), ""}});
}

TEST(OutputPlaces, OfAxesAreNamedByTheirOrder) {
  const auto bits = [](const std::vector<int>& source) {
    return in_runs(Index{1} << source.size(), [=](Index k) {
      Index from = 0;
      for (std::size_t b = 0; b < source.size(); ++b) from |= (k >> b & 1) << source[b];
      return from;
    });
  };
  const std::vector<int> tile{2, 3, 4, 5, 6, 7, 8, 0, 1};
  const auto as = [](const std::string& axes) { return "order.axes: y: it is written as " + axes; };
  expect_said(
      recover_axes,
      {
          {{8, 16}, bits({4, 5, 6, 0, 1, 2, 3}), as("[8, 16] with its axes in the order 1, 0")},
          {{512},
           bits({0, 1, 7, 8, 2, 3, 4, 5, 6}),
           as("[4, 32, 4] with its axes in the order 1, 0, 2")},
          {{64},
           bits({5, 4, 3, 2, 1, 0}),
           as("[2, 2, 2, 2, 2, 2] with its axes in the order 5, 4, 3, 2, 1, 0")},
          {{32}, bits({0, 1, 2, 4, 3}), as("[2, 2, 8] with its axes in the order 1, 0, 2")},
          {{16}, bits({0, 1, 3, 2}), ""},  // eight elements
          {{1536},
           bits(tile),
           "order.axes: tiles of 512 are written as [128, 4] with its axes in the order 1, 0, in "
           "elements 1 to 510, 513 to 1022 and 1025 to 1534 of y"},
          {{1536},
           [&](Index i) {
             return i < 1024 ? bits(tile)(i) : bits({0, 1, 3, 2, 4, 5, 6, 7, 8})(i);
           },
           ""},
          {{768},
           [&](Index i) {
             return i < 256 ? bits({7, 0, 1, 2, 3, 4, 5, 6})(i) : i;
           },
           ""},
          {{128}, bits({0, 0, 2, 3, 4, 5, 6}), ""},  // taken twice
          {{128},
           [&](Index i) {
             return i < 127 ? bits({4, 5, 6, 0, 1, 2, 3})(i) : -1;
           },
           ""},
      });
  // Elements 1 and 2 are alike: bits 0 and 1 fit in their own places until others are looked at.
  const auto given = filled<std::int32_t>(Dtype::i32, {64}, [](Index i) { return i == 2 ? 1 : i; });
  Differing behind(given, taken(given, bits({1, 0, 2, 3, 4, 5})));
  EXPECT_EQ(said(behind.output, recover_axes), as("[16, 2, 2] with its axes in the order 0, 2, 1"));
  // No order gives the upper half, and the lower one fits in any.
  const auto half =
      filled<std::int32_t>(Dtype::i32, {4096}, [](Index i) { return i < 2048 ? 0 : i; });
  Differing many(half, taken(half, [](Index i) { return i < 2048 ? i : 6142 - i; }));
  EXPECT_EQ(said(many.output, recover_axes), "") << "given up";
}

struct TileAt {
  Index row;
  Index column;
  Index height;
  Index width;
};

/// Tiles of rows of so many columns that were written column by column, or read so.
From turned(Index columns, const std::vector<TileAt>& tiles, bool written = true) {
  return [=](Index i) {
    for (const TileAt& t : tiles) {
      const Index r = i / columns - t.row;
      const Index c = i % columns - t.column;
      if (r < 0 || r >= t.height || c < 0 || c >= t.width) continue;
      const Index k = r * t.width + c;
      const Index from =
          written ? k % t.height * t.width + k / t.height : k % t.width * t.height + k / t.width;
      return (t.row + from / t.width) * columns + t.column + from % t.width;
    }
    return i;
  };
}

TEST(OutputPlaces, OfTilesAreTransposed) {
  const std::string id = "order.tiles_transposed: ";
  const auto but = [](const From& from, std::vector<Index> wrong) {
    return [=](Index i) {
      return std::find(wrong.begin(), wrong.end(), i) != wrong.end() ? -1 : from(i);
    };
  };
  expect_said(
      recover_tiles,
      {
          {{16, 16},
           turned(16, {{8, 4, 4, 4}}),
           id + "a tile of 4 x 4 is transposed, in columns 4 to 7 of rows 8 to 11 of y"},
          {{16, 16},
           turned(16, {{4, 8, 4, 8}}),
           id + "a tile of 4 x 8 is written column-major, in columns 8 to 15 of rows 4 to 7 of y"},
          {{16, 16},
           turned(16, {{4, 8, 4, 8}}, false),
           id + "a tile of 4 x 8 is read column-major, in columns 8 to 15 of rows 4 to 7 of y"},
          {{12, 12},
           but(turned(12, {{0, 0, 4, 4}, {4, 4, 4, 4}, {4, 8, 4, 4}, {8, 0, 4, 4}}),
               {91, 104, 136}),
           id + "3 tiles of 4 x 4 are transposed, in columns 0 to 3 and 8 to 11 of y"},
          {{9, 11},
           turned(11, {{2, 3, 3, 5}}),
           id + "a tile of 3 x 5 is written column-major, in columns 3 to 7 of rows 2 to 4 of y"},
          {{9, 11}, turned(11, {{0, 0, 3, 5}, {4, 5, 3, 5}}), ""},        // begin anywhere
          {{16, 16}, but(turned(16, {{8, 4, 4, 4}}), {8 * 16 + 4}), ""},  // a corner
          {{9, 9}, [](Index i) { return i >= 72 ? 152 - i : i; }, ""},    // one row
          {{2, 6, 8},
           turned(8, {{6, 0, 4, 4}, {6, 4, 4, 4}, {0, 0, 4, 4}}),
           id + "3 tiles of 4 x 4 are transposed, in rows 0 to 3 and 6 to 9 of y"},
          {{2, 6, 8}, turned(8, {{4, 0, 4, 4}, {8, 4, 4, 4}}), ""},  // of two matrices
      });
  Differing groups = got_from({12, 8}, turned(8, {{3, 0, 4, 4}, {7, 0, 4, 4}}));
  groups.output.ends = {3, 12};
  EXPECT_EQ(said(groups.output, recover_tiles).find(id + "tiles of 4 x 4 are transposed"), 0u);
  Differing whole = got_from({12, 8}, turned(8, {{4, 0, 4, 4}, {8, 0, 4, 4}}));
  whole.output.ends = {3, 12};
  EXPECT_EQ(said(whole.output, recover_tiles).find(id + "tiles of 4 x 4 are transposed"), 0u);
  // Four tiles in which two elements differ, or one in which six do, and two others.
  for (const Index numbers : {1, 3}) {
    const auto upper = [=](Index i) {
      return i < 16 && i % 4 > 0 && i % 4 <= numbers && (i < 4 || numbers == 1) ? i : 0;
    };
    const auto given = filled<std::int32_t>(Dtype::i32, {4, 16}, upper);
    Tensor actual =
        taken(given, turned(16, {{0, 0, 4, 4}, {0, 4, 4, 4}, {0, 8, 4, 4}, {0, 12, 4, 4}}));
    if (numbers == 3) actual.as<std::int32_t>()[62] = actual.as<std::int32_t>()[63] = 99;
    Differing few(given, std::move(actual));
    ASSERT_EQ(few.output.left, 8);
    EXPECT_EQ(said(few.output, recover_tiles), "") << numbers;
  }
  Differing explained = got_from({16, 16}, turned(16, {{8, 4, 4, 4}}));
  explained.output.mark_explained(9 * 16 + 4);
  EXPECT_EQ(said(explained.output, recover_tiles), "");
}

}  // namespace
}  // namespace mxo

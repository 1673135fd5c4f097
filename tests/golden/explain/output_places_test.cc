// The right values at other places of an output: what is said of each map of places, and which
// maps are too small, too irregular or too likely by chance for a name.
#include <algorithm>
#include <cstring>

#include "golden/explain/find/output/recover.h"
#include "tests/golden/claims_said.h"

namespace mxo {
namespace {

using Find = std::vector<Claim> (*)(Output&);
using From = std::function<Index(Index)>;

/// Numbers from 0, of which element i came as that at from(i), or as -1 - i where that is negative.
struct Places {
  Find find;
  std::vector<Index> shape;
  From from;
  std::string said;
};

Came came_from(const std::vector<Index>& shape, const From& from,
               const Call& call = {"any", {}, {}}, const std::string& name = "y") {
  return {counted(shape),
          filled<std::int32_t>(Dtype::i32, shape,
                               [&](Index i) {
                                 const Index at = from(i);
                                 return at < 0 ? -1 - i : at;
                               }),
          call, name};
}

void expect_said(const std::vector<Places>& table) {
  for (std::size_t n = 0; n < table.size(); ++n) {
    const Places& row = table[n];
    Came came = came_from(row.shape, row.from);
    EXPECT_EQ(said(came.output, row.find), row.said) << "row " << n;
  }
}

/// Place k of every run of n comes from f(k).
From in_runs(Index n, const From& f) {
  return [=](Index i) { return i / n * n + f(i % n); };
}
/// Row r of so many columns comes from row f(r).
From of_rows(Index columns, const From& f) {
  return [=](Index i) { return f(i / columns) < 0 ? -1 : f(i / columns) * columns + i % columns; };
}
/// Column c of row r comes from column f(r, c); negative: another number.
From of_columns(Index columns, const std::function<Index(Index, Index)>& f) {
  return [=](Index i) {
    const Index c = f(i / columns, i % columns);
    return c < 0 ? -1 : i / columns * columns + c;
  };
}
From pair(Index columns, Index a, Index b, Index rows = 1000) {
  return of_columns(columns, [=](Index r, Index c) {
    return r >= rows ? c : c == a ? b : c == b ? a : c;
  });
}
/// The value of an element, by where it was written: to(i) of element i.
From written_to(Index n, const From& to) {
  std::vector<Index> from(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) from[static_cast<std::size_t>(to(i))] = i;
  return [from](Index i) { return from[static_cast<std::size_t>(i)]; };
}
/// Where an element of a matrix of whole 128x4 tiles lies among them.
Index tiled(Index i, Index columns) {
  const Index row = i / columns;
  const Index tile = row / 128 * (columns / 4) + i % columns / 4;
  return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + i % columns % 4;
}
From list_of(std::vector<Index> list) {
  return [list](Index k) { return list[static_cast<std::size_t>(k)]; };
}

TEST(OutputPlaces, InAKnownOrderAreNamed) {
  std::vector<Places> table;
  for (const Index n : {2, 4, 8, 16, 32, 64, 128}) {
    const std::string every = std::to_string(n);
    const auto add = [&](const From& f, const std::string& words) {
      table.push_back({recover_order, {2, 3 * n}, in_runs(n, f), "order." + words});
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
    table.push_back({recover_order,
                     {4, n},
                     in_runs(n, [=](Index k) { return (k + by) % n; }),
                     words + " to the left"});
    table.push_back({recover_order,
                     {4, n},
                     in_runs(n, [=](Index k) { return (k + n - by) % n; }),
                     words + " to the right"});
  }
  for (const Index width : {2, 4, 8, 16, 32, 64, 128, 256}) {
    table.push_back(
        {recover_order,
         {9 * width},
         [=](Index i) { return i % 9 * width + i / 9; },
         "order.transposed: y: it is written column-major, " + std::to_string(width) + " a row"});
  }
  for (const Index width : {4, 8, 16}) {
    table.push_back({recover_order,
                     {256 * width},
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
           {recover_order,
            {3, 12},
            in_runs(12, [](Index k) { return (k + 6) % 12; }),
            "order.halves: y: the halves of each row are exchanged"},
           {recover_order,
            {3, 12},
            in_runs(12, [](Index k) { return k % 2 * 6 + k / 2; }),
            "order.interleaved: y: the halves of each row are interleaved"},
           {recover_order, {5, 7}, turned(5, 7), written},
           {recover_order, {5, 7}, turned(7, 5), read},
           {recover_order, {3, 5, 7}, turned(5, 7), written},
           {recover_order, {3, 5, 7}, turned(7, 5), read},
           {recover_order,
            {3, 5, 7},
            of_rows(7, [](Index r) { return r % 3 * 5 + r / 3; }),
            "order.outer_exchanged: y: its first two axes are exchanged"},
           {recover_order, {256, 12}, written_to(256 * 12, to_tiles), tiles},
           {recover_order, {2, 256, 12}, written_to(2 * 256 * 12, to_tiles), tiles},
           {recover_order, {2, 256, 12}, to_tiles, untiled},
           {recover_order,
            {96, 16},
            [](Index i) { return i < 768 ? i ^ 1 : i ^ 7; },
            "order.reversed_2: rows 0 to 47 of y: neighbours are reversed in runs of 2 | "
            "order.reversed_8: y: neighbours are reversed in runs of 8"},
           {recover_order,
            {4, 4},
            [](Index i) { return i < 8 ? i ^ 1 : i; },
            "order.reversed_2: rows 0 to 1 of y: neighbours are reversed in runs of 2"},
           // Too few, across rows, a width or a distance that nobody has.
           {recover_order, {4, 4}, [](Index i) { return i < 4 ? i ^ 1 : i; }, ""},
           {recover_order, {2, 12}, in_runs(8, [](Index k) { return 7 - k; }), ""},
           {recover_order, {4, 14}, in_runs(14, [](Index k) { return (k + 3) % 14; }), ""},
           {recover_order, {36}, [](Index i) { return i % 12 * 3 + i / 12; }, ""},
           {recover_order, {128, 3}, [](Index i) { return 383 - i; }, ""}}) {
    table.push_back(row);
  }
  expect_said(table);
}

TEST(OutputPlaces, OfPartAreMostOfItOrABlock) {
  // One reversed row in so many; rows in between came as other numbers.
  const auto part = [](Index rows, const std::function<bool(Index)>& fits) {
    Came came = came_from({rows, 2}, [&](Index i) { return fits(i / 2) ? i ^ 1 : -1; });
    const std::string text = said(came.output, recover_order);
    return text.substr(0, text.find(" of y"));
  };
  const std::string id = "order.reversed_2: rows 0 to ";
  EXPECT_EQ(part(40, [](Index r) { return r < 20; }), id + "19") << "half";
  EXPECT_EQ(part(41, [](Index r) { return r < 20; }), "");
  EXPECT_EQ(part(200, [](Index r) { return r < 32; }), id + "31") << "64 elements";
  EXPECT_EQ(part(200, [](Index r) { return r < 31; }), "");
  EXPECT_EQ(part(200, [](Index r) { return r < 34 && r != 9; }), "") << "in two runs";
  EXPECT_NE(part(24, [](Index r) { return r % 3 != 2; }), "") << "eight runs";
  EXPECT_EQ(part(27, [](Index r) { return r % 3 != 2; }), "");
  EXPECT_EQ(part(64, [](Index r) { return r % 4 < 2; }), id + "1 of every 4");
}

TEST(OutputPlaces, LateOrEarlyAreNamed) {
  const auto by = [](Index d, Index n) {
    return [=](Index i) { return i + d < 0 || i + d >= n ? -1 : i + d; };
  };
  const auto words = [](const std::string& how) {
    return "elements.shifted: all of y is written " + how + ", across rows and tiles";
  };
  expect_said({
      {shifted_output, {5, 9}, by(-2, 45), words("2 elements late (8 bytes)")},
      {shifted_output, {5, 9}, by(1, 45), words("1 element early (4 bytes)")},
      {shifted_output, {3, 100}, by(64, 300), words("64 elements early (256 bytes)")},
      {shifted_output, {3, 100}, by(65, 300), ""},
      {shifted_output, {6, 9}, by(-18, 54), ""},  // whole rows
      {shifted_output, {1, 25}, by(1, 25), words("1 element early (4 bytes)")},
      {shifted_output, {1, 24}, by(1, 24), ""},
      {shifted_output, {4, 11}, [](Index i) { return i == 20  ? -1
                                                     : i < 42 ? i + 2
                                                              : -1; }, ""},
      {shifted_output,
       {4, 11},
       [](Index i) { return i < 3 ? i : i - 3; },
       words("3 elements late (12 bytes)")},
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
    Came rows = came_from({o.lines, o.width}, of_rows(o.width, o.from));
    Came columns = came_from({o.width, o.lines},
                             of_columns(o.lines, [&](Index, Index c) { return o.from(c); }));
    const auto words = [&](const std::string& lines) {
      return o.words.empty() ? "" : "order." + lines + ": y: " + lines + " are taken" + o.words;
    };
    EXPECT_EQ(said(rows.output, recover_row_order), words("rows"));
    EXPECT_EQ(said(columns.output, recover_column_order), words("columns"));
  }
  const auto but_in_row = [](Index row) {
    return of_columns(8, [row](Index r, Index c) { return r == row ? c : c ^ 1; });
  };
  expect_said({{recover_column_order, {4, 8}, but_in_row(0), ""},
               {recover_column_order, {4, 8}, but_in_row(3), ""},
               {recover_column_order, {8, 4}, of_rows(4, odd), ""}});
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
  expect_said({
      {recover_axes,
       {8, 16},
       bits({4, 5, 6, 0, 1, 2, 3}),
       as("[8, 16] with its axes in the order 1, 0")},
      {recover_axes,
       {512},
       bits({0, 1, 7, 8, 2, 3, 4, 5, 6}),
       as("[4, 32, 4] with its axes in the order 1, 0, 2")},
      {recover_axes,
       {64},
       bits({5, 4, 3, 2, 1, 0}),
       as("[2, 2, 2, 2, 2, 2] with its axes in the order 5, 4, 3, 2, 1, 0")},
      {recover_axes,
       {32},
       bits({0, 1, 2, 4, 3}),
       as("[2, 2, 8] with its axes in the order 1, 0, 2")},
      {recover_axes, {16}, bits({0, 1, 3, 2}), ""},  // eight elements
      {recover_axes,
       {1536},
       bits(tile),
       "order.axes: tiles of 512 are written as [128, 4] with its axes in the order 1, 0, in "
       "elements 1 to 510, 513 to 1022 and 1025 to 1534 of y"},
      {recover_axes,
       {1536},
       [&](Index i) {
         return i < 1024 ? bits(tile)(i) : bits({0, 1, 3, 2, 4, 5, 6, 7, 8})(i);
       },
       ""},
      {recover_axes,
       {768},
       [&](Index i) {
         return i < 256 ? bits({7, 0, 1, 2, 3, 4, 5, 6})(i) : i;
       },
       ""},
      {recover_axes, {128}, bits({0, 0, 2, 3, 4, 5, 6}), ""},  // taken twice
      {recover_axes,
       {128},
       [&](Index i) {
         return i < 127 ? bits({4, 5, 6, 0, 1, 2, 3})(i) : -1;
       },
       ""},
  });
  // Elements 1 and 2 are alike: bits 0 and 1 fit in their own places until others are looked at.
  const auto given = filled<std::int32_t>(Dtype::i32, {64}, [](Index i) { return i == 2 ? 1 : i; });
  Came behind(given, taken(given, bits({1, 0, 2, 3, 4, 5})));
  EXPECT_EQ(said(behind.output, recover_axes), as("[16, 2, 2] with its axes in the order 0, 2, 1"));
  // No order gives the upper half, and the lower one fits in any.
  const auto half =
      filled<std::int32_t>(Dtype::i32, {4096}, [](Index i) { return i < 2048 ? 0 : i; });
  Came many(half, taken(half, [](Index i) { return i < 2048 ? i : 6142 - i; }));
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
  expect_said({
      {recover_tiles,
       {16, 16},
       turned(16, {{8, 4, 4, 4}}),
       id + "a tile of 4 x 4 is transposed, in columns 4 to 7 of rows 8 to 11 of y"},
      {recover_tiles,
       {16, 16},
       turned(16, {{4, 8, 4, 8}}),
       id + "a tile of 4 x 8 is written column-major, in columns 8 to 15 of rows 4 to 7 of y"},
      {recover_tiles,
       {16, 16},
       turned(16, {{4, 8, 4, 8}}, false),
       id + "a tile of 4 x 8 is read column-major, in columns 8 to 15 of rows 4 to 7 of y"},
      {recover_tiles,
       {12, 12},
       but(turned(12, {{0, 0, 4, 4}, {4, 4, 4, 4}, {4, 8, 4, 4}, {8, 0, 4, 4}}), {91, 104, 136}),
       id + "tiles of 4 x 4 are transposed, in columns 0 to 3 and 8 to 11 of y"},
      {recover_tiles,
       {9, 11},
       turned(11, {{2, 3, 3, 5}}),
       id + "a tile of 3 x 5 is written column-major, in columns 3 to 7 of rows 2 to 4 of y"},
      {recover_tiles, {9, 11}, turned(11, {{0, 0, 3, 5}, {4, 5, 3, 5}}), ""},  // begin anywhere
      {recover_tiles, {16, 16}, but(turned(16, {{8, 4, 4, 4}}), {8 * 16 + 4}), ""},  // a corner
      {recover_tiles, {9, 9}, [](Index i) { return i >= 72 ? 152 - i : i; }, ""},    // one row
      {recover_tiles,
       {2, 6, 8},
       turned(8, {{6, 0, 4, 4}, {6, 4, 4, 4}, {0, 0, 4, 4}}),
       id + "tiles of 4 x 4 are transposed, in rows 0 to 3 and 6 to 9 of y"},
      {recover_tiles, {2, 6, 8}, turned(8, {{4, 0, 4, 4}, {8, 4, 4, 4}}), ""},  // of two matrices
  });
  Came groups = came_from({12, 8}, turned(8, {{3, 0, 4, 4}, {7, 0, 4, 4}}));
  groups.output.ends = {3, 12};
  EXPECT_EQ(said(groups.output, recover_tiles).find(id + "tiles of 4 x 4 are transposed"), 0u);
  Came whole = came_from({12, 8}, turned(8, {{4, 0, 4, 4}, {8, 0, 4, 4}}));
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
    Came few(given, std::move(actual));
    ASSERT_EQ(few.output.left, 8);
    EXPECT_EQ(said(few.output, recover_tiles), "") << numbers;
  }
  Came explained = came_from({16, 16}, turned(16, {{8, 4, 4, 4}}));
  explained.output.settle(9 * 16 + 4);
  EXPECT_EQ(said(explained.output, recover_tiles), "");
}

TEST(OutputPlaces, OfColumnsAreExchangedOrShifted) {
  const auto shift = [](Index d) {
    return of_columns(8, [d](Index, Index c) { return c >= 2 && c <= 5 ? c + d : c; });
  };
  const std::string exchanged = "columns.exchanged: ";
  const std::string shifted = "columns.shifted: columns ";
  const std::string four =
      "columns 0 and 1, columns 2 and 3, columns 4 and 5, columns 6 and 7 and 2 more pairs of y";
  expect_said({
      {recover_exchanged, {5, 8}, pair(8, 2, 6), exchanged + "columns 2 and 6 of y change places"},
      {recover_exchanged,
       {3, 16},
       of_columns(16, [](Index, Index c) { return c < 12 ? c ^ 1 : c; }),
       exchanged + four + " change places"},
      {recover_exchanged,
       {8, 4},
       of_columns(4, [](Index r, Index c) { return r < 5 ? c ^ 2 : c; }),
       exchanged + "columns 0 and 2, columns 1 and 3 of rows 0 to 4 of y change places"},
      {recover_exchanged, {5, 8}, of_columns(8, [](Index, Index c) { return c == 2 ? 6 : c; }), ""},
      {recover_exchanged,
       {5, 8},
       of_columns(8, [](Index r,
                        Index c) { return r == 3 && c == 2   ? -1
                                          : c == 2 || c == 6 ? 8 - c
                                                             : c; }),
       ""},
      // In one row by chance, unless they are neighbours.
      {recover_exchanged,
       {2, 8},
       pair(8, 3, 4, 1),
       exchanged + "columns 3 and 4 of row 0 of y change places"},
      {recover_exchanged, {2, 8}, pair(8, 3, 5, 1), ""},
      {recover_exchanged, {1, 8}, pair(8, 3, 4), ""},
      {recover_exchanged, {4, 8}, shift(1), shifted + "2 to 5 of y hold those 1 after"},
      {recover_exchanged, {4, 8}, shift(-2), shifted + "2 to 5 of y hold those 2 before"},
      {recover_exchanged,
       {4, 8},
       of_columns(8, [](Index, Index c) { return c < 2 ? c + 6 : c; }),
       shifted + "0 to 1 of y hold those 6 after"},
      {recover_exchanged, {4, 8}, of_columns(8, [](Index, Index c) { return (c + 1) % 8; }), ""},
      {recover_exchanged,
       {3, 8},
       of_columns(8, [](Index, Index c) { return c / 2 == 1 ? c + 1 : c; }),
       ""},  // six elements
  });
  // Slots of tokens, each in its own order.
  const auto slots = [](Index tokens, Index shuffled, const std::string& name) {
    const From from =
        of_columns(4, [=](Index r, Index c) { return r < shuffled ? (c + r % 3 + 1) % 4 : c; });
    Came came = came_from({tokens, 4}, from, {"any", {}, {}}, name);
    return said(came.output, recover_exchanged);
  };
  const std::string within = "row.reordered: values change places within their rows in ";
  EXPECT_EQ(slots(6, 6, "experts"), within + "all of experts");
  EXPECT_EQ(slots(6, 4, "top_weights"), within + "rows 0 to 3 of top_weights");
  EXPECT_EQ(slots(6, 3, "experts"), "");
  EXPECT_EQ(slots(6, 6, "y"), "");
  Came one = came_from({3, 8}, pair(8, 3, 5, 1), {"any", {}, {}}, "experts");
  EXPECT_EQ(said(one.output, recover_exchanged),
            exchanged + "slots 3 and 5 of row 0 of experts change places");
}

TEST(OutputPlaces, OfRowsThatMovedAreNamedByDistance) {
  const auto tile = [](Index columns, Index width, Index by) {
    return [=](Index i) { return i / columns < 16 && i % columns / width == 1 ? i + by : i; };
  };
  const auto four = [](Index r) {
    return r < 20 ? r + 40 : r < 30 ? r + 39 : r < 36 ? r + 38 : r == 36 ? 80 : r;
  };
  const std::string is = "rows.shifted: ";
  const std::string part = is + "columns 32 to 63 of rows 0 to 15 of y hold ";
  expect_said({
      {recover_moved,
       {64, 8},
       of_rows(8, [](Index r) { return r >= 40 && r < 50 ? r - 20 : r; }),
       is + "rows 40 to 49 of y hold the rows 20 before them"},
      {recover_moved,
       {64, 8},
       of_rows(8, [](Index r) { return r == 3 ? 9 : r; }),
       is + "row 3 of y holds the row 6 after it"},
      {recover_moved,
       {64, 8},
       of_rows(8, [](Index r) { return r >= 10 && r < 20 ? r - 1 : r; }),
       is + "rows 10 to 19 of y each hold the row 1 before"},
      {recover_moved,
       {64, 8},
       of_rows(8, [](Index r) { return r < 45 && r >= 40 ? 7 : r; }),
       "rows.repeated: rows 40 to 44 of y repeat row 7"},
      {recover_moved,
       {64, 8},
       of_rows(8, [](Index r) { return (r * 37 + 11) % 64; }),
       "rows.permuted: all of y hold other rows of the output, in another order"},
      {recover_moved,
       {96, 8},
       of_rows(8, four),
       is + "rows 0 to 19 of y hold the rows 40 after them | " + is +
           "rows 20 to 29 of y hold the rows 39 after them | " + is +
           "rows 30 to 35 of y hold the rows 38 after them | " + is +
           "row 36 of y holds the row 44 after it"},
      {recover_moved,
       {256, 8},
       of_rows(8, [](Index r) { return r < 24   ? r + 60
                                       : r < 32 ? 140 + (r - 24) * (r - 24)
                                                : r; }),
       is + "rows 0 to 23 of y hold the rows 60 after them | "
            "rows.permuted: rows 24 to 31 of y hold other rows of the output, in another order"},
      {recover_moved,
       {128, 8},
       of_rows(8,
               [](Index r) {
                 return r < 18 ? r + 60 : r < 21 ? r + 50 : r < 24 ? 100 + 3 * (r - 21) : r;
               }),
       is + "rows 0 to 17 of y hold the rows 60 after them | " + is +
           "rows 18 to 20 of y hold the rows 50 after them | "
           "rows.permuted: rows 21 to 23 of y hold other rows of the output, in another order"},
      {recover_moved,
       {64, 4},
       of_rows(4, [](Index r) { return r < 20 ? r + 20 : r; }),
       is + "rows 0 to 19 of y hold the rows 20 after them"},
      {recover_moved, {64, 3}, of_rows(3, [](Index r) { return r < 20 ? r + 20 : r; }), ""},
      {recover_moved, {48, 96}, tile(96, 32, 16 * 96), part + "the rows 16 after them"},
      {recover_moved, {48, 96}, tile(96, 32, -32), part + "what is expected 32 elements before"},
      {recover_moved,
       {48, 48},
       tile(48, 16, 16 * 48),
       is + "columns 16 to 31 of rows 0 to 15 of y hold the rows 16 after them"},
      {recover_moved, {48, 48}, tile(48, 8, 16 * 48), ""},
      {recover_moved, {1, 96}, tile(96, 32, -32), ""},
      // A tile in a fiftieth of the differences.
      {recover_moved,
       {100, 64},
       [](Index i) { return i / 64 >= 50            ? i
                            : i / 64 == 0 && i < 32 ? i + 60 * 64 + 32
                                                    : -1; },
       ""},
  });
  Tensor all = counted({64, 8});
  for (Index r = 0; r < 64; r += 2) std::fill_n(all.as<std::int32_t>() + r * 8, 8, 1000 + r);
  Came plain(all, taken(all, of_rows(8, [](Index r) { return r == 11 ? 20 : r; })));
  EXPECT_EQ(said(plain.output, recover_moved), "") << "one value";
  const auto copies = [](Index n) {
    const Tensor alike =
        taken(counted({64, 8}), of_rows(8, [n](Index r) { return r > 20 && r < 20 + n ? 20 : r; }));
    Came came(alike, taken(alike, of_rows(8, [](Index r) { return r == 40 ? 21 : r; })));
    return said(came.output, recover_moved);
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
  Came came(given, filled<std::uint8_t>(Dtype::e8m0, {rows, columns}, [&](Index i) {
              return given.as<std::uint8_t>()[source(i)];
            }));
  return said(came.output, recover_moved_runs);
}

TEST(OutputPlaces, OfShortRowsAreToldByRuns) {
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

TEST(OutputPlaces, AtAnotherStrideAreNamed) {
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
    return "rows.stride: rows of y are written " + std::to_string(n) +
           " elements apart rather than 8";
  };
  expect_said({
      {recover_stride, {20, 8}, written(0, 11), apart(11)},
      {recover_stride, {20, 8}, written(3, 9), apart(9)},
      {recover_stride, {20, 8}, written(0, 76), apart(76)},
      {recover_stride, {20, 8}, written(0, 77), ""},  // no room for three
      {recover_stride, {20, 8}, written(3, 8), ""},   // late
      {recover_stride, {20, 8}, written(0, 24), apart(24)},
      {recover_stride,
       {20, 8},
       [&](Index i) { return i >= 152 ? i - 56 : written(0, 24)(i); },
       ""},  // rows in another order
      {recover_stride, {20, 8}, [&](Index i) { return i == 55 ? -1 : written(0, 11)(i); }, ""},
      {recover_stride, {20, 3}, [&](Index i) { return i % 4 == 3 ? -1 : i / 4 * 3 + i % 4; }, ""},
  });
}

TEST(OutputPlaces, AreNotSoughtWhereSomethingIsExplained) {
  const auto settled = [](Find find, const std::vector<Index>& shape, const From& from, Index at) {
    Came whole = came_from(shape, from);
    EXPECT_NE(said(whole.output, find), "");
    Came came = came_from(shape, from);
    came.output.settle(at);
    return said(came.output, find);
  };
  EXPECT_EQ(settled(
                shifted_output, {5, 9}, [](Index i) { return i < 2 ? -1 : i - 2; }, 3),
            "");
  EXPECT_EQ(settled(recover_row_order, {8, 8}, of_rows(8, [](Index r) { return r ^ 1; }), 9), "");
  EXPECT_EQ(settled(recover_exchanged, {5, 8}, pair(8, 2, 6), 2), "");
  EXPECT_EQ(settled(recover_axes, {64}, in_runs(64, [](Index k) { return k % 8 * 8 + k / 8; }), 1),
            "");
}

TEST(OutputPlaces, EndWithTheRowsOfGroups) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("group_ends", filled<std::int32_t>(Dtype::i32, {1}, [](Index) { return 6; }));
  const auto within = [&](Find find, const From& from) {
    Came came = came_from(
        {8, 9}, [&](Index i) { return i < 54 ? from(i) : -1; }, call);
    return said(came.output, find) != "";
  };
  EXPECT_TRUE(within(shifted_output, [](Index i) { return i < 52 ? i + 2 : -1; }));
  EXPECT_TRUE(within(recover_row_order, of_rows(9, [](Index r) { return r ^ 1; })));
  EXPECT_TRUE(within(recover_moved, of_rows(9, [](Index r) { return r < 3 ? r + 3 : r; })));
  EXPECT_FALSE(within(recover_moved, of_rows(9, [](Index r) { return r < 2 ? r + 6 : r; })));
}

}  // namespace
}  // namespace mxo

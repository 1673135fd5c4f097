// The right values elsewhere: in another order of lanes and axes, rows that moved, another stride;
// and which are too small, too irregular or too likely by chance for a name.
#include "golden/explain/find/output/recover.h"
#include "tests/golden/differing.h"

namespace mxo::output_moves_test {
namespace {

using Find = std::vector<Claim> (*)(Output&);
using From = std::function<Index(Index)>;

/// Numbers from 0, of which element i came as that at from(i), or as -1 - i where that is negative.
struct Places {
  std::vector<Index> shape;
  From from;
  std::string said;
};

void expect_said(Find find, const std::vector<Places>& table) {
  for (std::size_t n = 0; n < table.size(); ++n) {
    const Places& row = table[n];
    Differing got(counted(row.shape), filled<std::int32_t>(Dtype::i32, row.shape, [&](Index i) {
                    const Index at = row.from(i);
                    return at < 0 ? -1 - i : at;
                  }));
    EXPECT_EQ(said(got.output, find), row.said) << "row " << n;
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
         "order.transposed: y: written column-major, " + std::to_string(width) + " a row"});
  }
  for (const Index width : {4, 8, 16}) {
    table.push_back({{256 * width},
                     [=](Index i) { return tiled(i, width); },
                     "order.untiled: y: written row by row, " + std::to_string(width) +
                         " a row, rather than in 128x4 tiles"});
  }
  const std::string written = "order.transposed: y: written column-major";
  const std::string read = "order.untransposed: y: read column-major";
  const std::string tiles = "order.tiles: y: written in 128x4 tiles";
  const std::string untiled = "order.untiled: y: written as if its 128x4 tiles were rows";
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
          {{96, 8},
           of_rows(8, [](Index r) { return r < 36 ? r + 36 + r / 12 % 3 * 7 : r; }),
           "rows.permuted: rows 0 to 35 of y hold other rows of the output, in another order"},
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
  // Rows 40 and 50 are alike, and both came: neither was repeated.
  const Tensor two = taken(counted({64, 8}), of_rows(8, [](Index r) { return r == 50 ? 40 : r; }));
  Differing moved(two, taken(two, of_rows(8, [](Index r) { return r < 30 ? r + 30 : r; })));
  EXPECT_EQ(said(moved.output, recover_moved), is + "rows 0 to 29 of y hold the rows 30 after them")
      << "as often as expected";
  const auto copies = [](Index n) {
    const Tensor alike =
        taken(counted({64, 8}), of_rows(8, [n](Index r) { return r > 20 && r < 20 + n ? 20 : r; }));
    Differing got(alike, taken(alike, of_rows(8, [](Index r) { return r == 40 ? 21 : r; })));
    return said(got.output, recover_moved);
  };
  EXPECT_EQ(copies(4), is + "row 40 of y holds the row 17 before it") << "the nearest, row 23";
  EXPECT_EQ(copies(5), "") << "which, nobody can tell";
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
}  // namespace mxo::output_moves_test

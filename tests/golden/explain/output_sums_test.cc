// Rows, tiles and experts that hold their own sum and what was summed elsewhere.

#include "tests/golden/values_said.h"

namespace mxo {
namespace {

using namespace values_said;

/// From 1 to 2 in 64 steps, from -16 to 16 in steps of 1/64: sums of few others by chance only.
double sixty_fourth(Index i) {
  const auto bits = static_cast<std::uint32_t>(i) * 2654435761u;
  return (static_cast<int>(bits >> 21) - 1024) / 64.0;
}

TEST(OutputSums, OfWhatWasNotClearedAreNamed) {
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
  const auto added = [&](const std::string& place, const std::string& source) {
    return "rows.added: " + place + " of y hold their own sum and that of " + source;
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
            "columns.added: columns 8 to 23" + of_tiles + "8 columns before"},
           {recover_added,
            {8, 1536},
            tiles(1536, 8, 512),
            "columns.added: columns 512 to 1535" + of_tiles + "512 columns before"},
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
    const Tensor want = filled<float>(Dtype::f32, s.shape, sixty_fourth);
    Tensor actual = want;
    s.edit(actual.as<float>());
    Differing got(want, actual);
    EXPECT_EQ(said(got.output, s.find), s.said);
    Differing explained(want, std::move(actual));
    if (s.find != recover_running || s.said.empty()) continue;
    explained.output.mark_explained(explained.output.compared_rows * explained.output.columns - 1);
    EXPECT_EQ(said(explained.output, s.find), "") << "where something is explained";
  }
}

}  // namespace
}  // namespace mxo

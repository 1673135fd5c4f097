// How many tokens and columns, and in how many trials, rows of other tokens are sought.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/golden/slots_weighed.h"

namespace mxo {
namespace {

/// What is measured where slot 1 of the first tokens of both ranks takes the row of the next.
std::string of_next(Index tokens, Index slots, Index columns, Index failing, Index all_rows = 0) {
  SlotsWeighed b(tokens, slots, columns);
  std::vector<NamedTensors> rows;
  for (Index s = 0; s < slots; ++s) rows.push_back(rows_of_slot(*b.backend, b.call, s));
  std::vector<Output> all;
  for (Index p = 0; p < 2; ++p) {
    const std::string name = b.rank(p) + "out";
    BF16* out = b.came.at(name).as<BF16>();
    for (Index t = 0; t < (failing + 1 - p) / 2; ++t) {
      for (Index c = 0; c < columns; ++c) {
        float sum = 0.0f;
        for (Index s = 0; s < slots; ++s) {
          const BF16* row = rows[static_cast<std::size_t>(s)].at(name).as<BF16>();
          sum += b.given(p, t, s) * decode(row[(s == 1 ? t + 1 : t) * columns + c]);
        }
        out[t * columns + c] = encode<kBF16>(sum);
      }
    }
    all.push_back(make_output(b.call, name, b.owed.at(name), b.came.at(name)));
  }
  if (all_rows > 0) all.front().rows = all_rows - all.back().rows;
  std::vector<Hypothesis> list;
  add_measured_slot_rows(*b.backend, b.call, all, list);
  return list.empty() ? "none" : list.front().phrase;
}

TEST(SlotRowsSought, HaveSixteenColumns) {
  EXPECT_NE(of_next(12, 3, 16, 2), "none");
  EXPECT_EQ(of_next(12, 3, 15, 2), "none");
}

TEST(SlotRowsSought, AreOf256Tokens) {
  EXPECT_NE(of_next(132, 3, 16, 256).find("tokens 0 to 127 of rank1"), std::string::npos);
  EXPECT_EQ(of_next(132, 3, 16, 257), "none");
}

TEST(SlotRowsSought, AreOfSoManyTrials) {
  // Two tokens, four slots, and four slots of each row.
  EXPECT_NE(of_next(12, 4, 32, 2, Index{1} << 21), "none");
  EXPECT_EQ(of_next(12, 4, 32, 2, (Index{1} << 21) + 1), "none");
}

}  // namespace
}  // namespace mxo

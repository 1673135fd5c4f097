// Which blocks and lines are asked for their scales, and what else is asked of a product.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/golden/shown_scales.h"

namespace mxo {
namespace {

const std::string kOther = "x.scales=other";

bool says(const Call& given, const Call& taken, const std::string& name) {
  return find(shown(given, got_of(given, taken)), name) != nullptr;
}

TEST(AskedScales, OfRowsThatAreOneFactorEachHaveASource) {
  // Row r is 2^(r^2) times a line of four: the next row is each row times 2^(2r + 1).
  const Index blocks[] = {0, 3, 1, 5};
  Call call = product_call({10}, 40, 4);
  call.replace("x.scales", filled<std::uint8_t>(Dtype::e8m0, {10, 4}, [&](Index i) {
                 return 90 + i / 4 * (i / 4) + blocks[i % 4];
               }));
  const Call taken = edited<std::uint8_t>(call, "x.scales", [](std::uint8_t* s) {
    for (Index i = 0; i < 36; ++i) s[i] = s[i + 4];
  });
  EXPECT_TRUE(says(call, taken, "x.scales=source"));
  EXPECT_FALSE(says(call, taken, kOther));
}

TEST(AskedScales, OfColumnsOfSeveralExpertsAreSaidOnce) {
  Call call = product_call({12, 24}, 10, 4);
  call.replace("w.scales", filled<std::uint8_t>(Dtype::e8m0, {2, 10, 4}, [](Index i) {
                 return 120 + i % 4 * 3 + i / 4 % 3;
               }));
  const Call taken = shifted(call, "w.scales", [](Index i) {
    const Index column = i / 4 % 10;
    return column == 3 || column == 6 ? static_cast<int>(i * 5 % 7) - 9 : 0;
  });
  const std::vector<Hypothesis> list = shown(call, got_of(call, taken));
  const Hypothesis* other = find(list, "w.scales=other");
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->only.columns, (std::vector<Index>{3, 6}));
}

/// Codes of x that are those at from(row, k).
TEST(AskedScales, AreAskedForBlocksLinesAndDepthsToo) {
  struct Row {
    std::int32_t rows;
    Index (*from)(Index row, Index k);
    const char* name;
  };
  const Row rows[] = {
      // Seven rows: w has fewer sums in a column than its four blocks take, and x alone is
      // measured.
      {7, [](Index row, Index k) { return row * 128 + (k < 64 ? k ^ 32 : k); }, "x=blocks"},
      {10, [](Index row, Index k) { return std::min<Index>(row + 1, 9) * 128 + k; },
       "x.codes=lines"},
      {10, [](Index row, Index k) { return row * 128 + std::min<Index>(k + 1, 127); },
       "x.codes=depth_shifted"},
  };
  for (const Row& row : rows) {
    const Call call = product_call({row.rows}, 40, 4);
    const Tensor& given = call.input("x.codes");
    const Call taken = edited<std::uint8_t>(call, "x.codes", [&](std::uint8_t* c) {
      for (Index i = 0; i < given.elements(); ++i)
        c[i] = given.as<std::uint8_t>()[row.from(i / 128, i % 128)];
    });
    EXPECT_TRUE(says(call, taken, row.name)) << row.name;
  }
}

}  // namespace
}  // namespace mxo

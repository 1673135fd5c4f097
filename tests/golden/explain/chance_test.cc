// Bits of news in what came: by the share of each value, and against the places it may be from.
#include "golden/explain/confirm/score.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mxo {
namespace {

Tensor row_of(const std::vector<float>& values) {
  Tensor t(Dtype::f32, {1, static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), t.as<float>());
  return t;
}

TEST(Chance, CountsBitsByTheLargerShare) {
  const Tensor expected = row_of({1, 1, 1, 1, 2, 2, 3, 4});
  const Tensor actual = row_of({1, 1, 1, 2, 2, 2, 5, 4});
  const Output y = make_output(Call{"op", {}, {}}, "y", expected, actual);
  const Chance chance(y);
  const double all = std::log2(9.0);
  EXPECT_DOUBLE_EQ(chance.bits(0, 1), all - 2.0) << "four are expected";
  EXPECT_DOUBLE_EQ(chance.bits(5, 1), all - std::log2(3.0)) << "three came";
  EXPECT_DOUBLE_EQ(chance.bits(6, 1), all);
  EXPECT_DOUBLE_EQ(chance.bits(7, 1), all);
  EXPECT_DOUBLE_EQ(chance.bits(5, 3), 3.0 * all - std::log2(3.0));
  EXPECT_EQ(chance.bits(2, 0), 0.0);
}

TEST(Chance, TellsWhereNewsExceedsChoices) {
  std::vector<float> values(1024);
  std::iota(values.begin(), values.end(), 1.0f);
  const Tensor t = row_of(values);
  const Output y = make_output(Call{"op", {}, {}}, "y", t, t);
  const Chance chance(y);
  const double each = std::log2(1025.0);
  // Of k pieces of w elements: k w each > k log2(e failing / k) + log2(places) + 20.
  for (const Index width : {1, 2}) {
    for (const std::size_t failing : {4u, 40u}) {
      for (const std::size_t k : {3u, 4u}) {
        std::vector<Index> pieces(k);
        std::iota(pieces.begin(), pieces.end(), 7);
        const double n = static_cast<double>(k);
        const double room = n * static_cast<double>(width) * each -
                            n * std::log2(std::exp(1.0) * static_cast<double>(failing) / n) - 20.0;
        for (int p = 0; p < 60; ++p) {
          EXPECT_EQ(chance.tells(pieces, width, failing, std::size_t{1} << p), room > p)
              << width << " " << failing << " " << k << " " << p;
        }
      }
    }
  }
}

}  // namespace
}  // namespace mxo

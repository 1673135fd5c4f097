// How much of an output has to show that sums were added up, to the element.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/minifloat.h"
#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"
#include "tests/golden/small_products.h"

namespace mxo {
namespace {

using Values = std::function<double(Index)>;
using Claims = std::vector<Claim>;

/// Multiples of 1/64 below 16 that are sums of few others by chance only.
double owed(Index i) {
  const auto bits = static_cast<std::uint32_t>(i + 1) * 2654435761u;
  return (static_cast<int>(bits >> 21) - 1023.5) / 64.0;
}

Tensor of_f32(std::vector<Index> shape, const Values& value) {
  return filled<float>(Dtype::f32, std::move(shape), value);
}

Claims added(const std::vector<Index>& shape, const Values& expected, const Values& actual) {
  Came came(of_f32(shape, expected), of_f32(shape, actual));
  return recover_added(came.output);
}

/// Rows [4, 8) of 20 columns with those of four rows before, where other rows are as `expected`.
Claims four_rows(const Values& expected) {
  return added({12, 20}, expected, [&](Index i) {
    return i / 20 >= 4 && i / 20 < 8 ? expected(i) + expected(i - 80) : expected(i);
  });
}

TEST(AddedLimits, MoreThanHalfOfARowFails) {
  const auto columns = [](Index n) {
    return four_rows([n](Index i) { return i / 20 < 4 && i % 20 >= n ? 0.0 : owed(i); }).size();
  };
  EXPECT_EQ(columns(10), 0u);
  EXPECT_EQ(columns(11), 1u);
}

TEST(AddedLimits, RowsShowByTheirOwnSize) {
  // What is added is lost in rows 8 and on and in rows 1 and 2, but not in those that fail.
  EXPECT_EQ(four_rows([](Index i) {
              return i / 20 >= 8 || i / 20 == 1 || i / 20 == 2 ? 1e9 + owed(i) * 1e6 : owed(i);
            }).size(),
            1u);
}

TEST(AddedLimits, RowsBesideAreNotLookedAt) {
  const Claims claims = added({12, 8}, owed, [](Index i) {
    const bool sum = i / 8 >= 5 && i / 8 % 2 == 1;
    return sum ? owed(i) + owed(i - 40) : i / 8 == 2 ? -7.0 : owed(i);
  });
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].where.rows, "5, 7, 9, 11");
}

TEST(AddedLimits, TwoRowsTellTheDistance) {
  // Rows 10 and 11 fit two distances, of which the longer leaves out rows 8 and 9.
  const Values value = [](Index i) { return owed(i < 32 ? i % 16 : i); };
  const Claims claims =
      added({12, 8}, value, [&](Index i) { return i >= 64 ? value(i) + value(i - 64) : value(i); });
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].where.rows, "8-11");
  EXPECT_NE(claims[0].sentence.find("that of 8 rows before"), std::string::npos);
}

TEST(AddedLimits, TheFirstRowIsOneOfTwo) {
  // Rows 1 to 3 are alike, so that rows 10 and 11 are taken for sums with row 1.
  const Values value = [](Index i) { return owed(i >= 8 && i < 32 ? i % 8 + 8 : i); };
  const Claims claims =
      added({12, 8}, value, [&](Index i) { return i >= 64 ? value(i) + value(i - 64) : value(i); });
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].where.rows, "8-11");
}

TEST(AddedLimits, WhatIsAddedShowsByItsSize) {
  // Rows 1 and 2 are zero; rows 8 to 11 have added rows 4 to 7.
  const Values value = [](Index i) { return i / 20 == 1 || i / 20 == 2 ? 0.0 : owed(i); };
  const Claims claims = added(
      {12, 20}, value, [&](Index i) { return i >= 160 ? value(i) + value(i - 80) : value(i); });
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].where.rows, "8-11");
}

TEST(AddedLimits, ARowPastTheLastIsNone) {
  // Rows 0 to 3 hold the last four, and row 4 what nobody knows.
  const Claims claims = added({13, 8}, owed, [](Index i) {
    return i < 32 ? owed(i) + owed(i + 72) : i < 40 ? 300.0 + owed(3 * i) : owed(i);
  });
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].where.rows, "0-3");
}

TEST(AddedLimits, RowsOfAllTheOutputAreLookedAt) {
  // 48 rows fail, and the last eight are sums.
  const Claims claims = added({60, 8}, owed, [](Index i) {
    const Index row = i / 8;
    return row < 40 ? 300.0 + owed(7 * i) : row < 48 ? owed(i) + owed(i + 96) : owed(i);
  });
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].where.rows, "40-47");
}

/// Rows 4 to 7 in bf16: of eight columns `own` is owed, `came` came, and rows 0 to 3 are `more`;
/// four more columns tell these rows apart.
std::size_t in_bf16(float own, float more, float came) {
  const auto rows = [more](float in_eight, float in_four) {
    return filled<std::uint16_t>(Dtype::bf16, {8, 12}, [=](Index i) {
      const Index row = i / 12;
      const bool is_mark = i % 12 - 8 == row % 4;
      const float value = i % 12 < 8 ? (row < 4 ? more : in_eight)
                          : is_mark  ? (row < 4 ? 64.0f : in_four)
                                     : 0.0f;
      return encode<kBF16>(value).bits;
    });
  };
  Came tensors(rows(own, 0.0f), rows(came, 64.0f));
  return recover_added(tensors.output).size();
}

TEST(AddedLimits, ThreeRoundingsAreAllowed) {
  // 1 - (255 - 256) is 2, and so is 2^-8 (255 + 256 + 1).
  EXPECT_EQ(in_bf16(255.0f, -256.0f, 1.0f), 1u);
  EXPECT_EQ(in_bf16(255.0f, -256.0f, 1.0078125f), 0u);
}

TEST(AddedLimits, MoreThanFourRoundingsShow) {
  EXPECT_EQ(in_bf16(64.0f, 1.0f, 65.0f), 0u);
  EXPECT_EQ(in_bf16(64.0f, 1.0078125f, 65.0f), 1u);
}

/// Tiles of 8 by 8, the right one with what came in the left; `quiet` elements are so large that
/// what was added is their last bit.
Claims tiles(Index quiet, double first = 0.0) {
  const auto is_quiet = [quiet](Index i) { return i / 16 * 8 + i % 8 < quiet; };
  const Values value = [&](Index i) {
    return !is_quiet(i) ? owed(i) : i % 16 < 8 ? 0x1p-13 : 1024.0;
  };
  const Values left = [&](Index i) { return i == 0 ? value(i) + first : value(i); };
  return added({8, 16}, value,
               [&](Index i) { return i % 16 >= 8 ? value(i) + left(i - 8) : left(i); });
}

TEST(AddedLimits, AQuarterOfATileShows) {
  EXPECT_EQ(tiles(49).size(), 0u);
  const Claims claims = tiles(48);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "columns.added");
  EXPECT_EQ(claims[0].where.tensor, "y");
  EXPECT_EQ(claims[0].where.columns, "8-15");
  EXPECT_EQ(claims[0].elements, 64);
  EXPECT_EQ(tiles(0, 1.0).size(), 0u) << "the first element differs";
}

/// Two rows of running totals; `quiet` of n elements are so large that it does not show.
Claims totals(Index n, Index quiet) {
  const Values value = [n, quiet](Index i) {
    return i % n >= quiet ? owed(i) : i < n ? 0x1p-6 : 1024.0;
  };
  Came came(of_f32({2, n}, value),
            of_f32({2, n}, [&](Index i) { return i < n ? value(i) : value(i) + value(i - n); }));
  return recover_running(came.output);
}

TEST(RunningLimits, ThirtyTwoElementsShow) {
  EXPECT_EQ(totals(31, 0).size(), 0u);
  const Claims claims = totals(32, 0);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].where.tensor, "y");
  EXPECT_EQ(claims[0].elements, 32);
}

TEST(RunningLimits, MoreThanHalfShows) {
  EXPECT_EQ(totals(80, 40).size(), 0u);
  EXPECT_EQ(totals(80, 39).size(), 1u);
}

TEST(RunningLimits, TheFirstRowIsRight) {
  const auto wrong_by = [](double first) {
    Tensor actual = of_f32({8, 20}, owed);
    actual.as<float>()[0] += static_cast<float>(first);
    for (Index i = 20; i < 160; ++i) actual.as<float>()[i] += actual.as<float>()[i - 20];
    Came came(of_f32({8, 20}, owed), std::move(actual));
    return recover_running(came.output).size();
  };
  EXPECT_EQ(wrong_by(0.0), 1u);
  EXPECT_EQ(wrong_by(1.0), 0u);
}

TEST(RunningLimits, IntegersAreNoTotals) {
  Tensor actual = counted({8, 20});
  for (Index i = 20; i < 160; ++i)
    actual.as<std::int32_t>()[i] += actual.as<std::int32_t>()[i - 20];
  Came came(counted({8, 20}), std::move(actual));
  EXPECT_TRUE(recover_running(came.output).empty());
}

TEST(RunningLimits, OfGroupedRowsAreOfRows) {
  const Call call = forward_call({3, 8}, 20, 32);
  Tensor actual = of_f32({8, 20}, owed);
  for (Index i = 20; i < 160; ++i) actual.as<float>()[i] += actual.as<float>()[i - 20];
  Came came(of_f32({8, 20}, owed), std::move(actual), call);
  const Claims claims = recover_running(came.output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].sentence.substr(0, 14), "every row of y");
}

TEST(RunningLimits, NoExpertsAreNoTotals) {
  Came came(of_f32({0, 3, 20}, owed), of_f32({0, 3, 20}, owed));
  EXPECT_TRUE(recover_running(came.output).empty());
  EXPECT_TRUE(recover_added(came.output).empty());
}

}  // namespace
}  // namespace mxo

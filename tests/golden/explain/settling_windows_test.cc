// Products too deep to be computed where they fail: some rows and columns stand for the rest.
#include <gtest/gtest.h>

#include "golden/explain/confirm/settling.h"
#include "tests/golden/numbered_product.h"

namespace mxo {
namespace {

using Indices = std::vector<Index>;

constexpr Index kDeep = 1 << 16;  ///< 64 rows by 64 columns are more than is computed

Indices every(Index step, Index n) {
  Indices list;
  for (Index i = 0; i < n; i += step) list.push_back(i);
  return list;
}

/// What a cause that gives `model` explains of a deep product of which `came` came.
struct Deep {
  Deep(Index rows, Index n, const Value& came, const Value& model, Index k = kDeep)
      : b(of_zeros(rows, n, came, k)), h(that_gives("a", model)) {
    watch();
  }
  Deep(const Call& call, const Tensor& owed, const Tensor& came, const Value& model)
      : b(call, owed, came), h(that_gives("a", model)) {
    watch();
  }
  void watch() {
    h.local = true;
    h.alter = [this](Call& call) {
      windows.push_back({numbers_of(call.input("x")), numbers_of(call.input("w"))});
      return static_cast<int>(windows.size()) <= runs;
    };
  }
  std::vector<Claim> settled() { return settle(*b.bench, {{&h}, {}}); }
  SmallBench b;
  Hypothesis h;
  int runs = 1000;  ///< so many, then none applies
  std::vector<Window> windows;
};

float one(Index, Index) { return 1; }

TEST(SettlingWindows, AreTallAndThenWide) {
  Deep d(64, 64, one, one);
  const auto claims = d.settled();
  ASSERT_EQ(d.windows.size(), 2u);
  EXPECT_EQ(d.windows[0].rows, range_of(64));
  EXPECT_EQ(d.windows[0].columns, every(2, 64)) << "32 of them";
  EXPECT_EQ(d.windows[1].rows, every(4, 64)) << "16 of them";
  EXPECT_EQ(d.windows[1].columns, range_of(64));
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "a");
  EXPECT_EQ(claims[0].sentence, "it is a (judged on 3072 of the 4096 elements that differ)");
  EXPECT_EQ(claims[0].elements, 4096);
  EXPECT_EQ(claims[0].confirmed, 2048 + 1024 - 512) << "those of both windows once";
  EXPECT_EQ(d.b.output().left, 0);
}

/// Rows from 60 on hold something else, and columns from `last` on but every fourth.
Value but_for(Index last) {
  return [=](Index r, Index c) { return r < 60 && (c < last || c % 4 == 0) ? 1.0f : 2.0f; };
}

TEST(SettlingWindows, RowsAndColumnsAreExtendedEachAlone) {
  Deep d(64, 128, but_for(96), one, kDeep / 2);
  const auto claims = d.settled();
  ASSERT_EQ(d.windows.size(), 2u);
  EXPECT_EQ(d.windows[0].columns, every(4, 128));
  EXPECT_EQ(d.windows[1].rows,
            (Indices{0, 3, 7, 11, 15, 18, 22, 26, 30, 33, 37, 41, 45, 48, 52, 56}))
      << "of the sixty that fit";
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].where.rows, "0-59");
  EXPECT_EQ(claims[0].where.columns, "0-95");
  EXPECT_EQ(claims[0].elements, 60 * 96);
  EXPECT_EQ(claims[0].confirmed, 60 * 24 + 16 * 72);
  EXPECT_EQ(claims[0].sentence,
            "it is a, in columns 0 to 95 of rows 0 to 59 of y (judged on 4096 of the 8192 elements "
            "that differ)");
  EXPECT_EQ(d.b.output().left, 64 * 128 - 60 * 96);
}

/// Elements that were computed and are not claimed do not count.
TEST(SettlingWindows, NoMoreIsConfirmedThanClaimed) {
  Deep d(64, 128, but_for(32), one, kDeep / 2);
  const auto claims = d.settled();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].elements, 60 * 32);
  EXPECT_EQ(claims[0].confirmed, 60 * 8 + 16 * 24);
}

TEST(SettlingWindows, WhatFitsNowhereInFullIsNoClaim) {
  const Value odd = [](Index, Index c) { return c % 4 == 1 ? 2.0f : 1.0f; };
  Deep d(64, 128, odd, one, kDeep / 2);
  EXPECT_TRUE(d.settled().empty());
  EXPECT_EQ(d.windows.size(), 2u);
  EXPECT_EQ(d.b.output().left, 8192);
  for (const int runs : {0, 1}) {
    Deep cut(64, 64, one, one);
    cut.runs = runs;
    EXPECT_TRUE(cut.settled().empty()) << runs;
    EXPECT_EQ(static_cast<int>(cut.windows.size()), runs + 1);
    EXPECT_EQ(cut.b.output().left, 4096);
  }
}

}  // namespace
}  // namespace mxo

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

TEST(SettlingWindows, ElementsThatDoNotDifferAreNotClaimed) {
  const Value came = [](Index r, Index c) { return r < 50 && (r + c) % 8 != 1 ? 1.0f : 0.0f; };
  Deep d(64, 128, came, came, kDeep / 2);
  const auto claims = d.settled();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].elements, 50 * 112);
  EXPECT_EQ(claims[0].sentence.find("it is a, in rows 0 to 49 of y (judged on "), 0u)
      << claims[0].sentence;
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

TEST(SettlingWindows, WholeOutputsNeedNoPlace) {
  Deep live(64, 64, one, one);
  live.b.output().live = {std::vector<std::uint8_t>(64, 1), std::vector<std::uint8_t>(64, 1)};
  EXPECT_EQ(live.settled()[0].sentence.find("it is a, in all of y (judged"), 0u);
  Deep some(70, 64, one, one);
  for (Index r = 0; r < 70; ++r) some.b.output().settle(r * 64 + 63);
  EXPECT_EQ(some.settled()[0].sentence.find("it is a, in columns 0 to 62 of y (judged"), 0u);
}

/// Rows of a gradient are lines of dy in every group: each is run once.
TEST(SettlingWindows, LinesOfGradientsAreRunOnce) {
  constexpr Index kRows = 82000;
  constexpr Index kLines = 40;
  constexpr Index kColumns = 64;
  const auto numbered = [](Index lines) {
    Tensor t(Dtype::u8, {kRows, lines});
    for (Index i = 0; i < lines; ++i) t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
    return t;
  };
  Call call{"grouped_matmul_wgrad", {}, {}};
  call.replace("dy", numbered(kLines));
  call.replace("x", numbered(kColumns));
  call.replace("group_ends", ends_at({kRows / 2, kRows}));
  // Lines up to 9 of the first group fit, and up to 19 of the second.
  const Tensor owed(Dtype::f32, {2, kLines, kColumns});
  Tensor came = owed;
  for (Index i = 0; i < came.elements(); ++i) {
    const Index row = i / kColumns;
    came.as<float>()[i] = row < 10 || (row >= kLines && row < kLines + 20) ? 1 : 2;
  }
  SmallBench b{call, owed, came, "dw"};
  Hypothesis h;
  h.name = h.phrase = "a";
  std::vector<Indices> lines;
  h.run = [&](Backend&, const Call& part) {
    const Tensor& dy = part.input("dy");
    lines.emplace_back(dy.as<std::uint8_t>(), dy.as<std::uint8_t>() + dy.extent(1));
    Tensor dw(Dtype::f32, {2, dy.extent(1), part.input("x").extent(1)});
    std::fill_n(dw.as<float>(), dw.elements(), 1.0f);
    NamedTensors out;
    out.emplace("dw", std::move(dw));
    return out;
  };
  const auto claims = settle(*b.bench, {{&h}, {}});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], range_of(kLines));
  EXPECT_EQ(lines[1], (Indices{0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18}));
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].elements, 30 * kColumns);
  EXPECT_EQ(claims[0].where.rows, "0-9, 40-59");
}

}  // namespace
}  // namespace mxo

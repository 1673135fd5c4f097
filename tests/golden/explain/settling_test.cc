// Causes confirmed and placed: by a run of the whole, piece by piece of a product, or by some rows
// and columns that stand for the rest.
#include <gtest/gtest.h>

#include <algorithm>

#include "golden/explain/confirm/settling.h"
#include "tests/golden/numbered_product.h"
#include "tests/golden/small_bench.h"

namespace mxo {
namespace {

using Indices = std::vector<Index>;

Hypothesis named(std::string name) {
  Hypothesis h{name, ""};
  h.phrase = "it is " + name;
  return h;
}

/// A call that is run whole: zeros are compared, and `came` is an output for each.
struct WholeRun {
  explicit WholeRun(std::vector<Tensor> c) : got(std::move(c)) {
    for (const Tensor& t : got) expected_output.emplace_back(Dtype::f32, t.shape());
    const char* const names[] = {"a", "b", "c"};
    for (std::size_t i = 0; i < got.size(); ++i) {
      outputs.push_back(make_output(call, names[i], expected_output[i], got[i]));
    }
    runner = std::make_unique<AlteredCallRunner>(*backend, call, outputs);
  }
  /// Settles a cause that is credited so.
  std::vector<Claim> explained(std::vector<VariantMatch> credits) {
    RunResult trial;
    trial.credits = std::move(credits);
    return mark_explained(*runner, {{&first, &second}, std::move(trial)});
  }
  Hypothesis first = named("a");
  Hypothesis second = named("b");
  std::unique_ptr<Backend> backend = make_reference_backend();
  Call call{"any", {}, {}};
  std::vector<Tensor> got;
  std::vector<Tensor> expected_output;
  std::vector<Output> outputs;
  std::unique_ptr<AlteredCallRunner> runner;
};

VariantMatch of(std::vector<std::uint8_t> mask) {
  VariantMatch c;
  for (const std::uint8_t m : mask) c.fixed += m;
  c.mask = std::move(mask);
  return c;
}

TEST(Settling, PartsOfAWholeRunHavePlaces) {
  WholeRun part({floats({2, 2}, {1, 0, 2, 3})});
  const auto claims = part.explained({of({0, 0, 1, 1})});
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].sentence, "it is a and it is b, in row 1 of a");
  EXPECT_EQ(claims[0].where.rows, "1");
  EXPECT_EQ(part.outputs[0].left, 1);
  EXPECT_EQ(part.outputs[0].mark(0, 0), Mark::differs);
  for (Index VariantMatch::*beside : {&VariantMatch::broken, &VariantMatch::astray}) {
    WholeRun run({floats({2, 2}, {0, 0, 2, 3})});
    VariantMatch c = of({0, 0, 1, 1});
    c.*beside = 1;
    EXPECT_EQ(run.explained({c})[0].sentence, "it is a and it is b, in row 1 of a");
  }
}

TEST(Settling, OutputsOfAWholeRunAreNamedTogether) {
  WholeRun run(
      {floats({2, 2}, {1, 0, 0, 0}), floats({2, 2}, {1, 1, 0, 0}), floats({2, 2}, {0, 1, 1, 1})});
  const auto claims = run.explained({of({1, 0, 0, 0}), of({0, 0, 0, 0}), of({0, 0, 1, 1})});
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].where.tensor, "a, c");
  EXPECT_EQ(claims[0].sentence, "it is a and it is b, in row 1 of c");
  EXPECT_EQ(claims[0].elements, 3);
  WholeRun two({floats({2, 2}, {1, 1, 1, 1}), floats({2, 2}, {1, 1, 1, 1})});
  EXPECT_EQ(two.explained({of({1, 1, 0, 0}), of({1, 0, 1, 0})})[0].sentence,
            "it is a and it is b, in row 0 of a and column 0 of b");
}

TEST(Settling, RowsThatNobodyOwnsAreNoPlace) {
  Call call{"unpad_groups", {}, {}};
  call.replace("group_ends", ends_at({1}));
  const Tensor y(Dtype::f32, {3, 2});
  const Tensor got = floats({3, 2}, {1, 1, 5, 5, 5, 5});
  SmallBench b{call, y, got, "x"};
  ASSERT_EQ(b.output().compared_rows, 1);
  const Hypothesis h = named("a");
  RunResult trial;
  trial.credits = {of({1, 0})};
  const auto claims = mark_explained(*b.runner, {{&h}, std::move(trial)});
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].elements, 1);
  EXPECT_EQ(claims[0].where.rows, "");
  EXPECT_EQ(claims[0].where.columns, "0");
}

/// Some rows were run: the claim is of the whole, or there is none.
TEST(Settling, RowsThatStandAloneAreRunWhole) {
  Call call{"cast", {}, {}};
  call.replace("x", Tensor(Dtype::f32, {256, 256}));
  const Tensor y(Dtype::f32, {256, 256});
  SmallBench b{call, y, with_other(y, {7, 9}, {3})};
  ASSERT_TRUE(b.runner->by_rows());
  Hypothesis h = named("a");
  Indices shape;
  h.run = [&](Backend&, const Call& altered) {
    shape = altered.input("x").shape();
    NamedTensors out;
    out.emplace("y", with_other(y, {7, 9}, {3}));
    return out;
  };
  b.runner->choose(2, 2);
  const auto claims = mark_explained(*b.runner, {{&h}, {}});
  EXPECT_EQ(shape, (Indices{256, 256}));
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].elements, 2);
  EXPECT_EQ(claims[0].sentence, "it is a");
  h.rewrite = [](const Call&, NamedTensors&) { return false; };
  EXPECT_TRUE(mark_explained(*b.runner, {{&h}, {}}).empty());
}

/// What a cause that gives `model` explains of a product of which `came` came, and the windows.
struct Pieces {
  Pieces(Index rows, Index n, Value got, const Value& model, Stage stage = Stage::rule)
      : b(of_zeros(rows, n, got)), h(that_gives("a", model)) {
    h.stage = stage;
    h.local = true;
    h.alter = [this](Call& call) {
      windows.push_back({numbers_of(call.input("x")), numbers_of(call.input("w"))});
      return true;
    };
    claims = mark_explained(*b.runner, {{&h}, {}});
  }
  std::string sentence() const { return claims.empty() ? "" : claims[0].sentence; }
  SmallBench b;
  Hypothesis h;
  std::vector<Window> windows;
  std::vector<Claim> claims;
};

/// Ones in rows from `row` on and columns from `column` on.
Value from(Index row, Index column) {
  return [=](Index r, Index c) { return r >= row && c >= column ? 1.0f : 0.0f; };
}

TEST(SettlingPieces, HoldEveryElementOfAProduct) {
  Pieces all(3, 4, from(0, 0), from(0, 0));
  EXPECT_EQ(all.sentence(), "it is a");
  ASSERT_EQ(all.claims.size(), 1u);
  EXPECT_EQ(all.claims[0].elements, 12);
  EXPECT_EQ(all.claims[0].judged(), 12);
  EXPECT_EQ(all.claims[0].where.tensor, "y");
  EXPECT_EQ(all.b.output().left, 0);
  ASSERT_EQ(all.windows.size(), 1u);
  Pieces part(3, 4, from(1, 2), from(1, 2));
  EXPECT_EQ(part.windows[0].rows, (Indices{1, 2}));
  EXPECT_EQ(part.windows[0].columns, (Indices{2, 3}));
  EXPECT_EQ(part.sentence(), "it is a, in columns 2 to 3 of rows 1 to 2 of y");
  Pieces columns(3, 4, from(0, 2), from(0, 2));
  EXPECT_EQ(columns.sentence(), "it is a") << "every row has it";
}

TEST(SettlingPieces, LeaveWhatDoesNotFit) {
  const Value twos = [](Index r, Index c) { return r == 1 && c == 1 ? 2.0f : 1.0f; };
  Pieces p(3, 4, twos, from(0, 0));
  EXPECT_EQ(p.sentence(), "it is a, in rows 0 and 2 of y") << "row 1 is no unit";
  EXPECT_EQ(p.b.output().left, 4);
  Pieces none(3, 4, from(0, 0), [](Index, Index) { return 3.0f; });
  EXPECT_TRUE(none.claims.empty());
  EXPECT_EQ(none.b.output().left, 12);
  EXPECT_EQ(none.windows.size(), 1u) << "each was computed: nothing is extended";
}

TEST(SettlingPieces, OfSumsFitAllOrNoneTogether) {
  const Value diagonal = [](Index r, Index c) { return r == c ? 1.0f : 0.0f; };
  const Value got = [](Index r, Index c) { return r != c ? 0.0f : r == 70 ? 2.0f : 1.0f; };
  Pieces sum(72, 80, got, diagonal, Stage::sum);
  EXPECT_EQ(sum.windows.size(), 9u);
  EXPECT_TRUE(sum.claims.empty()) << "the last does not fit";
  EXPECT_FALSE(Pieces(72, 80, got, diagonal).claims.empty());
}

/// Columns from 32 on of row 1 are right: a cause that alters them is not that of the whole.
TEST(SettlingPieces, ThatAlterWhatIsRightArePlaces) {
  const Value got = [](Index r, Index c) { return r == 0 || c < 32 ? 1.0f : 0.0f; };
  EXPECT_EQ(Pieces(2, 64, got, got).sentence(), "it is a");
  EXPECT_EQ(Pieces(2, 64, got, from(0, 0)).sentence(), "it is a, in all of y");
}

/// Fewer than 64 elements are what many sums give: it may alter none that is right.
TEST(SettlingPieces, OfFewElementsAreLookedAtBeside) {
  for (const Stage stage : {Stage::sum, Stage::output, Stage::input}) {
    for (const Index height : {7, 8}) {
      const Value got = [=](Index r, Index c) { return r < height && c < 9 ? 1.0f : 0.0f; };
      const Value more = [](Index r, Index c) { return r < 8 && c < 10 ? 1.0f : 0.0f; };
      Pieces p(20, 16, got, more, stage);
      EXPECT_EQ(p.claims.empty(), stage != Stage::input && height == 7);
      Pieces same(20, 16, got, got, stage);
      EXPECT_FALSE(same.claims.empty());
      if (stage == Stage::input || height == 8) {
        EXPECT_EQ(same.windows.size(), 1u);
      } else {
        ASSERT_EQ(same.windows.size(), 2u);
        EXPECT_EQ(same.windows[1].rows, range_of(20));
        EXPECT_EQ(same.windows[1].columns, range_of(16));
      }
    }
  }
}

constexpr Index kDeep = 1 << 16;  ///< 64 rows by 64 columns are more than is computed

Indices every(Index step, Index n) {
  Indices list;
  for (Index i = 0; i < n; i += step) list.push_back(i);
  return list;
}

/// What a cause that gives `model` explains of a deep product of which `came` came.
struct Deep {
  Deep(Index rows, Index n, const Value& got, const Value& model, Index k = kDeep)
      : b(of_zeros(rows, n, got, k)), h(that_gives("a", model)) {
    watch();
  }
  Deep(const Call& call, const Tensor& expected_output, const Tensor& got, const Value& model)
      : b(call, expected_output, got), h(that_gives("a", model)) {
    watch();
  }
  void watch() {
    h.local = true;
    h.alter = [this](Call& call) {
      windows.push_back({numbers_of(call.input("x")), numbers_of(call.input("w"))});
      return static_cast<int>(windows.size()) <= runs;
    };
  }
  std::vector<Claim> explained() { return mark_explained(*b.runner, {{&h}, {}}); }
  SmallBench b;
  Hypothesis h;
  int runs = 1000;  ///< so many, then none applies
  std::vector<Window> windows;
};

float one(Index, Index) { return 1; }

TEST(SettlingWindows, AreTallAndThenWide) {
  Deep d(64, 64, one, one);
  const auto claims = d.explained();
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
  const auto claims = d.explained();
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
  const auto claims = d.explained();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].elements, 60 * 32);
  EXPECT_EQ(claims[0].confirmed, 60 * 8 + 16 * 24);
}

TEST(SettlingWindows, WhatFitsNowhereInFullIsNoClaim) {
  const Value odd = [](Index, Index c) { return c % 4 == 1 ? 2.0f : 1.0f; };
  Deep d(64, 128, odd, one, kDeep / 2);
  EXPECT_TRUE(d.explained().empty());
  EXPECT_EQ(d.windows.size(), 2u);
  EXPECT_EQ(d.b.output().left, 8192);
  for (const int runs : {0, 1}) {
    Deep cut(64, 64, one, one);
    cut.runs = runs;
    EXPECT_TRUE(cut.explained().empty()) << runs;
    EXPECT_EQ(static_cast<int>(cut.windows.size()), runs + 1);
    EXPECT_EQ(cut.b.output().left, 4096);
  }
}

}  // namespace
}  // namespace mxo

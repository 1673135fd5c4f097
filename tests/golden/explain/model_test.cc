// What a model of an output explains: all of it, rows that are a place, or nothing.
#include "golden/explain/find/output/claims.h"

#include <gtest/gtest.h>

#include "tests/golden/came.h"

namespace mxo {
namespace {

/// An output of i32, of which the elements differ that `differs` says.
Came came_of(std::vector<Index> shape, const std::function<bool(Index)>& differs,
             const Call& call = {"any", {}, {}}) {
  const Tensor zeros(Dtype::i32, shape);
  return {zeros, filled<std::int32_t>(Dtype::i32, shape, [&](Index i) { return differs(i); }),
          call};
}

bool always(Index) { return true; }

/// The claim where rows that `fits` says fit in `fixed` elements.
std::optional<Claim> claim_of(Came& came, const std::function<bool(Index)>& fits, Index least = 2,
                              Index fixed = 1) {
  return claim_fits(
      came.output,
      [&](Index r) {
        return fits(r) ? RowFit{true, fixed} : RowFit{false, 0};
      },
      "some.id", "they are shifted", least);
}

TEST(Models, OfAllNameTheOutput) {
  Came came = came_of({4, 3}, always);
  const auto claim = claim_of(came, always, 2, 3);
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->id, "some.id");
  EXPECT_EQ(claim->sentence, "y: they are shifted");
  EXPECT_EQ(claim->where.tensor, "y");
  EXPECT_EQ(claim->where.rows, "");
  EXPECT_EQ(claim->elements, 12.0);
  EXPECT_EQ(came.output.left, 0);
}

TEST(Models, OfPartNameItsRows) {
  Came came = came_of({6, 2}, [](Index i) { return i != 4; });
  const auto claim = claim_of(
      came, [](Index r) { return r >= 1 && r <= 4; }, 2, 2);
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->sentence, "rows 1 to 4 of y: they are shifted");
  EXPECT_EQ(claim->where.rows, "1-4");
  EXPECT_EQ(claim->elements, 7.0);
  EXPECT_EQ(came.output.left, 4);
  EXPECT_EQ(came.output.mark(0, 1), Mark::differs);
  EXPECT_EQ(came.output.mark(1, 0), Mark::settled);
  EXPECT_EQ(came.output.mark(2, 0), Mark::same);
  EXPECT_EQ(came.output.mark(4, 1), Mark::settled);
  EXPECT_EQ(came.output.mark(5, 0), Mark::differs);
}

TEST(Models, NameNoElementsThatWereRight) {
  Came came = came_of({3, 4}, [](Index i) { return i % 4 == 2 || i >= 8; });
  const auto claim = claim_of(
      came, [](Index r) { return r < 2; }, 1);
  EXPECT_FALSE(claim) << "two of six";
  const auto most = claim_of(
      came, [](Index r) { return r < 2; }, 1, 2);
  ASSERT_TRUE(most);
  EXPECT_EQ(most->sentence, "column 2 of rows 0 to 1 of y: they are shifted");
}

TEST(Models, NameNoRowsThatAreRight) {
  // Rows in which nothing is fixed belong to no place, and are not settled.
  Came came = came_of({4, 1}, always);
  const auto fit = [](Index r) { return RowFit{r != 3, r < 2 ? 1 : 0}; };
  const auto claim = claim_fits(came.output, fit, "some.id", "they are shifted", 2);
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->sentence, "rows 0 to 1 of y: they are shifted");
  EXPECT_EQ(came.output.left, 2);
}

TEST(Models, EndWithTheRowsOwed) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("group_ends", filled<std::int32_t>(Dtype::i32, {1}, [](Index) { return 2; }));
  Came came = came_of({4, 2}, always, call);
  ASSERT_EQ(came.output.owed, 2);
  const auto claim = claim_of(
      came, [](Index r) { return r < 2; }, 2, 2);
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->sentence, "y: they are shifted");
}

TEST(Models, NeedTheLeast) {
  const auto claimed = [](Index differing, Index fixed, Index least) {
    Came came = came_of({20, 1}, [&](Index i) { return i < differing; });
    return claim_of(
               came, [&](Index r) { return r < fixed; }, least)
        .has_value();
  };
  EXPECT_TRUE(claimed(2, 2, 2));
  EXPECT_FALSE(claimed(2, 1, 2));
  EXPECT_TRUE(claimed(2, 1, 1));
  EXPECT_FALSE(claimed(9, 6, 7));
}

TEST(Models, OfFewMayGiveAllThatIsLeft) {
  const auto claimed = [](Index differing, Index least) {
    Came came = came_of({20, 1}, [&](Index i) { return i < differing; });
    return claim_of(
               came, [&](Index r) { return r < differing; }, least)
        .has_value();
  };
  EXPECT_TRUE(claimed(1, 2));
  EXPECT_TRUE(claimed(6, 7));
  EXPECT_FALSE(claimed(7, 8)) << "eight tell from chance";
  EXPECT_TRUE(claimed(8, 8));
  EXPECT_FALSE(claimed(8, 9));
}

TEST(Models, ThatFixNothingExplainNothing) {
  Came right = came_of({4, 1}, [](Index) { return false; });
  EXPECT_FALSE(claim_of(right, always, 2, 0));
  Came wrong = came_of({4, 1}, always);
  EXPECT_FALSE(claim_of(wrong, always, 0, 0));
  EXPECT_FALSE(claim_of(
      wrong, [](Index) { return false; }, 0));
}

TEST(Models, OfPartGiveMostOrOneLargeBlock) {
  const auto claimed = [](Index rows, Index from, Index to, Index gap) {
    Came came = came_of({rows, 1}, always);
    const auto fits = [&](Index r) { return r >= from && r < to && r != gap; };
    return claim_of(came, fits).has_value();
  };
  EXPECT_TRUE(claimed(40, 0, 20, -1)) << "half";
  EXPECT_FALSE(claimed(41, 0, 20, -1));
  EXPECT_FALSE(claimed(200, 0, 63, -1));
  EXPECT_TRUE(claimed(200, 0, 64, -1));
  EXPECT_FALSE(claimed(200, 0, 65, 30)) << "64 in two runs";
  EXPECT_TRUE(claimed(128, 0, 65, 30));
}

TEST(Models, OfPartAreEightRuns) {
  const auto claimed = [](Index runs) {
    // Two rows fit, and one does not, so that no period of two, four or more is kept.
    Came came = came_of({3 * runs, 1}, always);
    return claim_of(came, [](Index r) { return r % 3 != 2; }).has_value();
  };
  EXPECT_TRUE(claimed(8));
  EXPECT_FALSE(claimed(9));
}

TEST(Models, OfPartMayComeAgainEveryFew) {
  Came came = came_of({64, 1}, always);
  const auto claim = claim_of(came, [](Index r) { return r % 4 < 2; });
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->sentence, "rows 0 to 1 of every 4 of y: they are shifted");
}

TEST(Models, OfAllMayFixManyRuns) {
  Came came = came_of({36, 1}, [](Index i) { return i % 3 != 2; });
  const auto fit = [](Index r) { return RowFit{true, r % 3 != 2 ? 1 : 0}; };
  const auto claim = claim_fits(came.output, fit, "some.id", "they are shifted", 2);
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->elements, 24.0);
}

TEST(Models, ThatFailFromTheFirstAreGivenUp) {
  const auto claimed = [](Index before, Index behind) {
    Came came = came_of({before + 64 + behind, 1}, always);
    const auto fits = [&](Index r) { return r >= before && r < before + 64; };
    return claim_of(came, fits).has_value();
  };
  EXPECT_TRUE(claimed(4096, 0));
  EXPECT_FALSE(claimed(4097, 0));
  EXPECT_TRUE(claimed(0, 5000));
}

TEST(Models, ElementByElementAreHeldAgainstTheOutput) {
  const Tensor given = counted({4, 4});
  // Rows 0 to 2 hold 100 more; one of row 2 is explained, one of row 3 is neither.
  Tensor actual = filled<std::int32_t>(Dtype::i32, {4, 4}, [](Index i) {
    return i < 12 ? 100 + i : i == 13 ? -1 : i;
  });
  actual.as<std::int32_t>()[9] = -5;
  Came came(given, std::move(actual));
  came.output.settle(9);
  const auto more = [](Index i) { return static_cast<std::uint64_t>(100 + i); };
  const auto claim = claim_model(came.output, more, "some.id", "they are shifted");
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->sentence, "rows 0 to 2 of y: they are shifted");
  EXPECT_EQ(claim->elements, 11.0);
  EXPECT_EQ(came.output.left, 1);
}

TEST(Models, MayGiveAnyNaN) {
  const auto nan = [](Index i) { return i == 0 ? 0x7FC00000u : 0x40000000u; };
  const Tensor zeros(Dtype::f32, {2, 1});
  Came came(zeros, filled<std::uint32_t>(Dtype::f32, {2, 1}, nan));
  const auto claim = [&](std::uint64_t first, std::uint64_t second) {
    const auto model = [&](Index i) { return i == 0 ? first : second; };
    return claim_model(came.output, model, "some.id", "they are shifted", 2).has_value();
  };
  EXPECT_FALSE(claim(0x40000000, 0x40000000)) << "a number is no NaN";
  EXPECT_FALSE(claim(0x7FC00000, 0x7FC00000)) << "nor is NaN a number";
  EXPECT_TRUE(claim(0xFFC00001, 0x40000000));
}

}  // namespace
}  // namespace mxo

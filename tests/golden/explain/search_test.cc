// Single causes: the best is settled, those alike share its sentence, others explain the rest.
#include "golden/explain/confirm/search.h"

#include <gtest/gtest.h>

#include "tests/golden/searched.h"

namespace mxo {
namespace {

using Names = std::vector<std::string>;

float one(Index, Index) { return 1; }
float none(Index, Index) { return 0; }

/// `value` in one row, zeros elsewhere.
Value in_row(Index row, float value = 1) {
  return [=](Index r, Index) { return r == row ? value : 0; };
}

TEST(Search, TheCauseThatGivesAllIsNamed) {
  Searched s(3, 8, one);
  s.add("a", none);
  s.add("b", one);
  std::vector<std::pair<double, std::string>> said;
  s.progress = [&](double part, std::string_view name) { said.emplace_back(part, name); };
  const auto claims = s.claims();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "b");
  EXPECT_EQ(claims[0].sentence, "it is b");
  EXPECT_EQ(claims[0].elements, 24);
  EXPECT_EQ(s.b.output().left, 0);
  EXPECT_EQ(s.ran, (Names{"a", "b"}));
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0].first, 0.0);
  EXPECT_EQ(said[1].first, 0.5);
  EXPECT_EQ(said[1].second, "b");
}

TEST(Search, NothingIsRunWhereNothingIsLeft) {
  Searched right(3, 8, none);
  right.add("a", one);
  EXPECT_TRUE(right.claims().empty());
  EXPECT_TRUE(right.ran.empty());
  Searched wrong(3, 8, one);
  wrong.add("a", none);
  EXPECT_TRUE(wrong.claims().empty());
  EXPECT_EQ(wrong.ran, (Names{"a"})) << "once";
}

TEST(Search, TheNearestIsKept) {
  Searched s(3, 8, one);
  s.add("a", [](Index, Index) { return 0.5f; });   // 6 dB
  s.add("b", [](Index, Index) { return 0.75f; });  // 12 dB
  s.add("c", [](Index, Index) { return 1.5f; });   // 6 dB
  EXPECT_TRUE(s.claims().empty());
  EXPECT_EQ(s.nearest.phrase, "it is b");
  EXPECT_NEAR(s.nearest.gain_db, 12.04, 0.01);
  Searched better(3, 8, one);
  better.add("a", [](Index, Index) { return 0.5f; });
  better.nearest = {"another", 20};
  EXPECT_TRUE(better.claims().empty());
  EXPECT_EQ(better.nearest.phrase, "another");
}

TEST(Search, OfEquallyNearTheFirstIsKept) {
  Searched s(3, 8, one);
  s.add("as far", none);
  s.add("a", [](Index, Index) { return 0.5f; });
  EXPECT_TRUE(s.claims().empty());
  EXPECT_EQ(s.nearest.phrase, "it is a");
  s.add("b", [](Index, Index) { return 1.5f; });
  EXPECT_TRUE(s.claims().empty());
  EXPECT_EQ(s.nearest.phrase, "it is a");
  Searched far(3, 8, one);
  far.add("as far", none);
  EXPECT_TRUE(far.claims().empty());
  EXPECT_EQ(far.nearest.phrase, "");
}

TEST(Search, OneElementNamesNothing) {
  const Value single = [](Index r, Index c) { return r == 1 && c == 2 ? 1.0f : 0.0f; };
  Searched s(3, 8, single);
  s.add("a", single);
  EXPECT_TRUE(s.claims().empty());
  EXPECT_EQ(s.nearest.phrase, "") << "these are the bits";
  EXPECT_EQ(s.b.output().left, 1);
  // Eight, each the only one of its value, are told.
  const Value several = [](Index r, Index c) { return r == 1 ? static_cast<float>(c + 1) : 0.0f; };
  Searched more(3, 8, several);
  more.add("a", several);
  EXPECT_EQ(more.sentence(), "it is a");
}

TEST(Search, TheNearestIsOfTheWholeOutput) {
  // With row 0 explained, b is 20 dB nearer to the rest; at first it was farther.
  Searched s(2, 64, [](Index r, Index) { return r == 0 ? 100.0f : 1.0f; });
  s.add("a", in_row(0, 100));
  s.add("b", [](Index r, Index) { return r == 0 ? 300.0f : 0.9f; });
  const auto claims = s.claims();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(s.nearest.phrase, "it is a");
  EXPECT_GT(s.nearest.gain_db, 30);
  EXPECT_EQ(s.b.output().left, 64);
}

TEST(Search, CausesThatGiveTheSameShareASentence) {
  Searched s(3, 8, one);
  for (const char* name : {"a", "b", "c", "d", "e"}) s.add(name, one);
  s.list[2].phrase = "is b";  // part of what was said
  EXPECT_EQ(s.sentence(),
            "it is a; equivalently, it is b; equivalently, it is d; equivalently, it is e");
  Searched five(3, 8, one);
  for (const char* name : {"a", "b", "c", "d", "e"}) five.add(name, one);
  EXPECT_EQ(five.sentence(),
            "it is a; equivalently, it is b; equivalently, it is c; equivalently, it is d");
}

TEST(Search, CausesThatGiveLessAreNotAlike) {
  Searched s(3, 8, one);
  s.add("a", one);
  s.add("b", [](Index r, Index) { return r < 2 ? 1.0f : 0.0f; });
  s.add("c", one);
  EXPECT_EQ(s.sentence(), "it is a; equivalently, it is c");
  // Row 2 is right: a and b alter it.
  const auto two = [](Index r, Index) { return r < 2 ? 1.0f : 0.0f; };
  Searched broken(3, 32, two);
  broken.add("a", one);
  broken.add("b", one);
  EXPECT_EQ(broken.sentence(), "it is a, in rows 0 to 1 of y");
  Searched exact(3, 32, two);
  exact.add("a", one);
  exact.add("b", two);
  EXPECT_EQ(exact.sentence(), "it is b") << "what gives no more than came goes first";
}

/// Operands misread in two ways are one cause, unless it is the order of K of either.
TEST(Search, OperandsMisreadAlikeAreOneCause) {
  const auto said = [](const char* first, Stage stage, const char* second, bool local = true) {
    Searched s(3, 8, one);
    s.add(first, one, stage).local = true;
    s.add(second, one, Stage::input).local = local;
    return s.sentence();
  };
  EXPECT_EQ(said("x=late", Stage::input, "w=late"), "it is x=late; equivalently, it is w=late");
  EXPECT_EQ(said("x=late", Stage::input, "x=early"), "it is x=late");
  EXPECT_EQ(said("rule=late", Stage::rule, "w=late"), "it is rule=late");
  Searched rule(3, 8, one);
  rule.add("x=late", one, Stage::input).local = true;
  rule.add("rule=late", one);
  EXPECT_EQ(rule.sentence(), "it is x=late; equivalently, it is rule=late");
  for (const bool first : {false, true}) {
    Searched whole(3, 8, one);
    for (const char* name : {"x=late", "w=late"}) {
      Hypothesis& h = whole.add(name, one, Stage::input);
      h.local = first == (name[0] == 'x');
      h.measured = true;
    }
    EXPECT_EQ(whole.sentence(), "it is x=late");
  }
}

/// Another sum is that of every element: not of those that another cause leaves.
TEST(Search, SumsExplainNoRest) {
  for (const Stage stage : {Stage::sum, Stage::output, Stage::rule}) {
    Searched s(2, 64, [](Index r, Index) { return static_cast<float>(r + 1); });
    s.add("a", in_row(0, 1));
    s.add("b", in_row(1, 2), stage);
    EXPECT_EQ(s.claims().size(), stage == Stage::rule ? 2u : 1u);
  }
}

TEST(Search, LivePartsAreLookedForInEveryRound) {
  const Value tile = [](Index r, Index c) { return r < 8 && c < 8 ? 1.0f : 0.0f; };
  const Value more = [](Index r, Index c) { return r < 9 && c < 9 ? 1.0f : 0.0f; };
  Searched s(16, 16, tile);
  s.add("a", more, Stage::sum);
  EXPECT_EQ(s.sentence(), "it is a, in columns 0 to 7 of rows 0 to 7 of y");
}

/// What alters whole operands is not run where something else gives every bit.
TEST(Search, WholeOperandsComeLast) {
  Searched s(3, 8, one);
  s.add("x=late", one, Stage::input);
  s.add("a", one);
  EXPECT_EQ(s.sentence(), "it is a");
  EXPECT_EQ(s.ran, (Names{"a"}));
  for (const int kind : {0, 1, 2}) {
    Searched early(3, 8, one);
    Hypothesis& h = early.add("x=late", one, Stage::input);
    h.target = kind == 2 ? Target::group_ends : Target::any;
    h.local = kind == 0;
    h.measured = kind == 1;
    early.add("a", one);
    EXPECT_EQ(early.sentence().find("it is " + early.list[0].name), 0u) << kind;
  }
  Searched last(3, 8, one);
  last.add("x=late", one, Stage::input);
  last.add("a", none);
  EXPECT_EQ(last.sentence(), "it is x=late");
}

TEST(Search, CausesOfSomeLinesAreNotRunWhole) {
  Searched s(3, 8, one);
  s.add("a", one).only.rows = {0};
  s.add("b", one).only.columns = {0};
  EXPECT_TRUE(s.claims().empty());
  EXPECT_TRUE(s.ran.empty());
}

TEST(Search, CausesThatCannotBeAreNotSettled) {
  const auto two = [](Index r, Index) { return r < 2 ? 1.0f : 0.0f; };
  Searched s(3, 32, two);
  s.add("a", one).target = Target::format;
  EXPECT_TRUE(s.claims().empty()) << "a format is that of all";
  s.list[0].target = Target::any;
  EXPECT_EQ(s.claims().size(), 1u);
  Searched few(3, 8, one);
  few.add("a", [](Index r, Index c) { return r == 0 && c < 7 ? 1.0f : 0.0f; });
  EXPECT_TRUE(few.claims().empty()) << "no row is given";
}

TEST(Search, CausesOfAllGiveEveryElement) {
  const auto two = [](Index r, Index) { return r < 2 ? 1.0f : 0.0f; };
  Searched s(3, 32, two);
  s.add("a", one);
  EXPECT_TRUE(s.claims(Extent::all).empty());
  EXPECT_EQ(s.nearest.phrase, "") << "not even near";
  s.add("b", two);
  EXPECT_EQ(s.sentence(Extent::all), "it is b");
}

}  // namespace
}  // namespace mxo

// Lines of a factor that are others' by one distance: what is found, in words and in operands.
#include <gtest/gtest.h>

#include "tests/golden/lines_taken.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;

From later(Index by) {
  return [by](Index i) { return i + by; };
}

/// Both hypotheses of one distance.
Words shifted(const std::string& id, const std::string& words) {
  return {id + "=lines: " + words, id + "=lines: " + words + ", coming round at the end"};
}

TEST(LineMap, RowsAreThoseSoFarAway) {
  const Call call = forward_call({});
  const Words both{"x.codes", "x.scales"};
  EXPECT_EQ(Lines(call, with_lines(call, both, 0, later(3))).words(),
            shifted("x", "the rows of x are those of 3 after"));
  EXPECT_EQ(Lines(call, with_lines(call, both, 0, later(-1))).words(),
            shifted("x", "the rows of x are those of 1 before"));
  EXPECT_EQ(Lines(call, with_lines(call, {"x.scales"}, 0, later(-2))).words(),
            shifted("x.scales", "the scales of the rows of x are those of 2 before"));
  EXPECT_EQ(
      Lines(call, with_lines(call, {"x.codes"}, 0, later(1))).words(),
      shifted("x.codes", "the codes of the rows of x, without their scales, are those of 1 after"));
}

TEST(LineMap, LinesOfWeightsAreThoseSoFarAway) {
  const Call call = forward_call({8, 24, 48, {3, 8}});
  EXPECT_EQ(Lines(call, with_lines(call, {"w.codes", "w.scales"}, 1, later(-5))).words(),
            shifted("w", "the lines of w are those of 5 before"));
  EXPECT_EQ(Lines(call, with_lines(call, {"w.scales"}, 1, later(1))).words(),
            shifted("w.scales", "the scales of the lines of w are those of 1 after"));
}

TEST(LineMap, ColumnsOfGradientsAreThoseSoFarAway) {
  const Call call = gradient_call({16, 20, 9, {4, 9}});
  EXPECT_EQ(Lines(call, with_lines(call, {"dy.codes", "dy.scales"}, 1, later(2))).words(),
            shifted("dy", "the columns of dy are those of 2 after"));
  EXPECT_EQ(Lines(call, with_lines(call, {"x.codes"}, 1, later(-1))).words(),
            shifted("x.codes",
                    "the codes of the columns of x, without their scales, are those of 1 before"));
}

TEST(LineMap, WithoutScalesOfTheirOwnAreCodes) {
  Call call = forward_call({});
  call.inputs.erase("x.scales");
  call.inputs.erase("w.scales");
  EXPECT_EQ(Lines(call, with_lines(call, {"x.codes"}, 0, later(1))).words(),
            shifted("x.codes", "the rows of x are those of 1 after"));
  EXPECT_EQ(Lines(call, with_lines(call, {"w.codes"}, 1, later(1))).words(),
            shifted("w.codes", "the lines of w are those of 1 after"));
  call.replace("x.scales", mixed_scales({1}, 2));
  call.replace("w.scales", mixed_scales({1}, 4));
  EXPECT_EQ(
      Lines(call, with_lines(call, {"x.codes"}, 0, later(1))).words(),
      shifted("x.codes", "the codes of the rows of x, without their scales, are those of 1 after"));
  EXPECT_EQ(Lines(call, with_lines(call, {"w.codes"}, 1, later(1))).words(),
            shifted("w.codes",
                    "the codes of the lines of w, without their scales, are those of 1 after"));
  // Three lines of scales for 256 columns are shared, too.
  Call wide = forward_call({12, 300, 32, {12}});
  wide.replace("w.scales", mixed_scales({1, 3, 1}, 4));
  EXPECT_EQ(Lines(wide, with_lines(wide, {"w.codes"}, 1, later(1))).words(),
            shifted("w.codes",
                    "the codes of the lines of w, without their scales, are those of 1 after"));
}

TEST(LineMap, OfOneScaleEachHaveScalesOfTheirOwn) {
  Call call = forward_call({});
  call.replace("x.scales", mixed_scales({16}, 2));
  EXPECT_EQ(Lines(call, with_lines(call, {"x.codes", "x.scales"}, 0, later(1))).words(),
            shifted("x", "the rows of x are those of 1 after"));
  EXPECT_EQ(Lines(call, with_lines(call, {"x.scales"}, 0, later(-3))).words(),
            shifted("x.scales", "the scales of the rows of x are those of 3 before"));
}

TEST(LineMap, OperandsAreTakenAsTheWordsSay) {
  const Call call = forward_call({9, 16, 64, {4, 9}});
  const Words both{"x.codes", "x.scales"};
  const Lines lines(call, with_lines(call, both, 0, later(-2)));
  const std::vector<Hypothesis> found = lines.found();
  ASSERT_EQ(found.size(), 2u);
  const From round = [](Index i) { return (i + 7) % 9; };
  for (const bool comes_round : {false, true}) {
    Call altered = call;
    EXPECT_EQ(found[comes_round].stage, Stage::input);
    ASSERT_TRUE(found[comes_round].alter(altered));
    const Call wanted = with_lines(call, both, 0, comes_round ? round : later(-2));
    for (const auto& [name, tensor] : wanted.inputs) {
      EXPECT_TRUE(same(altered.input(name), *tensor)) << name << comes_round;
    }
  }
}

TEST(LineMap, OnePartIsTakenAlone) {
  const Call call = forward_call({});
  for (const auto& [name, other, axis] :
       {std::tuple{"x.codes", "x.scales", 0}, std::tuple{"x.scales", "x.codes", 0},
        std::tuple{"w.codes", "w.scales", 1}, std::tuple{"w.scales", "w.codes", 1}}) {
    const Lines lines(call, with_lines(call, {name}, axis, later(5)));
    const std::vector<Hypothesis> found = lines.found();
    ASSERT_EQ(found.size(), 2u) << name;
    Call altered = call;
    ASSERT_TRUE(found[0].alter(altered)) << name;
    EXPECT_TRUE(same(altered.input(name), with_lines(call, {name}, axis, later(5)).input(name)))
        << name;
    EXPECT_TRUE(same(altered.input(other), call.input(other))) << name;
  }
  const Call gradient = gradient_call({});
  const Lines lines(gradient, with_lines(gradient, {"dy.codes"}, 1, later(-1)));
  Call altered = gradient;
  ASSERT_EQ(lines.found().size(), 2u);
  ASSERT_TRUE(lines.found()[0].alter(altered));
  EXPECT_TRUE(same(altered.input("dy.codes"),
                   with_lines(gradient, {"dy.codes"}, 1, later(-1)).input("dy.codes")));
}

TEST(LineMap, SaysNothingOfOtherOperands) {
  const Call call = forward_call({});
  const Lines lines(call, with_lines(call, {"w.codes", "w.scales"}, 1, later(1)));
  ASSERT_EQ(lines.found().size(), 2u);
  Call without = call;
  without.inputs.erase("w.scales");
  EXPECT_TRUE(lines.found()[0].alter(without)) << "codes alone";
  Call flat = call;
  flat.replace("w.scales", mixed_scales({1}, 5));
  EXPECT_FALSE(lines.found()[0].alter(flat)) << "scales have no lines";
}

}  // namespace
}  // namespace mxo

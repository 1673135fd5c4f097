// Rules of codes from pairs of value and code: roundings, clamps, jumps, flushes, and their words.
#include "golden/explain/find/quantiser/code_rule.h"

#include <gtest/gtest.h>

#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Rounding kRoundings[] = {Rounding::even, Rounding::ties_away, Rounding::ties_zero,
                                   Rounding::zero, Rounding::away,      Rounding::down,
                                   Rounding::up};

TEST(CodeGrid, HasTheMagnitudesOfItsFormat) {
  const Grid e4m3(Dtype::e4m3), e5m2(Dtype::e5m2), fnuz(Dtype::e4m3fnuz), wide(Dtype::e5m2fnuz);
  EXPECT_EQ(e4m3.top(), 126u);
  EXPECT_EQ(e4m3.value(126), 448.0);
  EXPECT_EQ(e4m3.least_normal(), 0x1p-6);
  EXPECT_EQ(e5m2.top(), 123u);
  EXPECT_EQ(e5m2.value(123), 57344.0);
  EXPECT_EQ(e5m2.least_normal(), 0x1p-14);
  EXPECT_EQ(fnuz.top(), 127u);
  EXPECT_EQ(fnuz.value(127), 240.0);
  EXPECT_EQ(fnuz.least_normal(), 0x1p-7);
  EXPECT_EQ(wide.top(), 127u);
  EXPECT_EQ(wide.least_normal(), 0x1p-15);
  EXPECT_FALSE(e4m3.fnuz() || e5m2.fnuz());
  EXPECT_TRUE(fnuz.fnuz() && wide.fnuz());
  for (const int none : {0x7F, 0xFF}) EXPECT_TRUE(e4m3.no_number(static_cast<std::uint64_t>(none)));
  EXPECT_FALSE(e4m3.no_number(0x7E) || e4m3.no_number(0xFE) || e4m3.no_number(0x80));
  EXPECT_TRUE(e5m2.no_number(0x7C) && e5m2.no_number(0xFF));
  EXPECT_FALSE(e5m2.no_number(0x7B));
  EXPECT_TRUE(fnuz.no_number(0x80));
  EXPECT_FALSE(fnuz.no_number(0) || fnuz.no_number(0x7F) || fnuz.no_number(0xFF));
}

/// The magnitude code as the name of the rounding says, by search.
std::size_t searched(const Grid& g, double v, Rounding rounding) {
  const double m = std::abs(v);
  if (m >= g.value(g.top())) return g.top();
  std::size_t low = 0;
  while (g.value(low + 1) <= m) ++low;
  if (g.value(low) == m) return low;
  const double to_low = m - g.value(low);
  const double to_high = g.value(low + 1) - m;
  const bool tie = to_low == to_high;
  switch (rounding) {
    case Rounding::even: return tie ? low + low % 2 : to_high < to_low ? low + 1 : low;
    case Rounding::ties_away: return tie || to_high < to_low ? low + 1 : low;
    case Rounding::ties_zero: return !tie && to_high < to_low ? low + 1 : low;
    case Rounding::zero: return low;
    case Rounding::away: return low + 1;
    case Rounding::down: return v > 0 ? low : low + 1;
    case Rounding::up: return v > 0 ? low + 1 : low;
    case Rounding::odd: break;
  }
  return 0;
}

/// Every magnitude, and four places between neighbours, of both signs.
std::vector<double> values_of(const Grid& g) {
  std::vector<double> list;
  for (std::size_t c = 0; c < g.top(); ++c) {
    for (const double share : {0.0, 0.25, 0.5, 0.75, 0.96875}) {
      const double m = g.value(c) + share * (g.value(c + 1) - g.value(c));
      list.push_back(m);
      list.push_back(-m);
    }
  }
  for (const double more : {1.0, 1.01, 2.0}) list.push_back(more * g.value(g.top()));
  return list;
}

TEST(CodeGrid, RoundsAsItsNameSays) {
  for (const Dtype format : {Dtype::e4m3, Dtype::e5m2, Dtype::e4m3fnuz, Dtype::e5m2fnuz}) {
    const Grid g(format);
    for (const Rounding rounding : kRoundings) {
      for (const double v : values_of(g)) {
        EXPECT_EQ(g.round(v, rounding), searched(g, v, rounding))
            << v << " " << static_cast<int>(rounding);
      }
    }
  }
}

/// The rule that is found of the pairs that `rule` makes, in words; "none".
std::string words_of(const Grid& g, const CodeRule& rule, double most = 1e9) {
  std::vector<CodePair> pairs;
  for (const double v : values_of(g)) {
    if (std::abs(v) <= most) pairs.push_back({v, rule.code(g, v)});
  }
  const auto found = fit(g, pairs);
  if (!found) return "none";
  for (const CodePair& p : pairs) EXPECT_EQ(found->code(g, p.v), p.code) << p.v;
  return found->words(g, {Rounding::even, g.top()});
}

TEST(CodeRules, AreNamedByTheirRounding) {
  const Grid g(Dtype::e4m3);
  const std::string names[] = {"",
                               "codes are rounded to nearest, ties away from zero",
                               "codes are rounded to nearest, ties toward zero",
                               "codes are rounded toward zero (truncated)",
                               "codes are rounded away from zero",
                               "codes are rounded down, toward minus infinity",
                               "codes are rounded up, toward plus infinity"};
  for (const Rounding rounding : kRoundings) {
    EXPECT_EQ(words_of(g, {rounding, g.top(), 0, false}), names[static_cast<int>(rounding)]);
  }
}

TEST(CodeRules, AreNamedByTheirLimits) {
  const Grid g(Dtype::e4m3);
  EXPECT_EQ(words_of(g, {Rounding::even, 120, 0, false}), "codes are clamped at 256");
  EXPECT_EQ(words_of(g, {Rounding::zero, 125, 0, false}),
            "codes are rounded toward zero (truncated); codes are clamped at 416");
  EXPECT_EQ(words_of(g, {Rounding::even, g.top(), 320, false}), "everything above 320 becomes 448");
  EXPECT_EQ(words_of(g, {Rounding::even, g.top(), 0, true}), "subnormal codes are flushed to zero");
  EXPECT_EQ(words_of(g, {Rounding::even, g.top(), 320, true}),
            "everything above 320 becomes 448; subnormal codes are flushed to zero");
  EXPECT_EQ(words_of(g, {Rounding::away, 120, 0, true}),
            "codes are rounded away from zero; codes are clamped at 256; subnormal codes are "
            "flushed to zero");
  // Where no value lies below the jump, it begins above the largest that keeps its code.
  EXPECT_EQ(
      fit(g, {{1.0, 0x38}, {330.0, 122}, {332.0, g.top()}})->words(g, {Rounding::even, g.top()}),
      "everything above 330 becomes 448");
  EXPECT_EQ(
      fit(g, {{1.0, 0x38}, {330.0, 122}, {400.0, g.top()}})->words(g, {Rounding::even, g.top()}),
      "everything above 352 becomes 448");
  EXPECT_EQ(fit(g, {{320.0, 122}, {400.0, g.top()}})->words(g, {Rounding::even, g.top()}),
            "everything above 320 becomes 448");
  EXPECT_EQ(fit(g, {{330.0, 122}, {352.0, g.top()}})->words(g, {Rounding::even, g.top()}),
            "everything above 330 becomes 448");
  EXPECT_FALSE(fit(g, {{1.0, g.top()}, {2.0, g.top()}})) << "a jump above nothing";
  // One pair is enough.
  EXPECT_EQ(fit(g, {{0x1p-8, 0}, {1.0, 0x38}})->words(g, {Rounding::even, g.top()}),
            "subnormal codes are flushed to zero");
  EXPECT_EQ(fit(g, {{1.0, 0x38}, {1.125, 0x38}})->words(g, {Rounding::even, g.top()}),
            "codes are clamped at 1");
  EXPECT_EQ(fit(g, {{1.0, 0}, {2.0, 0}})->words(g, {Rounding::even, g.top()}),
            "codes are clamped at 0");
  EXPECT_EQ(CodeRule{}.words(g, {Rounding::even, g.top()}), "codes are clamped at 0");
  const CodeRule half{Rounding::even, g.top(), 0.5, false};
  EXPECT_EQ(half.words(g, {Rounding::even, g.top()}), "everything above 0.5 becomes 448");
  CodeRule lost{Rounding::even, g.top(), 0, false, 0.5};
  EXPECT_TRUE(lost.gives(g, 0.5, 0x7F));
  EXPECT_EQ(lost.words(g, {Rounding::even, g.top()}),
            "what is too large for a code becomes NaN or infinity, rather than clamped");
}

TEST(CodeRules, AreNoneWhereAPairDoesNotFit) {
  const Grid g(Dtype::e4m3);
  EXPECT_EQ(fit(g, {})->words(g, {Rounding::even, g.top()}), "");
  EXPECT_FALSE(fit(g, {{1.0, 0x38}, {1.0, 0x39}}));
  EXPECT_FALSE(fit(g, {{1.0, 0x38}, {2.0, 0x41}}));
  EXPECT_FALSE(fit(g, {{1.0, 0x38}, {1.125, 0x39}, {300.0, 0x38}})) << "clamped, and 1.125 not";
  EXPECT_FALSE(fit(g, {{2.0, 0x40}, {300.0, 0x38}}));
  EXPECT_FALSE(fit(g, {{0x1.0p-8, 0}, {0x1.8p-8, 3}})) << "flushed, and not";
  // What becomes the largest code begins at normal numbers.
  EXPECT_FALSE(fit(g, {{0x1p-6, 8}, {0.03, g.top()}, {1.0, g.top()}}));
  EXPECT_TRUE(fit(g, {{0x1p-6, 8}, {0x1p-5, g.top()}, {1.0, g.top()}}));
  EXPECT_FALSE(fit(g, {{0x1p-6, 8}, {0x1p-5, g.top()}, {1.0, 0x38}}));
}

TEST(CodeRules, GiveSignsAndWhatIsNoNumber) {
  const Grid g(Dtype::e4m3), z(Dtype::e4m3fnuz);
  const CodeRule usual{Rounding::even, g.top(), 0, false};
  EXPECT_TRUE(usual.gives(g, 1.0, 0x38) && usual.gives(g, -1.0, 0xB8));
  EXPECT_FALSE(usual.gives(g, 1.0, 0xB8) || usual.gives(g, -1.0, 0x38));
  EXPECT_TRUE(usual.gives(g, 0.0, 0) && usual.gives(g, -0.0, 0x80));
  EXPECT_FALSE(usual.gives(g, 0.0, 0x80) || usual.gives(g, -0.0, 0));
  EXPECT_FALSE(usual.gives(g, 500.0, 0x7F));
  CodeRule flushed = usual;
  flushed.flush = true;
  EXPECT_TRUE(flushed.gives(g, 0x1p-8, 0) && flushed.gives(g, 0x1p-8, 0x80));
  EXPECT_FALSE(flushed.gives(g, 0x1p-8, 2) || flushed.gives(g, 1.0, 0));
  CodeRule lost = usual;
  lost.lost = 449;
  EXPECT_TRUE(lost.gives(g, 449, 0x7F) && lost.gives(g, -500, 0x7F) && lost.gives(g, 448, 0x7E));
  EXPECT_FALSE(lost.gives(g, 449, 0x7E) || lost.gives(g, 448, 0x7F));
  const CodeRule fnuz{Rounding::even, z.top(), 0, false};
  EXPECT_TRUE(fnuz.gives(z, -0.0, 0) && fnuz.gives(z, 0.0, 0) && fnuz.gives(z, -1.0, 0xC0));
  EXPECT_FALSE(fnuz.gives(z, -0.0, 0x80) || fnuz.gives(z, 0.0, 0x80));
  CodeRule flushed_fnuz = fnuz;
  flushed_fnuz.flush = true;
  EXPECT_TRUE(flushed_fnuz.gives(z, -0x1p-9, 0));
  EXPECT_FALSE(flushed_fnuz.gives(z, -0x1p-9, 0x80)) << "NaN";
}

TEST(CodeRules, KeepTheLargestCodeAtTheJump) {
  const Grid g(Dtype::e4m3);
  const CodeRule jump{Rounding::even, g.top(), 320, false};
  EXPECT_EQ(jump.code(g, 320), 122u);
  EXPECT_EQ(jump.code(g, -321), g.top());
  const CodeRule half{Rounding::even, g.top(), 0.5, false};
  EXPECT_EQ(half.code(g, 0.5), 0x30u);
  EXPECT_EQ(half.code(g, 0.75), g.top());
  EXPECT_EQ(CodeRule{}.code(g, 2.0), 0u);
  const CodeRule flush{Rounding::even, g.top(), 0, true};
  EXPECT_EQ(flush.code(g, 0x1p-6), 8u);
  EXPECT_EQ(flush.code(g, 0x1.8p-7), 0u);
}

}  // namespace
}  // namespace mxo

// Rules of codes from pairs of value and code: roundings, clamps, jumps, flushes, and their words.
#include "golden/explain/find/quantiser/quantiser.h"

#include <gtest/gtest.h>

namespace mxo::code_rule_test {
namespace {

const Grid kGrid(Dtype::e4m3);
const std::size_t kTop = 126;

/// Every magnitude, and four places between neighbours, of both signs.
std::vector<double> values_of(const Grid& g) {
  std::vector<double> list;
  for (std::size_t c = 0; c < g.top(); ++c) {
    for (const double share : {0.0, 0.25, 0.5, 0.75, 0.96875}) {
      const double m = g.value(c) + share * (g.value(c + 1) - g.value(c));
      list.insert(list.end(), {m, -m});
    }
  }
  for (const double more : {1.0, 1.01, 2.0}) list.push_back(more * g.value(g.top()));
  return list;
}

/// The codec's own roundings are another way to the same codes.
TEST(CodeGrid, RoundsAsTheCodecDoes) {
  const auto same = [](auto tag, Dtype format) {
    const Grid g(format);
    for (const double v : values_of(g)) {
      for (int how = 0; how < 8; ++how) {
        const auto rounding = static_cast<Rounding>(how);
        const auto code = encode_rounded<decltype(tag)::type::spec>(static_cast<float>(v), rounding,
                                                                    Overflow::saturate);
        EXPECT_EQ(g.round(v, rounding), code.bits & 0x7Fu) << v << " " << kRoundingNames[how];
      }
    }
  };
  for (const Dtype format : {Dtype::e4m3, Dtype::e5m2, Dtype::e4m3fnuz, Dtype::e5m2fnuz})
    visit_minifloat8(format, [&](auto tag) { same(tag, format); });
}

std::string in_words(const std::optional<CodeRule>& rule) {
  return rule ? rule->words(kGrid, {Rounding::even, kTop}) : "none";
}

TEST(CodeRules, AreFoundOfThePairsTheyMake) {
  struct Row {
    CodeRule rule;
    const char* words;
  };
  const Row rows[] = {
      {{Rounding::even, kTop}, ""},
      {{Rounding::ties_away, kTop}, "codes are rounded to nearest, ties away from zero"},
      {{Rounding::ties_zero, kTop}, "codes are rounded to nearest, ties toward zero"},
      {{Rounding::zero, kTop}, "codes are rounded toward zero (truncated)"},
      {{Rounding::away, kTop}, "codes are rounded away from zero"},
      {{Rounding::down, kTop}, "codes are rounded down, toward minus infinity"},
      {{Rounding::up, kTop}, "codes are rounded up, toward plus infinity"},
      {{Rounding::even, 120}, "codes are clamped at 256"},
      {{Rounding::zero, 125},
       "codes are rounded toward zero (truncated); codes are clamped at 416"},
      {{Rounding::even, kTop, 320}, "everything above 320 becomes 448"},
      {{Rounding::even, kTop, 0, Flush::codes}, "subnormal codes are flushed to zero"},
      {{Rounding::even, kTop, 0, Flush::values},
       "values below the normal codes are flushed to zero before they are rounded"},
      {{Rounding::even, kTop, 320, Flush::codes},
       "everything above 320 becomes 448; subnormal codes are flushed to zero"},
      {{Rounding::away, 120, 0, Flush::codes},
       "codes are rounded away from zero; codes are clamped at 256; subnormal codes are flushed "
       "to zero"},
      {{.rounding = Rounding::zero, .clamp = kTop, .low = Rounding::even},
       "codes are rounded toward zero (truncated); what is below the normal codes is rounded to "
       "nearest, ties to even"},
      {{.rounding = Rounding::even, .clamp = kTop, .low_step = 3},
       "subnormal codes are counted in steps of 2^-6 rather than 2^-9"},
      {{.rounding = Rounding::zero, .clamp = kTop, .low_step = -1},
       "codes are rounded toward zero (truncated); subnormal codes are counted in steps of 2^-10 "
       "rather than 2^-9"},
  };
  for (const Row& row : rows) {
    std::vector<CodePair> pairs;
    for (const double v : values_of(kGrid)) pairs.push_back({v, row.rule.code(kGrid, v)});
    const auto found = fit(kGrid, pairs);
    EXPECT_EQ(in_words(found), row.words);
    for (const CodePair& p : pairs) EXPECT_EQ(found->code(kGrid, p.v), p.code) << p.v;
  }
}

TEST(CodeRules, AreToldByFewPairs) {
  struct Row {
    std::vector<CodePair> pairs;
    const char* words;
  };
  const Row rows[] = {
      {{}, ""},
      // Where no value lies below the jump, it begins above the largest that keeps its code.
      {{{1.0, 0x38}, {330.0, 122}, {332.0, kTop}}, "everything above 330 becomes 448"},
      {{{1.0, 0x38}, {330.0, 122}, {400.0, kTop}}, "everything above 352 becomes 448"},
      {{{1.0, kTop}, {2.0, kTop}}, "none"},                // a jump above nothing
      {{{0x1p-6, 8}, {0.03, kTop}, {1.0, kTop}}, "none"},  // it begins at normal numbers
      {{{0x1p-6, 8}, {0x1p-5, kTop}, {1.0, 0x38}}, "none"},
      {{{0x1p-8, 0}, {1.0, 0x38}}, "subnormal codes are flushed to zero"},
      {{{0x1p-8, 0}, {0x1.8p-8, 3}}, "none"},  // flushed, and not
      {{{1.0, 0x38}, {1.125, 0x38}}, "codes are clamped at 1"},
      {{{1.0, 0x38}, {1.125, 0x39}, {300.0, 0x38}}, "none"},  // clamped, and 1.125 not
      {{{1.0, 0x38}, {1.0, 0x39}}, "none"},
      {{{2.0, 0x40}, {300.0, 0x38}}, "none"},
  };
  for (const Row& row : rows) EXPECT_EQ(in_words(fit(kGrid, row.pairs)), row.words);
}

TEST(CodeRules, GiveSignsAndWhatIsNoNumber) {
  const Grid z(Dtype::e4m3fnuz);
  const CodeRule usual{Rounding::even, kTop};
  EXPECT_TRUE(usual.gives(kGrid, -1.0, 0xB8) && usual.gives(kGrid, -0.0, 0x80));
  EXPECT_FALSE(usual.gives(kGrid, 1.0, 0xB8) || usual.gives(kGrid, 0.0, 0x80));
  EXPECT_FALSE(usual.gives(kGrid, 500.0, 0x7F));
  const CodeRule flushed{Rounding::even, kTop, 0, Flush::codes};
  EXPECT_TRUE(flushed.gives(kGrid, 0x1p-8, 0) && flushed.gives(kGrid, 0x1p-8, 0x80));
  EXPECT_FALSE(flushed.gives(kGrid, 0x1p-8, 2) || flushed.gives(kGrid, 1.0, 0));
  const CodeRule lost{Rounding::even, kTop, 0, Flush::none, 449};
  EXPECT_TRUE(lost.gives(kGrid, -500, 0x7F) && lost.gives(kGrid, 448, 0x7E));
  EXPECT_FALSE(lost.gives(kGrid, 449, 0x7E) || lost.gives(kGrid, 448, 0x7F));
  const CodeRule fnuz{Rounding::even, z.top(), 0, Flush::codes};
  EXPECT_TRUE(fnuz.gives(z, -0.0, 0) && fnuz.gives(z, -1.0, 0xC0) && fnuz.gives(z, -0x1p-9, 0));
  EXPECT_FALSE(fnuz.gives(z, -0.0, 0x80) || fnuz.gives(z, -0x1p-9, 0x80)) << "NaN";
}

}  // namespace
}  // namespace mxo::code_rule_test

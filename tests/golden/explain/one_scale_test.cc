// One scale where several are expected: of all blocks, of rows, and what else gives one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "golden/explain/recover/degenerate_scales.h"
#include "tests/golden/came.h"

namespace mxo {
namespace {

/// Scales of 1/4, 2/4, 3/4, .. of amax 1, 2, 3, ..; what came is the one named.
struct Scales {
  std::vector<float> amax;
  Came came;
  explicit Scales(float one, Index n = 12)
      : came(filled<float>(Dtype::f32, {n}, [](Index i) { return static_cast<float>(i + 1) / 4; }),
             filled<float>(Dtype::f32, {n}, [&](Index) { return one; }), {"any", {}, {}},
             "scales") {
    for (Index i = 0; i < n; ++i) amax.push_back(static_cast<float>(i + 1));
  }
  std::string words(const ScaleRuleFound* rule = nullptr) {
    const auto claim = claim_one_scale(came.output, amax, rule);
    if (!claim) return "none";
    EXPECT_EQ(claim->id, "scale.one");
    EXPECT_EQ(claim->where.tensor, "scales");
    EXPECT_EQ(claim->elements, static_cast<double>(came.output.differing));
    EXPECT_EQ(came.output.left, 0);
    return claim->sentence;
  }
};

ScaleRuleFound rule_by(float by) {
  return {"", "", [by](float a) { return a * by; }};
}

TEST(OneScale, IsSaidAsANumber) {
  EXPECT_EQ(Scales(0.0125f).words(), "every scale is 0.0125000002, whatever amax is");
  EXPECT_EQ(Scales(0.375f).words(), "every scale is 0.375, whatever amax is");
  EXPECT_EQ(Scales(1.0f).words(), "every scale is 1, whatever amax is");
  EXPECT_EQ(Scales(2.0f).words(), "every scale is 2^1, whatever amax is");
  EXPECT_EQ(Scales(0x1p-7f).words(), "every scale is 2^-7, whatever amax is");
  const auto of_bytes = [](std::uint8_t one) {
    Came came(filled<std::uint8_t>(Dtype::e8m0, {12}, [](Index i) { return 80 + i; }),
              filled<std::uint8_t>(Dtype::e8m0, {12}, [&](Index) { return one; }));
    const auto claim = claim_one_scale(came.output, std::vector<float>(12, 1.0f), nullptr);
    return claim ? claim->sentence : "none";
  };
  EXPECT_EQ(of_bytes(127), "every scale is 1 (byte 127), whatever amax is");
  EXPECT_EQ(of_bytes(120), "every scale is 2^-7 (byte 120), whatever amax is");
  EXPECT_EQ(of_bytes(255), "none") << "NaN";
}

TEST(OneScale, IsAPositiveNumber) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float none : {0.0f, -1.0f, kInf, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(Scales(none).words(), "none") << none;
  }
}

TEST(OneScale, IsWrongForEightBlocks) {
  // Of n blocks one has it rightly.
  EXPECT_NE(Scales(0.25f, 9).words(), "none");
  EXPECT_EQ(Scales(0.25f, 8).words(), "none");
}

TEST(OneScale, IsThatOfEveryBlock) {
  for (const Index other : {0, 5, 11}) {
    Scales s(0.0625f);
    s.came.actual.as<float>()[other] = 0.125f;
    EXPECT_EQ(s.words(), "none") << other;
  }
  Scales right(0.0625f);
  right.came.actual.as<float>()[5] = right.came.expected.as<float>()[5];
  right.came.output.marks[5] = Mark::same;
  EXPECT_EQ(right.words(), "none");
}

TEST(OneScale, OfNoBlockMayBeAny) {
  for (const Index at : {0, 5}) {
    Scales s(0.0625f, 10);
    s.amax[static_cast<std::size_t>(at)] = 0.0f;
    s.came.actual.as<float>()[at] = s.came.expected.as<float>()[at];
    Came came(s.came.expected, s.came.actual);
    const auto claim = claim_one_scale(came.output, s.amax, nullptr);
    ASSERT_TRUE(claim) << at;
    EXPECT_EQ(claim->sentence, "every scale is 2^-4, whatever amax is");
    EXPECT_EQ(claim->elements, 9.0);
    came.actual.as<float>()[at] = 0.5f;
    Came wrong(came.expected, came.actual);
    EXPECT_FALSE(claim_one_scale(wrong.output, s.amax, nullptr)) << "it differs, too";
  }
}

TEST(OneScale, MayBeThatOfTheWholeTensor) {
  // The largest amax is 12.
  const ScaleRuleFound twelfth = rule_by(1.0f / 12.0f);
  EXPECT_EQ(Scales(1.0f).words(&twelfth),
            "every scale is 1, whatever amax is; as well if amax is that of the whole tensor");
  const ScaleRuleFound half = rule_by(0.5f);
  EXPECT_EQ(Scales(1.0f).words(&half), "every scale is 1, whatever amax is");
  EXPECT_EQ(Scales(6.0f).words(&half), "none") << "the amax of all is taken";
  EXPECT_EQ(Scales(5.0f).words(&half), "every scale is 5, whatever amax is");
  Scales reversed(6.0f);
  std::reverse(reversed.amax.begin(), reversed.amax.end());
  EXPECT_EQ(reversed.words(&half), "none");
}

TEST(OneScale, IsNotLookedForWhereSomethingIsExplained) {
  Scales s(0.0625f);
  s.came.output.settle(3);
  EXPECT_EQ(s.words(), "none");
}

/// Scales [10, 2] of amax 1, 2, .. times 1/4, of which rows 4 to 9 came as one.
std::string in_part(float one, float by, bool of_whole, Index right = -1, Index rows = 6) {
  const auto given = [](Index i) { return static_cast<float>(i + 1) / 4; };
  Came came(filled<float>(Dtype::f32, {10, 2}, given),
            filled<float>(Dtype::f32, {10, 2}, [&](Index i) {
              return i < 20 - 2 * rows || i == right ? given(i) : one;
            }));
  std::vector<float> amax;
  for (Index i = 0; i < 20; ++i) amax.push_back(static_cast<float>(i + 1));
  const auto claim = claim_one_scale_in_part(came.output, amax, rule_by(by), of_whole);
  if (!claim) return "none";
  EXPECT_EQ(claim->id, "scale.one");
  return claim->sentence;
}

TEST(OneScale, InPartNamesItsRows) {
  EXPECT_EQ(in_part(0.125f, 0.25f, false),
            "rows 4 to 9 of y: every scale is 2^-3, whatever amax is");
  EXPECT_EQ(in_part(0.125f, 0.25f, false, 10),
            "rows 4 and 6 to 9 of y: every scale is 2^-3, whatever amax is");
  EXPECT_EQ(in_part(0.125f, 0.25f, false, -1, 4),
            "rows 6 to 9 of y: every scale is 2^-3, whatever amax is");
  EXPECT_EQ(in_part(0.125f, 0.25f, false, -1, 3), "none") << "six";
  EXPECT_EQ(in_part(0.125f, 0.25f, false, -1, 0), "none");
}

TEST(OneScale, InPartMayBeThatOfTheWholeTensor) {
  EXPECT_EQ(in_part(1.0f, 0.05f, true),
            "rows 4 to 9 of y: every scale is 1, whatever amax is; as well if amax is that of the "
            "whole tensor");
  EXPECT_EQ(in_part(1.0f, 0.05f, false), "none");
  EXPECT_EQ(in_part(1.0f, 0.25f, true), "none");
  EXPECT_EQ(in_part(1.0f, 0.25f, false), "rows 4 to 9 of y: every scale is 1, whatever amax is");
  EXPECT_EQ(in_part(10.0f, 0.5f, true), "none");
  EXPECT_EQ(in_part(10.0f, 0.5f, false), "none");
}

TEST(OneScale, InPartIsAPositiveNumber) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float none : {0.0f, -1.0f, kInf, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(in_part(none, 0.25f, false), "none") << none;
  }
}

}  // namespace
}  // namespace mxo

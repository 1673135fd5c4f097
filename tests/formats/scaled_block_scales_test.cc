// The f32 scale of a block from its amax, by every choice of a rule.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "formats/scaled_block.h"

namespace mxo {
namespace {

constexpr float kInputMax = 1000.0f;
F32Scale scale_of(float amax, const F32ScaleRule& rule) {
  return f32_scale<kE4M3>(amax, rule, kInputMax);
}

/// A rule of one quotient and nothing else.
F32ScaleRule plain(Quotient quotient) {
  return {.quotient = quotient, .epsilon = 0.0, .floor = AmaxFloor::in_f32};
}
constexpr Quotient kMultipliers[] = {Quotient::max_over_amax_f64, Quotient::max_over_amax,
                                     Quotient::max_times_reciprocal};
constexpr Quotient kDivisors[] = {Quotient::amax_over_max, Quotient::amax_times_reciprocal};

TEST(F32Scale, AmaxIsRaisedToEpsilon) {
  for (const Quotient quotient : kMultipliers) {
    F32ScaleRule rule = plain(quotient);
    rule.epsilon = 2.0;
    EXPECT_EQ(scale_of(0.0f, rule).factor, 224.0f);
    EXPECT_EQ(scale_of(1.0f, rule).factor, 224.0f);
    EXPECT_EQ(scale_of(4.0f, rule).factor, 112.0f);
  }
  for (const Quotient quotient : kDivisors) {
    F32ScaleRule rule = plain(quotient);
    rule.epsilon = 896.0;
    EXPECT_EQ(scale_of(1.0f, rule).stored, 2.0f);
  }
}

TEST(F32Scale, EpsilonKeepsItsBitsWhereAmaxIsWidened) {
  // 448 in f32, but 448 over it lies beyond the middle between 1 and the float below.
  F32ScaleRule rule{.epsilon = 448.0 * (1.0 + 0.55 * 0x1p-24)};
  EXPECT_EQ(scale_of(0.0f, rule).factor, 1.0f - 0x1p-24f);
  EXPECT_EQ(scale_of(447.0f, rule).factor, 1.0f - 0x1p-24f);
  EXPECT_EQ(scale_of(896.0f, rule).factor, 0.5f);
  rule.floor = AmaxFloor::in_f32;
  EXPECT_EQ(scale_of(0.0f, rule).factor, 1.0f);
  rule = {.epsilon = 0.0};
  EXPECT_EQ(scale_of(0.0f, rule).factor, INFINITY);
  EXPECT_EQ(F32ScaleRule{}.epsilon, 1e-12);
}

TEST(F32Scale, AmaxIsLoweredToItsBound) {
  for (const Quotient quotient : kMultipliers) {
    F32ScaleRule rule = plain(quotient);
    rule.amax_max = 7.0;
    EXPECT_EQ(scale_of(8.0f, rule).factor, 64.0f);
    EXPECT_EQ(scale_of(INFINITY, rule).factor, 64.0f);
    EXPECT_EQ(scale_of(3.5f, rule).factor, 128.0f);
    rule.amax_max = 0.5;
    EXPECT_EQ(scale_of(1.0f, rule).factor, 896.0f);
  }
  F32ScaleRule widened{.amax_max = 7.0};
  EXPECT_EQ(scale_of(8.0f, widened).factor, 64.0f);
  EXPECT_EQ(scale_of(3.5f, widened).factor, 128.0f);
  widened.amax_max = 0x1p-60;  // below epsilon, which counts first
  EXPECT_EQ(scale_of(0.0f, widened).factor, 0x1.cp68f);
}

}  // namespace
}  // namespace mxo

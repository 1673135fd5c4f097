// Rules of scales as data, and where the scales of a blocked matrix lie.
#include <gtest/gtest.h>

#include <vector>

#include "formats/scale_layout.h"
#include "formats/scale_rules.h"

namespace mxo {
namespace {

TEST(ScaleProfile, BlockWithNanHasTheStacksByte) {
  EXPECT_EQ(shared_scale<kE4M3>(quiet_nan(), ScaleMode::rceil, kJaxMx).bits, 0);
  EXPECT_EQ(shared_scale<kE4M3>(quiet_nan(), ScaleMode::floor, kFlashinferMx).bits, 0x7F);
  EXPECT_EQ(shared_scale<kE4M3>(quiet_nan(), ScaleMode::rceil, kTorchao).bits, 0xFF);
}

bool regular(const ScaleProfile& profile, const ElementRule& element = {}) {
  return is_regular(mx_rule(ScaleMode::rceil, profile, element));
}

TEST(ScaleRule, IsRegularWhereScaleModeSaysAll) {
  for (const ScaleProfile& profile : {kTorchao, kTorchaoCuda, kTransformerEngine, kOcp})
    EXPECT_TRUE(regular(profile));
  EXPECT_TRUE(regular({.descale = Descale::division}));
  EXPECT_TRUE(is_regular(f32_rule(kDeepGemm)));
}

TEST(ScaleRule, IsIrregularByAnyOfItsParts) {
  EXPECT_FALSE(regular(kTorchao, kTorchCast));
  EXPECT_FALSE(regular(kTorchao, {.zero = ZeroSign::lost}));
  EXPECT_FALSE(regular({.exponent = ExponentRule::floor_amax}));
  EXPECT_FALSE(regular({.up = SubnormalUp::always}));
  EXPECT_FALSE(regular({.infinity = InfinityRule::flush}));
  EXPECT_FALSE(regular({.infinity = InfinityRule::saturate_flush}));
  EXPECT_FALSE(regular({.nan_scale = 0}));
  EXPECT_FALSE(regular({.descale = Descale::division_in_bf16}));
  EXPECT_FALSE(regular({.descale = Descale::division_in_x}));
  // Two wrongs make no right.
  EXPECT_FALSE(regular({.exponent = ExponentRule::quarter}, kTorchCast));
  EXPECT_FALSE(regular({.infinity = InfinityRule::flush, .up = SubnormalUp::always}));
  EXPECT_FALSE(regular({.descale = Descale::division_in_f16, .nan_scale = 0}));
}

TEST(ScaleRule, EndOfElementsIsOfFnuzAlone) {
  const ScaleRule rule = f32_rule(kVllmToken, kTorchClamp224);
  EXPECT_EQ(rule_for(rule, Dtype::f32, Dtype::e4m3fnuz).element.fnuz_max, 224);
  for (const Dtype other : {Dtype::e4m3, Dtype::e5m2, Dtype::e5m2fnuz})
    EXPECT_EQ(rule_for(rule, Dtype::f32, other).element.fnuz_max, 0);
}

TEST(ScaleRule, EpsilonIsRoundedToTheTypeOfX) {
  const ScaleRule rule = f32_rule(kNativeGroup);  // 1e-10
  const auto of = [&](Dtype x) { return rule_for(rule, x, Dtype::e4m3).f32; };
  for (const Dtype x : {Dtype::f32, Dtype::bf16, Dtype::f16})
    EXPECT_EQ(of(x).floor, AmaxFloor::in_f32);
  EXPECT_EQ(of(Dtype::f32).epsilon, static_cast<double>(1e-10f));
  EXPECT_EQ(of(Dtype::bf16).epsilon, 0x1.b8p-34);  // of 0x1.b7cdfep-34
  EXPECT_EQ(of(Dtype::f16).epsilon, 0.0);          // below half of 2^-24
  const F32ScaleRule elsewhere = rule_for(f32_rule(kDeepGemm), Dtype::bf16, Dtype::e4m3).f32;
  EXPECT_EQ(elsewhere.epsilon, 1e-4);
  EXPECT_EQ(rule_for({}, Dtype::bf16, Dtype::e4m3).f32.floor, AmaxFloor::after_widening);
}

TEST(ScaleRule, StepsInTheTypeOfXAreResolved) {
  const auto of = [&](Dtype x) { return rule_for(f32_rule(kVllmScaled), x, Dtype::e4m3).f32; };
  EXPECT_EQ(of(Dtype::f32).code, CodeScaling::multiply);
  EXPECT_EQ(of(Dtype::bf16).code, CodeScaling::multiply_in_bf16);
  EXPECT_EQ(of(Dtype::f16).code, CodeScaling::multiply_in_f16);
  EXPECT_EQ(of(Dtype::f16).x, Dtype::f16);
  // 1/3 = 3EAB in bf16, times 448 = 149.6: 4316 (150), not 4315 (149).
  EXPECT_EQ(f32_scale<kE4M3>(3.0f, of(Dtype::bf16), largest_finite<BF16>()).factor, 150.0f);
  EXPECT_NE(f32_scale<kE4M3>(3.0f, of(Dtype::f32), largest_finite<float>()).factor, 150.0f);
  EXPECT_EQ(rule_for(f32_rule(kTorchaoTensor), Dtype::bf16, Dtype::e4m3).f32.code,
            CodeScaling::divide);
}

TEST(ScaleRule, StoresOfAMultiplierWhatItsRuleSays) {
  const F32Scale scale = f32_scale<kE4M3>(3.0f, kTorchaoMultiplier, largest_finite<float>());
  EXPECT_EQ(scale.stored, scale.factor);
  EXPECT_EQ(scale.factor, 448.0f / 3.0f);
  EXPECT_EQ(given_scale(3.0f, kTorchaoMultiplier).stored, 3.0f);
  EXPECT_EQ(given_scale(0.06f, kFbgemmTriton).stored, div_full(1.0f, 0.06f));  // not 1 / 0.06f
}

TEST(ScaleRule, QuotientIsRoundedToTheTypeOfX) {
  const ScaleRule rule = mx_rule(ScaleMode::rceil, kJaxMx);
  const auto of = [&](Dtype x) { return rule_for(rule, x, Dtype::e4m3).e8m0.descale; };
  EXPECT_EQ(of(Dtype::f32), Descale::division);
  EXPECT_EQ(of(Dtype::bf16), Descale::division_in_bf16);
  EXPECT_EQ(of(Dtype::f16), Descale::division_in_f16);
  const ScaleRule exact = mx_rule(ScaleMode::rceil, kOcp);
  EXPECT_EQ(rule_for(exact, Dtype::bf16, Dtype::e4m3).e8m0.descale, Descale::exact);
}

TEST(ScaleLayout, TilesFollowEachOtherAlongARow) {
  EXPECT_EQ(kTileBytes, 512);
  EXPECT_EQ(blocked_offset(0, 4, 3), 512);
  EXPECT_EQ(blocked_offset(0, 8, 3), 1024);
  EXPECT_EQ(blocked_offset(128, 0, 3), 1536);
  EXPECT_EQ(blocked_offset(256, 4, 3), 3584);
}

TEST(ScaleLayout, TileIs32LinesOfFourWords) {
  EXPECT_EQ(blocked_offset(1, 0, 1), 16);
  EXPECT_EQ(blocked_offset(31, 0, 1), 496);
  EXPECT_EQ(blocked_offset(32, 0, 1), 4);
  EXPECT_EQ(blocked_offset(96, 0, 1), 12);
  EXPECT_EQ(blocked_offset(0, 3, 1), 3);
}

TEST(ScaleLayout, EveryByteIsOneElements) {
  std::vector<int> named(static_cast<std::size_t>(blocked_bytes(256, 12)));
  for (Index row = 0; row < 256; ++row) {
    for (Index column = 0; column < 12; ++column)
      ++named.at(static_cast<std::size_t>(blocked_offset(row, column, 3)));
  }
  for (const int times : named) EXPECT_EQ(times, 1);
}

TEST(ScaleLayout, BytesCountWholeTiles) {
  EXPECT_EQ(blocked_bytes(1, 1), 512);
  EXPECT_EQ(blocked_bytes(128, 4), 512);
  EXPECT_EQ(blocked_bytes(129, 5), 2048);
  EXPECT_EQ(blocked_bytes(0, 5), 0);
}

}  // namespace
}  // namespace mxo

// Words of a call that say how scales are made: blocks, rules, their constants, and the outputs.
#include "ops/catalogue/scale_parameters.h"

#include <gtest/gtest.h>

#include "tests/support/random_tensors.h"
#include "tests/support/refusal.h"

namespace mxo::scale_parameters_test {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

TEST(ScaleParameters, BlocksAreReadAsPeopleTypeThem) {
  const std::pair<const char*, BlockExtents> read[] = {
      {"1x128", {1, 128}},      {"(1, 128)", {1, 128}},     {"[1,128]", {1, 128}},
      {"32x1", {32, 1}},        {"1xK", {1, kWhole}},       {"1xk", {1, kWhole}},
      {"Rx1", {kWhole, 1}},     {"rx1", {kWhole, 1}},       {"RxK", {kWhole, kWhole}},
      {"-1x1", {kWhole, 1}},    {"1x-1", {1, kWhole}},      {"per_token", {1, kWhole}},
      {"rowwise", {1, kWhole}}, {"-1x-1", {kWhole, kWhole}}};
  for (const auto& [typed, block] : read) EXPECT_EQ(block_named("q", typed), block) << typed;
  for (const char* typed : {"", "x", "1x", "x1", "1", "1x0", "0x1", "1x-2", "1x2x3", "1x12a", "Kx1",
                            "1xR", "1xKK", "-1x32", "32x-1", "-1xK", "-2x1"}) {
    const std::string said = refusal([&] { block_named("q", typed, "block_x"); });
    const std::string begin = "q: block_x=" + std::string(typed) + ": needs rows x columns";
    EXPECT_TRUE(said.starts_with(begin)) << typed << ": " << said;
  }
  EXPECT_EQ(
      refusal([] { block_named("q", "128"); }),
      "q: block=128: needs rows x columns: 1x128 for 128 along a row, 128x128 for a square of "
      "a weight");
}

TEST(ScaleParameters, RulesHaveTheirNamesInAnyCase) {
  const std::pair<const char*, const char*> read[] = {{"te", "te"},
                                                      {"Te", "te"},
                                                      {"TORCHAO", "torchao"},
                                                      {"transformer_engine", "te"},
                                                      {"deep_gemm", "deepgemm"}};
  for (const auto& [typed, name] : read) EXPECT_EQ(rule_named("q", typed), name);
  const std::string unknown = refusal([] { rule_named("q", "torchoa"); });
  EXPECT_EQ(unknown, "q: rule: found torchoa, did you mean torchao?");
  EXPECT_EQ(refusal([] { rule_named("q", "rowwise"); }),
            "q: rule: found rowwise, a block: block=1xK");
  const std::string all(rule_names());
  EXPECT_TRUE(all.starts_with("torchao|torchao_multiplier|torchao_tensor|torchao_inference|"));
  EXPECT_TRUE(all.ends_with("|microxcaling"));
  EXPECT_EQ(all.find("|te|"), all.rfind("|te|")) << "once, of three rows";
}

TEST(ScaleParameters, TypesAndBlocksFollowFromEachOther) {
  const auto chosen = [](Values values) {
    const ScaleChoice choice = scale_choice("q", Parameters(std::move(values)));
    return name_of(choice.block) + " " + std::string(name_of(choice.scale));
  };
  EXPECT_EQ(chosen({}), "1x32 e8m0");
  EXPECT_EQ(chosen({{"rule", "te"}}), "1x32 e8m0");
  EXPECT_EQ(chosen({{"rule", "te"}, {"scale", "f32"}}), "1x128 f32");
  EXPECT_EQ(chosen({{"rule", "te"}, {"scale", "e8m0"}}), "1x32 e8m0");
  EXPECT_EQ(chosen({{"rule", "te"}, {"scale", "torch.float32"}}), "1x128 f32");
  EXPECT_EQ(chosen({{"block", "1x64"}, {"scale", "ue8m0"}}), "1x64 e8m0");
  EXPECT_EQ(chosen({{"rule", "vllm"}}), "1x128 f32");
  EXPECT_EQ(chosen({{"block", "1x128"}}), "1x128 f32");
  EXPECT_EQ(chosen({{"block", "32x1"}}), "32x1 e8m0");
  EXPECT_EQ(chosen({{"block", "4x8"}}), "4x8 e8m0");
  EXPECT_EQ(chosen({{"block", "4x8"}, {"scale", "f32"}}), "4x8 f32");
  EXPECT_EQ(chosen({{"block", "1xK"}}), "1xK f32");
  EXPECT_EQ(chosen({{"rule", "deepgemm"}, {"block", "1x32"}}), "1x32 f32");
  EXPECT_EQ(chosen({{"rule", "microxcaling"}, {"block", "1x64"}}), "1x64 e8m0");
  const auto refused = [](Values values) {
    return refusal([&] { scale_choice("q", Parameters(std::move(values))); });
  };
  EXPECT_EQ(refused({{"rule", "jax"}, {"block", "1x128"}}),
            "q: rule=jax: found f32 scales of block 1x128, needs e8m0 scales of 1x32");
  EXPECT_EQ(refused({{"rule", "vllm_cuda"}, {"scale", "e8m0"}}),
            "q: rule=vllm_cuda: found e8m0 scales of block 1x32, needs f32 scales of "
            "1x128|1x64|1x512, or f32 scales of 1xK, or f32 scales of RxK");
  EXPECT_EQ(chosen({{"rule", "vllm"}, {"block", "1x32"}}), "1x32 e8m0");
  EXPECT_EQ(refused({{"scale", "f64"}}), "q: scale=f64: needs one of e8m0|f32");
  EXPECT_TRUE(refused({{"rule", "torchoa"}}).starts_with("q: rule: found torchoa"));
}

TEST(ScaleParameters, ConstantsReachTheRule) {
  const auto rule = [](Values values) {
    return scale_choice("q", Parameters(std::move(values))).rule;
  };
  EXPECT_EQ(rule({}).mode, ScaleMode::rceil);
  EXPECT_EQ(rule({{"scale_mode", "floor"}}).mode, ScaleMode::floor);
  EXPECT_EQ(rule({{"scale_mode", "ceil"}}).mode, ScaleMode::ceil);
  EXPECT_EQ(rule({{"scale_mode", "even"}}).mode, ScaleMode::even);
  EXPECT_EQ(rule({{"rule", "microxcaling"}}).mode, ScaleMode::floor) << "its own";
  const auto power = [&](const char* name, const char* how) {
    return rule({{"rule", name}, {"block", "1x128"}, {"power_of_2", how}}).f32.power_of_2;
  };
  EXPECT_EQ(power("torchao", "none"), PowerOfTwo::none);
  EXPECT_EQ(power("torchao", "down"), PowerOfTwo::down);
  EXPECT_EQ(power("torchao", "up"), PowerOfTwo::up);
  EXPECT_EQ(power("deepgemm", "up"), PowerOfTwo::up_clamped);
  EXPECT_EQ(rule({{"rule", "te"}, {"block", "1x128"}}).f32.power_of_2, PowerOfTwo::down);
  const F32ScaleRule set = rule({{"block", "1x128"}, {"epsilon", "0.5"}, {"scale_max", "7"}}).f32;
  EXPECT_EQ(set.epsilon, 0.5);
  EXPECT_EQ(set.amax_max, 7.0);
  EXPECT_EQ(rule({{"rule", "flow"}}).f32.epsilon, 1e-10);
}

TEST(ScaleParameters, RoundingsAreNamedInAnyCase) {
  const auto rounding = [](const char* name) {
    return rounding_of("q", Parameters(Values{{"rounding", name}}), Rounding::odd);
  };
  EXPECT_EQ(rounding_of("q", {}, Rounding::odd), Rounding::odd);
  EXPECT_EQ(rounding("even"), Rounding::even);
  EXPECT_EQ(rounding("Ties_Away"), Rounding::ties_away);
  EXPECT_EQ(rounding("UP"), Rounding::up);
  EXPECT_EQ(rounding("ZERO"), Rounding::zero);
  EXPECT_EQ(rounding("odd"), Rounding::odd);
  EXPECT_EQ(refusal([&] { rounding("evn"); }),
            "q: rounding: found evn, did you mean even? Needs one of even, ties_away, ties_zero, "
            "zero, away, down, up, odd");
}

struct ScaledOutputs : testing::Test {
  Bare machine{true};
  Tensor ends = test::integers_of({5, 40});
  NamedViews views;

  /// Codes and scales that were made, and how their views are shaped.
  std::string made(std::vector<Index> shape, const Values& values, bool grouped = false) {
    const Parameters set(values);
    views = {};
    if (grouped) views.set("group_ends", ends);
    Staging stage(machine, "q", views);
    try {
      const ScaledResult to = scaled_outputs("q", stage, set, shape, scale_choice("q", set));
      const std::string seen = describe(to.codes) + " * " + describe(to.scales) +
                               (to.storage == ScaleStorage::blocked ? " in tiles" : "") + " of " +
                               name_of(to.block);
      const NamedTensors out = stage.finish();
      const std::string kept =
          describe(out.at("codes").operand()) + " * " + describe(out.at("scales").operand());
      return seen.starts_with(kept) ? seen : seen + ", kept " + kept;
    } catch (const Error& error) {
      return error.what();
    }
  }
};

TEST_F(ScaledOutputs, AreRefusedWhereBlocksDoNotFit) {
  EXPECT_EQ(made({96}, {}), "q: x: found rank 1, needs rank 2 to 4");
  EXPECT_EQ(made({1, 1, 1, 1, 32}, {}), "q: x: found rank 5, needs rank 2 to 4");
  EXPECT_EQ(made({1, 2, 3, 32}, {}), "e4m3 [1, 2, 3, 32] * e8m0 [1, 2, 3, 1] of 1x32");
  EXPECT_EQ(made({64, 33}, {}), "q: x: K is 33, not a multiple of 32");
  EXPECT_EQ(made({33, 64}, {{"block", "32x1"}}), "q: x: R is 33, not a multiple of 32");
  EXPECT_EQ(made({33, 64}, {{"block", "2x16"}}), "q: x: R is 33, not a multiple of 2");
  EXPECT_EQ(made({33, 33}, {{"block", "1x128"}}), "e4m3 [33, 33] * f32 [33, 1] of 1x128");
  EXPECT_EQ(made({64, 96}, {{"transpose", "true"}}),
            "q: transpose: needs blocks of more than one row, found block 1x32");
  for (const Values& values : {Values{{"scale_layout", "blocked"}, {"block", "32x1"}},
                               Values{{"scale_layout", "blocked"}, {"block", "1x128"}}}) {
    EXPECT_EQ(made({64, 128}, values),
              "q: scale_layout: blocked needs e8m0 scales of blocks of one row; 32x1 with "
              "transpose=true has them");
  }
}

}  // namespace
}  // namespace mxo::scale_parameters_test

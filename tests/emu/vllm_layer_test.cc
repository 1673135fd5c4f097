// A DeepSeek-V3-style expert layer against the same steps in PyTorch, stage by stage.
#include "tests/support/vllm_layer.h"

namespace mxo::test {
namespace {

using vllm::differing_stages;

using VllmLayer = testing::TestWithParam<std::string>;
INSTANTIATE_TEST_SUITE_P(Recipes, VllmLayer, testing::Values("vllm", "vllm_up"),
                         [](const auto& row) { return row.param; });

TEST_P(VllmLayer, HasEveryBitOfEveryStage) {
  for (const std::string& backend : every_backend()) {
    EXPECT_EQ(differing_stages(backend, GetParam()), (std::map<std::string, Index>{})) << backend;
  }
}

TEST_P(VllmLayer, TellsEveryRuleFromItsNeighbour) {
  const auto differs = [&](const Settings& other, const std::string& first) {
    const auto stages = differing_stages("cpu", GetParam(), other);
    EXPECT_TRUE(stages.contains(first)) << other.front().first << "=" << other.front().second;
    return stages;
  };
  EXPECT_FALSE(differs({{"bf16_steps", "none"}}, "act").contains("h"));
  EXPECT_FALSE(differs({{"sum", "exact"}}, "h").contains("quantized.codes"));
  EXPECT_FALSE(differs({{"group_score", "best"}}, "experts").contains("logits"));
  EXPECT_FALSE(differs({{"other_groups", "zero"}, {"limited_groups", "1"}}, "weights").empty());
  EXPECT_FALSE(differs({{"combine_steps", "bf16"}}, "combined").contains("expert_out"));
  // By powers of two all folds agree.
  const bool numbers = GetParam() == "vllm";
  EXPECT_EQ(differing_stages("cpu", GetParam(), {{"sum.fold", "x_then_w"}}).empty(), !numbers);
}

}  // namespace
}  // namespace mxo::test

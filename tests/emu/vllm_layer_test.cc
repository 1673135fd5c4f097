// A DeepSeek-V3-style expert layer against the same steps in PyTorch, stage by stage.
#include "tests/support/vllm_layer.h"

namespace mxo::test::vllm_layer_test {
namespace {

using vllm::differing_stages;

using VllmLayer = testing::TestWithParam<std::string>;
INSTANTIATE_TEST_SUITE_P(Recipes, VllmLayer, testing::Values("vllm", "vllm_up"),
                         [](const auto& row) { return row.param; });

TEST_P(VllmLayer, HasEveryBitOfEveryStage) {
  for (const std::string& backend : every_backend())
    EXPECT_EQ(differing_stages(backend, GetParam()), (std::map<std::string, Index>{})) << backend;
}

}  // namespace
}  // namespace mxo::test::vllm_layer_test

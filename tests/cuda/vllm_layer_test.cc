// A DeepSeek-V3-style expert layer on the device, stage by stage, against the same steps in
// PyTorch.
#include "tests/support/vllm_layer.h"
#include "tests/cuda/twin.h"

namespace mxo {
namespace {

class CudaVllmLayer : public test::OnDevice {};

TEST_F(CudaVllmLayer, HasEveryBitOfEveryStage) {
  for (const char* recipe : {"vllm", "vllm_up"}) {
    EXPECT_EQ(test::vllm::differing_stages("cuda", recipe), (std::map<std::string, Index>{}))
        << recipe;
  }
}

}  // namespace
}  // namespace mxo

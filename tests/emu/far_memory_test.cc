// Expert parallelism and the MoE layer where the backend's memory is not the host's: the same
// bytes, and not one operand read behind the backend's back.
#include <gtest/gtest.h>

#include "tests/support/expert_parallel_chain.h"
#include "tests/support/far_backend.h"
#include "tests/support/moe_cases.h"

namespace mxo {
namespace {

using test::DispatchCase;
using test::FarBackend;

class FarExpertParallel : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Cases, FarExpertParallel,
                         testing::Range(0, static_cast<int>(test::dispatch_cases().size())));

TEST_P(FarExpertParallel, EveryStepHasTheBytesOfHostMemory) {
  const DispatchCase c = test::dispatch_cases()[static_cast<std::size_t>(GetParam())];
  const auto world = make_in_process_world();
  const auto cpu = make_backend("cpu", 1);
  FarBackend far;
  for (const char* layout : {"rank_major", "expert_major_padded"}) {
    for (const char* precision : {"bf16", "mxfp8", "fp8_blockwise"}) {
      test::expect_same(test::expert_parallel_chain(*cpu, *world, c, layout, precision),
                        test::expert_parallel_chain(far, *world, c, layout, precision));
    }
  }
}

class FarMoeLayers : public testing::TestWithParam<test::Layer> {};

INSTANTIATE_TEST_SUITE_P(Layers, FarMoeLayers, testing::ValuesIn(test::layers()),
                         [](const auto& layer) { return std::string(layer.param.name); });

TEST_P(FarMoeLayers, GiveTheBytesOfHostMemoryOnOneAndOnFourRanks) {
  const auto cpu = make_backend("cpu", 1);
  FarBackend far;
  Parameters set = test::parameters(GetParam().set);
  set.set("keep_stages", "true");
  Parameters again = set;
  again.set("recompute", "true");
  for (const std::vector<Index>& tokens : {std::vector<Index>{37}, {9, 10, 0, 18}}) {
    test::MoeShape s;
    s.shared = GetParam().shared;
    s.biases = GetParam().biases;
    s.tokens = tokens;
    const NamedTensors in = test::moe_inputs(s, 3);
    const NamedTensors owed = test::run_moe(*cpu, in, set);
    test::expect_same(owed, test::run_moe(far, in, set));
    test::expect_same(owed, test::run_moe(far, in, again));
  }
}

TEST(FarBackendDeathTest, MemoryIsOutOfTheHostsReach) {
  FarBackend far;
  std::byte* memory = far.allocate(64);
  EXPECT_DEATH(*memory = std::byte{1}, "");
  far.release(memory);
}

}  // namespace
}  // namespace mxo

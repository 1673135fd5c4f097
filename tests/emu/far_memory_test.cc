// Memory that the host cannot read, and the pool that memory comes from.
#include "emu/cpu/memory_pool.h"
#include "tests/support/expert_parallel_chain.h"
#include "tests/support/far_backend.h"
#include "tests/support/moe_cases.h"

namespace mxo::test::far_memory_test {
namespace {

using namespace cpu;

class FarExpertParallel : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Cases, FarExpertParallel,
                         testing::Range(0, static_cast<int>(dispatch_cases().size())));

TEST_P(FarExpertParallel, EveryStepHasTheBytesOfHostMemory) {
  const DispatchCase c = dispatch_cases()[static_cast<std::size_t>(GetParam())];
  const auto world = make_in_process_world();
  const auto cpu = make_backend("cpu", 1);
  FarBackend far;
  for (const char* layout : {"rank_major", "expert_major_padded"}) {
    for (const char* precision : {"bf16", "mxfp8", "fp8_blockwise"})
      expect_same(expert_parallel_chain(*cpu, *world, c, layout, precision),
                  expert_parallel_chain(far, *world, c, layout, precision));
  }
}

class FarMoeLayers : public testing::TestWithParam<Layer> {};

INSTANTIATE_TEST_SUITE_P(Layers, FarMoeLayers, testing::ValuesIn(layers()),
                         [](const auto& layer) { return std::string(layer.param.name); });

TEST_P(FarMoeLayers, GiveTheBytesOfHostMemoryOnOneAndOnFourRanks) {
  const auto cpu = make_backend("cpu", 1);
  FarBackend far;
  Parameters set = parameters(GetParam().set);
  set.set("keep_stages", "true");
  Parameters again = set;
  again.set("recompute", "true");
  for (const std::vector<Index>& tokens : {std::vector<Index>{37}, {9, 10, 0, 18}}) {
    MoeShape s;
    s.shared = GetParam().shared;
    s.biases = GetParam().biases;
    s.tokens = tokens;
    const NamedTensors in = moe_inputs(s, 3);
    const NamedTensors expected_output = run_moe(*cpu, in, set);
    expect_same(expected_output, run_moe(far, in, set));
    expect_same(expected_output, run_moe(far, in, again));
  }
}

TEST(FarBackendDeathTest, MemoryIsOutOfTheHostsReach) {
  FarBackend far;
  std::byte* memory = far.allocate(64);
  EXPECT_DEATH(*memory = std::byte{1}, "");
  far.release(memory);
}

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

TEST(MemoryPool, GivesAReleasedBlockToTheNextOfAboutItsSize) {
  MemoryPool pool;
  std::byte* first = pool.take(16 * kMebibyte);
  std::memset(first, 1, 16 * kMebibyte);
  std::byte* second = pool.take(16 * kMebibyte);
  EXPECT_NE(first, second);
  EXPECT_TRUE(pool.give_back(first));
  EXPECT_EQ(pool.take(15 * kMebibyte), first);
  EXPECT_TRUE(pool.give_back(second));
  EXPECT_NE(pool.take(8 * kMebibyte), second) << "half of it would be waste";
}

TEST(MemoryPool, NeverHoldsMoreThanTheMostInUseAndAFourth) {
  MemoryPool pool;
  std::size_t most = 0;
  for (std::size_t size = 2; size < 64; size += 6) {
    std::byte* a = pool.take(size * kMebibyte);
    std::byte* b = pool.take(size / 2 * kMebibyte);
    most = std::max(most, (size + size / 2) * kMebibyte + 2 * kMebibyte);
    EXPECT_LE(pool.mapped(), most + most / 4);
    pool.give_back(a);
    pool.give_back(b);
    EXPECT_LE(pool.mapped(), most + most / 4);
  }
}

TEST(MemoryPool, LeavesBlocksOfOthersAlone) {
  MemoryPool pool;
  std::byte other{};
  EXPECT_FALSE(pool.give_back(&other));
  EXPECT_EQ(pool.mapped(), 0U);
}

TEST(MemoryPool, BacksTheLargeTensorsOfTheCpuBackend) {
  const auto cpu = make_backend("cpu", 2);
  for (const std::size_t bytes : {std::size_t{0}, kMebibyte - 1, kMebibyte, 5 * kMebibyte + 3}) {
    std::byte* memory = cpu->allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
    std::memset(memory, 0xA5, bytes);
    cpu->fill_zero(memory, bytes);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory[i], std::byte{0}) << i;
    cpu->release(memory);
  }
}

}  // namespace
}  // namespace mxo::test::far_memory_test

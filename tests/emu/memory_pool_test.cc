// Large blocks are used again, and not kept beyond what was needed at once.
#include "emu/cpu/memory_pool.h"

#include <gtest/gtest.h>

#include <cstring>

#include "emu/backends.h"

namespace mxo::cpu {
namespace {

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
}  // namespace mxo::cpu

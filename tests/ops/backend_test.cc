// Memory of a backend that says nothing of its own, and tensors in it.
#include "ops/backend_tensor.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/ops/noting.h"

namespace mxo {
namespace {

TEST(BackendMemory, MovesEveryByteAndNoOther) {
  NotingMemory backend;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{2}, std::size_t{67}}) {
    std::vector<std::byte> from(bytes, std::byte{5}), to(bytes + 1, std::byte{9});
    std::byte* const memory = backend.allocate(bytes);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0u);
    backend.upload(memory, from.data(), bytes);
    EXPECT_EQ(std::memcmp(memory, from.data(), bytes), 0);
    backend.download(to.data(), memory, bytes);
    EXPECT_EQ(std::memcmp(to.data(), from.data(), bytes), 0);
    EXPECT_EQ(to.back(), std::byte{9});
    backend.download(to.data(), memory, bytes);
    backend.fill_zero(memory, bytes);
    for (std::size_t i = 0; i < bytes; ++i) EXPECT_EQ(memory[i], std::byte{0});
    backend.release(memory);
  }
}

TEST(BackendMemory, OfNoBytesMayBeNowhere) {
  NotingMemory backend;
  backend.upload(nullptr, nullptr, 0);
  backend.download(nullptr, nullptr, 0);
  backend.fill_zero(nullptr, 0);
  std::byte* const memory = backend.allocate(0);
  EXPECT_NE(memory, nullptr);
  backend.release(memory);
  EXPECT_EQ(backend.for_rank(1), nullptr) << "ranks share it";
}

TEST(BackendTensors, ComeToTheHostWhenWorkIsDone) {
  NotingMemory backend;
  BackendTensor tensor(backend, Dtype::i32, {2, 3});
  const std::int32_t values[] = {1, 2, 3, 4, 5, 6};
  std::memcpy(tensor.result().data, values, sizeof values);
  const Tensor host = on_host(backend, tensor.operand());
  EXPECT_EQ(host.shape(), (std::vector<Index>{2, 3}));
  EXPECT_EQ(host.dtype(), Dtype::i32);
  EXPECT_EQ(std::memcmp(host.data(), values, sizeof values), 0);
  EXPECT_EQ(backend.seen, (std::vector<std::string>{"synchronize", "download 24"}));
}

}  // namespace
}  // namespace mxo

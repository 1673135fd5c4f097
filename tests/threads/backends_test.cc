// Threads that call operators at once, on one backend and on several: no race (under
// ThreadSanitizer), and the bytes of one caller alone.
#include <thread>

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "emu/prepared.h"
#include "ops/backend_tensor.h"
#include "ops/catalogue.h"
#include "ops/grouped_matmul.h"

namespace mxo {
namespace {

constexpr int kCallers = 4;

Tensor noise(Dtype dtype, std::vector<Index> shape) {
  Tensor x(dtype, std::move(shape));
  for (Index i = 0; i < x.elements(); ++i) {
    const auto word = static_cast<std::uint32_t>(i + 1) * 2654435761u;
    const float value = static_cast<float>(static_cast<std::int32_t>(word)) * 0x1p-29f;
    if (dtype == Dtype::f32) {
      x.as<float>()[i] = value;
    } else {
      x.as<BF16>()[i] = encode<kBF16>(value);
    }
  }
  return x;
}

struct NamedCall {
  const char* op;
  NamedTensors inputs;
};

std::vector<NamedCall> calls() {
  const Tensor x = noise(Dtype::f32, {96, 256});
  return {{"encode", {{"x", x}}},
          {"quantize", {{"x", x}}},
          {"swiglu", {{"x", x}}},
          {"swiglu_backward", {{"x", x}, {"dy", noise(Dtype::f32, {96, 128})}}},
          {"route", {{"logits", noise(Dtype::f32, {96, 16})}}},
          {"column_sum", {{"x", x}}},
          {"cast", {{"x", x}}}};
}

/// y = x w^T in two groups, in memory of the backend.
Tensor product(Backend& backend, const Operand& w) {
  const Tensor x = noise(Dtype::bf16, {96, 64});
  Tensor ends(Dtype::i32, {2});
  ends.as<std::int32_t>()[0] = 33;
  ends.as<std::int32_t>()[1] = 96;
  const BackendTensor large(backend, Dtype::u8, {Index{1} << 20});  // from the backend's pool
  BackendTensor y(backend, Dtype::f32, {96, 48});
  GroupedMatmul op;
  op.x = unscaled(x.operand());
  op.w = unscaled(w);
  op.group_ends = ends.operand();
  op.y = y.result();
  grouped_matmul(backend, op);
  return on_host(backend, y.operand());
}

/// Every output of every call, one after the other.
std::vector<std::byte> all_results(Backend& backend) {
  std::vector<std::byte> bytes;
  const auto add = [&](const Tensor& t) {
    bytes.insert(bytes.end(), t.data(), t.data() + t.bytes());
  };
  for (const NamedCall& call : calls()) {
    for (const auto& [name, tensor] : call_operator(backend, call.op, call.inputs, {})) add(tensor);
  }
  const Tensor w = noise(Dtype::bf16, {2, 48, 64});
  static const PreparedWeights kept(w.operand());  // which callers pack at once
  add(product(backend, w.operand()));
  add(product(backend, kept.codes()));
  return bytes;
}

/// What `kCallers` threads get that all start at once; `backend_of(i)` for thread i.
template <typename BackendOf>
void expect_the_bytes_of_one(BackendOf backend_of) {
  const std::vector<std::byte> wanted = all_results(*make_reference_backend());
  std::vector<std::vector<std::byte>> found(kCallers);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kCallers; ++i) {
    threads.emplace_back([&, i] { found[i] = all_results(backend_of(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kCallers; ++i) EXPECT_EQ(found[i], wanted) << "caller " << i;
}

TEST(Threads, ShareOneBackend) {
  for (const char* name : {"reference", "cpu", "cpu:scalar"}) {
    SCOPED_TRACE(name);
    const auto backend = make_backend(name, 2);
    expect_the_bytes_of_one([&](std::size_t) -> Backend& { return *backend; });
  }
}

TEST(Threads, HaveABackendEach) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (std::size_t i = 0; i < kCallers; ++i) backends.push_back(make_backend("cpu", 2));
  expect_the_bytes_of_one([&](std::size_t i) -> Backend& { return *backends[i]; });
}

TEST(Threads, MakeAndDropBackendsAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kCallers; ++i) {
    threads.emplace_back([] {
      for (int again = 0; again < 3; ++again) {
        EXPECT_EQ(make_backend("cpu", 2)->name().substr(0, 3), "cpu");
        EXPECT_FALSE(list_backends().empty());
        EXPECT_FALSE(catalogue().empty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Threads, AreRanksOverOneBackend) {
  const auto backend = make_backend("cpu", 2);
  const std::vector<std::byte> wanted = all_results(*make_reference_backend());
  std::vector<std::vector<std::byte>> found(kCallers);
  make_in_process_world()->run(kCallers, [&](Communicator& ranks) {
    found[static_cast<std::size_t>(ranks.rank())] = all_results(*backend);
  });
  for (const auto& bytes : found) EXPECT_EQ(bytes, wanted);
}

}  // namespace
}  // namespace mxo

// Ranks with a GPU each, over NCCL: the bytes of ranks that are threads of one CPU, and an end for
// all when one fails.  Skipped, with the reason, where there are fewer GPUs than ranks.
#include <atomic>
#include <cstdlib>

#include "ops/backend_tensor.h"
#include "tests/cuda/twin.h"
#include "tests/support/expert_parallel_chain.h"
#include "tests/support/moe_cases.h"

namespace mxo {
namespace {

class OverNccl : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    setenv("NCCL_CHECK_POINTERS", "1", 0);  // read once, before the first communicator
    if (const std::string why = why_no_nccl(); !why.empty()) GTEST_SKIP() << why;
    const auto gpus = static_cast<int>(cuda_devices().size());
    if (gpus < ranks_) GTEST_SKIP() << "needs " << ranks_ << " GPUs, found " << gpus;
    nccl_ = make_nccl_world(make_in_process_world());
  }
  int ranks_ = GetParam();
  std::unique_ptr<World> nccl_;
  std::unique_ptr<World> threads_ = make_in_process_world();
  std::unique_ptr<Backend> cpu_ = make_cpu_backend();
};

INSTANTIATE_TEST_SUITE_P(Ranks, OverNccl, testing::Values(1, 2, 4, 8));

/// The byte at position i of what rank `from` sends to rank `to`, and how many there are.
std::byte byte_of(int from, int to, std::size_t i) {
  return static_cast<std::byte>(static_cast<std::size_t>(from * 31 + to * 7) + i * 13 + i / 251);
}
std::size_t count_of(int from, int to, int scale) {
  return (from + to) % 3 == 1 ? 0 : static_cast<std::size_t>((from * 5 + to + 1) * scale);
}

/// A buffer of the backend, filled from the host, whose first byte lies at an odd address.
class Buffer {
 public:
  Buffer(Backend& backend, const std::vector<std::byte>& bytes)
      : memory_(backend, Dtype::u8, {static_cast<Index>(bytes.size()) + 1}), size_(bytes.size()) {
    backend.upload(data(), bytes.data(), size_);
  }
  std::byte* data() { return static_cast<std::byte*>(memory_.result().data) + 1; }
  std::span<std::byte> span() { return {data(), size_}; }

 private:
  BackendTensor memory_;
  std::size_t size_;
};

/// One all-to-all of uneven blocks, checked byte by byte.
void exchange(Communicator& c, Backend& backend, int scale) {
  std::vector<std::byte> out;
  std::vector<std::byte> expected;
  std::vector<std::size_t> send;
  std::vector<std::size_t> receive;
  for (int p = 0; p < c.size(); ++p) {
    send.push_back(count_of(c.rank(), p, scale));
    for (std::size_t i = 0; i < send.back(); ++i) out.push_back(byte_of(c.rank(), p, i));
    receive.push_back(count_of(p, c.rank(), scale));
    for (std::size_t i = 0; i < receive.back(); ++i) expected.push_back(byte_of(p, c.rank(), i));
  }
  Buffer from(backend, out);
  Buffer to(backend, std::vector<std::byte>(expected.size()));
  c.all_to_all(backend, from.span(), send, to.span(), receive);
  std::vector<std::byte> found(expected.size());
  backend.download(found.data(), to.data(), found.size());
  EXPECT_TRUE(found == expected) << "rank " << c.rank() << ", scale " << scale;
}

TEST_P(OverNccl, BlocksOfAnyLengthGoFromDeviceToDevice) {
  nccl_->run(ranks_, [](Communicator& c) {
    const auto backend = make_cuda_backend(c.rank());
    for (const int scale : {1, 1000, 0, 300000}) exchange(c, *backend, scale);
    std::vector<std::byte> mine(static_cast<std::size_t>(c.rank() * 1001));
    std::vector<std::byte> expected;
    std::vector<std::size_t> bytes;
    for (int p = 0; p < c.size(); ++p) {
      bytes.push_back(static_cast<std::size_t>(p * 1001));
      for (std::size_t i = 0; i < bytes.back(); ++i) expected.push_back(byte_of(p, 0, i));
    }
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = byte_of(c.rank(), 0, i);
    Buffer from(*backend, mine);
    Buffer to(*backend, std::vector<std::byte>(expected.size()));
    c.all_gather(*backend, from.span(), to.span(), bytes);
    std::vector<std::byte> found(expected.size());
    backend->download(found.data(), to.data(), found.size());
    EXPECT_TRUE(found == expected) << "rank " << c.rank();
  });
}

TEST_P(OverNccl, EveryStepOfExpertParallelismHasTheBytesOfThreads) {
  const auto cuda = make_cuda_backend(0);
  int ran = 0;
  for (const test::DispatchCase& c : test::dispatch_cases()) {
    if (c.ranks != ranks_) continue;
    for (const char* layout : {"rank_major", "expert_major_padded"}) {
      for (const char* precision : {"bf16", "mxfp8", "fp8_blockwise"}) {
        test::expect_same(test::expert_parallel_chain(*cpu_, *threads_, c, layout, precision),
                          test::expert_parallel_chain(*cuda, *nccl_, c, layout, precision));
        ++ran;
      }
    }
  }
  EXPECT_GT(ran, 0);
}

/// 37 tokens on `ranks` ranks, unevenly; the third has none.
std::vector<Index> shared_out(int ranks, Index tokens) {
  std::vector<Index> each(static_cast<std::size_t>(ranks), tokens / ranks);
  if (ranks > 2) each[2] = 0;
  Index others = 0;
  for (std::size_t p = 1; p < each.size(); ++p) others += each[p];
  each[0] = tokens - others;
  return each;
}

TEST_P(OverNccl, EveryStageOfEveryLayerHasTheBytesOfThreads) {
  const auto cuda = make_cuda_backend(0);
  for (const test::Layer& layer : test::layers()) {
    SCOPED_TRACE(layer.name);
    test::MoeShape s;
    s.shared = layer.shared;
    s.biases = layer.biases;
    s.tokens = shared_out(ranks_, 37);
    const NamedTensors in = test::moe_inputs(s, 3);
    Parameters set = test::parameters(layer.set);
    set.set("keep_stages", "true");
    const NamedTensors expected_output = call_operator(*cpu_, "moe_layer", in, set, threads_.get());
    test::expect_same(expected_output, call_operator(*cuda, "moe_layer", in, set, nccl_.get()));
    set.set("recompute", "true");
    test::expect_same(expected_output, call_operator(*cuda, "moe_layer", in, set, nccl_.get()));
  }
}

TEST_P(OverNccl, ALayerOfManyTilesHasTheBytesOfThreadsByEitherWay) {
  const auto cuda = make_cuda_backend(0);
  test::MoeShape s{
      .experts = 16, .width = 512, .hidden = 384, .shared = 256, .tokens = shared_out(ranks_, 900)};
  const NamedTensors in = test::moe_inputs(s, 9);
  for (const char* pipeline : {"mxfp8", "bf16", "quantize_after", "flow"}) {
    SCOPED_TRACE(pipeline);
    Parameters set;
    set.set("top_k", "4");
    set.set("pipeline", pipeline);
    const NamedTensors expected_output = call_operator(*cpu_, "moe_layer", in, set, threads_.get());
    test::expect_same(expected_output, call_operator(*cuda, "moe_layer", in, set, nccl_.get()));
    test::expect_same(expected_output, call_operator(*cuda, "moe_layer", in, set, threads_.get()));
  }
}

/// Runs `body` on every rank; all must end, and the Error must say `words`.
void fails(World& world, int ranks, Fault fault, const std::string& words,
           const std::function<void(Communicator&)>& body) {
  struct Count {
    std::atomic<int>& ended;
    ~Count() { ++ended; }
  };
  std::atomic<int> ended = 0;
  try {
    world.run(ranks, [&](Communicator& c) {
      const Count count{ended};
      body(c);
    });
    ADD_FAILURE() << "no Error; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), fault) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
  EXPECT_EQ(ended, ranks);
}

TEST_P(OverNccl, ARankThatFailsBetweenCallsEndsTheOthers) {
  if (ranks_ == 1) GTEST_SKIP() << "needs another rank";
  fails(*nccl_, ranks_, Fault::shape, "no such expert", [&](Communicator& c) {
    const auto backend = make_cuda_backend(c.rank());
    exchange(c, *backend, 1000);
    if (c.rank() == c.size() - 1) throw Error(Fault::shape, "no such expert");
    exchange(c, *backend, 1000);
    ADD_FAILURE() << "rank " << c.rank() << " exchanged blocks with a rank that had failed";
  });
}

TEST_P(OverNccl, ACallThatFailsOnOneRankEndsThoseWhoseKernelsWaitForIt) {
  if (ranks_ == 1) GTEST_SKIP() << "needs another rank";
  fails(*nccl_, ranks_, Fault::internal, "nccl: ncclSend: invalid argument", [](Communicator& c) {
    const auto backend = make_cuda_backend(c.rank());
    exchange(c, *backend, 1000);
    const auto size = static_cast<std::size_t>(c.size());
    const std::vector<std::size_t> bytes(size, 1 << 20);
    std::vector<std::byte> host(size << 20);
    Buffer from(*backend, host);
    Buffer to(*backend, host);
    const bool bad = c.rank() == c.size() - 1;
    c.all_to_all(*backend, bad ? std::span(host) : from.span(), bytes, to.span(), bytes);
    backend->synchronize();
  });
  // What was aborted is gone: the next job has communicators of its own.
  nccl_->run(ranks_, [](Communicator& c) { exchange(c, *make_cuda_backend(c.rank()), 10); });
}

TEST_P(OverNccl, CallsAndCountsThatDoNotMatchAreRefused) {
  if (ranks_ == 1) GTEST_SKIP() << "needs another rank";
  const auto lie = [](int extra) {
    return [extra](Communicator& c) {
      const auto backend = make_cuda_backend(c.rank());
      const std::vector<std::size_t> bytes(static_cast<std::size_t>(c.size()), 8);
      std::vector<std::size_t> more = bytes;
      if (c.rank() == 0) more[1] += static_cast<std::size_t>(extra);
      Buffer from(*backend, std::vector<std::byte>(8 * bytes.size()));
      Buffer to(*backend, std::vector<std::byte>(8 * bytes.size() + (c.rank() == 0 ? 3 : 0)));
      c.all_to_all(*backend, from.span(), bytes, to.span(), more);
    };
  };
  fails(*nccl_, ranks_, Fault::shape, "rank 1 has 8 bytes for rank 0, which needs 11", lie(3));
  fails(*nccl_, ranks_, Fault::shape, "receive: found", lie(2));
  fails(*nccl_, ranks_, Fault::argument, "is in another call", [](Communicator& c) {
    const auto backend = make_cuda_backend(c.rank());
    const std::vector<std::size_t> none(static_cast<std::size_t>(c.size()));
    if (c.rank() == 0) return c.all_to_all(*backend, {}, none, {}, none);
    c.all_gather(*backend, {}, {}, none);
  });
}

TEST_P(OverNccl, EachRankNeedsAGpuOfItsOwnAndACudaBackend) {
  fails(*nccl_, ranks_ + 1, Fault::unsupported, "each needs a GPU of its own",
        [&](Communicator& c) { exchange(c, *make_cuda_backend(c.rank() % ranks_), 1); });
  fails(*nccl_, ranks_, Fault::argument, "found backend cpu", [&](Communicator& c) {
    const std::vector<std::size_t> none(static_cast<std::size_t>(c.size()));
    c.all_to_all(*cpu_, {}, none, {}, none);
  });
  EXPECT_THROW(nccl_->check(*cpu_), Error);
  EXPECT_NO_THROW(nccl_->check(*make_cuda_backend(0)));
}

TEST(WithoutNccl, TheErrorSaysHowToHaveIt) {
  if (why_no_nccl().empty()) GTEST_SKIP() << "this build has NCCL";
  EXPECT_THROW(make_world("nccl"), Error);
  EXPECT_NE(why_no_nccl().find("MXO_NCCL"), std::string::npos);
}

}  // namespace
}  // namespace mxo

// Backends and communicators that say nothing of their own: memory, tensors in it, exchanges, and
// the operators that they lack.
#include "ops/backend_tensor.h"

#include "ops/forwarding_backend.h"
#include "tests/ops/noting.h"
#include "tests/ops/told_communicator.h"
#include "tests/support/refusal.h"

namespace mxo::backend_test {
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

using Bytes = ToldCommunicator::Bytes;
using Seen = std::vector<std::string>;

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(Communicators, GoByTheHostWhereMemoryIsNotItsOwn) {
  const Bytes send = bytes_of({1, 2, 3, 4, 5});
  const std::size_t to[] = {2, 3}, from[] = {1, 3};
  for (const bool host : {true, false}) {
    NotingMemory backend(host);
    ToldCommunicator ranks;
    ranks.from_other = bytes_of({9});
    ranks.watched = send.data();
    Bytes receive(4);
    ranks.all_to_all(backend, send, to, receive, from);
    EXPECT_EQ(receive, bytes_of({9, 3, 4, 5}));
    EXPECT_EQ(ranks.to_other, bytes_of({1, 2}));
    EXPECT_EQ(ranks.direct, host);
    EXPECT_EQ(backend.seen, host ? Seen{} : (Seen{"synchronize", "download 5", "upload 4"}));
  }
}

TEST(Communicators, GatherBlocksBehindEachOther) {
  NotingMemory backend;
  ToldCommunicator ranks;
  ranks.from_other = bytes_of({7, 8, 9});
  const Bytes mine = bytes_of({1, 2});
  Bytes all(5);
  const std::size_t bytes[] = {3, 2};
  ranks.all_gather(backend, mine, all, bytes);
  EXPECT_EQ(all, bytes_of({7, 8, 9, 1, 2}));
  EXPECT_EQ(backend.seen, (Seen{"synchronize", "download 2", "upload 3", "upload 2"}));

  const std::size_t other[] = {4, 2};
  EXPECT_EQ(refusal([&] { ranks.all_gather(backend, mine, all, other); }, Fault::shape),
            "all_gather: rank 0 has 3 bytes for rank 1, which needs 4");
}

TEST(Communicators, PackRowsInTheirOrderAndPutThemInPlace) {
  for (const std::size_t row : {std::size_t{1}, std::size_t{3}}) {
    ToldCommunicator ranks;
    Bytes rows(4 * row), in_rows(4 * row, std::byte{99});
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::byte>(i);
    ranks.from_other.assign(row, std::byte{50});
    const std::int32_t order[] = {3, 0, 2}, place[] = {2, 0, 3};
    const Index to[] = {1, 2}, from[] = {1, 2};
    ranks.exchange_rows({rows.data(), order, to}, {in_rows.data(), place, from}, row);
    const auto row_of = [&](const Bytes& all, std::size_t which) {
      return Bytes(all.begin() + static_cast<std::ptrdiff_t>(which * row),
                   all.begin() + static_cast<std::ptrdiff_t>((which + 1) * row));
    };
    EXPECT_EQ(ranks.to_other, row_of(rows, 3));
    EXPECT_EQ(row_of(in_rows, 2), ranks.from_other);
    EXPECT_EQ(row_of(in_rows, 0), row_of(rows, 0));
    EXPECT_EQ(row_of(in_rows, 3), row_of(rows, 2));
    EXPECT_EQ(row_of(in_rows, 1), Bytes(row, std::byte{99})) << "a row that nobody sends";
  }
}

TEST(Communicators, MoveRowsOfNoBytes) {
  ToldCommunicator ranks;
  const std::int32_t order[] = {0, 1}, place[] = {1};
  const Index to[] = {1, 1}, from[] = {0, 1};
  EXPECT_NO_THROW(ranks.exchange_rows({nullptr, order, to}, {nullptr, place, from}, 0));
}

/// The message of running an operator whose members nobody reads.
template <typename Op>
std::string lacked(Backend& backend) {
  alignas(std::max_align_t) static const std::byte nothing[1]{};
  return refusal([&] { Checked::run(backend, reinterpret_cast<const Op&>(nothing)); },
                 Fault::unsupported);
}

TEST(Operators, ABareBackendLacksEachByName) {
  Bare bare;
#define MXO_EXPECT(Op, name) \
  EXPECT_TRUE(lacked<Op>(bare).starts_with("bare: " name " is not available")) << name;
  MXO_OPERATORS(MXO_EXPECT)
#undef MXO_EXPECT
}

}  // namespace
}  // namespace mxo::backend_test

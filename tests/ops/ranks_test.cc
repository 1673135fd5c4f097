// Names of operands of ranks, and what ranks in other processes hand over.
#include "ops/catalogue/ranks.h"

#include "tests/ops/told_communicator.h"

namespace mxo {
namespace {

TEST(Ranks, NameTheirOperands) {
  EXPECT_TRUE(names_operand("w1", "w1"));
  EXPECT_FALSE(names_operand("w1", "w2"));
  EXPECT_FALSE(names_operand("w1", "rank0.w1"));
  for (const char* name : {"rank0.x", "rank9.x", "rank10.x", "rank907.x"}) {
    EXPECT_TRUE(names_operand("rank<p>.x", name)) << name;
  }
  for (const char* name :
       {"x", "rank.x", "rank0x", "rank0", "rank0.", "rank0.y", "rank00.x", "rank01.x", "rank:.x",
        "rank/.x", "rankA.x", "tank0.x", "rank-1.x", "rank0.xx", "rank<p>.x"}) {
    EXPECT_FALSE(names_operand("rank<p>.x", name)) << name;
  }
}

/// A job of processes, or ranks of this one.
struct Job : World {
  Job(bool here, bool first) : one(here), writer(first) {}
  std::string_view name() const override { return "job"; }
  void run(int, const std::function<void(Communicator&)>&) override {}
  bool one_process() const override { return one; }
  bool writes() const override { return writer; }
  bool one;
  bool writer;
};

/// Rank 1 of two, which both send what this one does.
struct Mirror : ToldCommunicator {
  using Communicator::all_gather;
  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    ++gathers;
    return {Bytes(mine.begin(), mine.end()), Bytes(mine.begin(), mine.end())};
  }
  int gathers = 0;
};

NamedTensors outputs() {
  NamedTensors t;
  Tensor y(Dtype::i32, {2, 3});
  for (Index i = 0; i < 6; ++i) y.as<std::int32_t>()[i] = static_cast<std::int32_t>(70 + i);
  t.emplace("y", std::move(y));
  t.emplace("empty", Tensor(Dtype::bf16, {0, 4}));
  Tensor scales(Dtype::u8, {1});
  scales.data()[0] = std::byte{9};
  t.emplace("y.scales", std::move(scales));
  return t;
}

void expect_outputs_of(const NamedTensors& all, const std::string& rank) {
  ASSERT_TRUE(all.contains(rank + ".y") && all.contains(rank + ".empty"));
  EXPECT_EQ(describe(all.at(rank + ".y").operand()), "i32 [2, 3]");
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(all.at(rank + ".y").as<std::int32_t>()[i], 70 + i);
  EXPECT_EQ(describe(all.at(rank + ".empty").operand()), "bf16 [0, 4]");
  EXPECT_EQ(describe(all.at(rank + ".y.scales").operand()), "u8 [1]");
  EXPECT_EQ(all.at(rank + ".y.scales").data()[0], std::byte{9});
}

TEST(RankOutputs, OfProcessesTravelToTheOneThatWrites) {
  Mirror rank;
  Job job(false, true);
  RankOutputs collected;
  collected.add(job, rank, outputs());
  const NamedTensors all = collected.take();
  EXPECT_EQ(all.size(), 6u);
  expect_outputs_of(all, "rank0");
  expect_outputs_of(all, "rank1");

  Job other(false, false);
  RankOutputs none;
  none.add(other, rank, outputs());
  EXPECT_TRUE(none.take().empty());
  EXPECT_EQ(rank.gathers, 2) << "collective";
}

}  // namespace
}  // namespace mxo

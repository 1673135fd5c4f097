// Ranks that exchange bytes, ranks that have nothing to say, and ranks that fail.
#include "emu/communicators.h"

#include <atomic>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/support/refusal.h"

namespace mxo::communicators_test {
namespace {

/// The byte that rank `from` sends to rank `to` at position i, and how many.
std::byte byte_of(int from, int to, std::size_t i) {
  return static_cast<std::byte>(from * 31 + to * 7 + static_cast<int>(i));
}
std::size_t count_of(int from, int to) {
  return from == 1 ? 0 : static_cast<std::size_t>(from * 5 + to);
}

class InProcess : public testing::TestWithParam<int> {
 protected:
  int ranks_ = GetParam();
  std::unique_ptr<World> world_ = make_in_process_world();
};

INSTANTIATE_TEST_SUITE_P(Ranks, InProcess, testing::Values(1, 2, 3, 8));

TEST_P(InProcess, AllToAllBringsEveryBlockToItsRankInRankOrder) {
  std::atomic<int> seen = 0;
  world_->run(ranks_, [&](Communicator& c) {
    ASSERT_EQ(c.size(), ranks_);
    std::vector<std::byte> send;
    std::vector<std::size_t> send_bytes;
    std::vector<std::size_t> receive_bytes;
    std::size_t coming = 0;
    for (int p = 0; p < ranks_; ++p) {
      send_bytes.push_back(count_of(c.rank(), p));
      for (std::size_t i = 0; i < send_bytes.back(); ++i) send.push_back(byte_of(c.rank(), p, i));
      receive_bytes.push_back(count_of(p, c.rank()));
      coming += receive_bytes.back();
    }
    std::vector<std::byte> receive(coming);
    c.all_to_all(send, send_bytes, receive, receive_bytes);
    std::size_t at = 0;
    for (int p = 0; p < ranks_; ++p) {
      for (std::size_t i = 0; i < count_of(p, c.rank()); ++i)
        ASSERT_EQ(receive[at++], byte_of(p, c.rank(), i));
    }
    ++seen;
  });
  EXPECT_EQ(seen, ranks_);
}

TEST_P(InProcess, AllGatherKeepsLengthsAndOrder) {
  world_->run(ranks_, [&](Communicator& c) {
    const std::vector<std::byte> mine(static_cast<std::size_t>(3 * c.rank()),
                                      static_cast<std::byte>(c.rank()));
    const auto all = c.all_gather(mine);
    ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks_));
    for (std::size_t p = 0; p < all.size(); ++p)
      ASSERT_EQ(all[p], std::vector<std::byte>(3 * p, static_cast<std::byte>(p)));
  });
}

TEST_P(InProcess, RowsExchangedInPlaceAreThoseThatArePackedAndUnpacked) {
  constexpr std::size_t kRow = 6;
  world_->run(ranks_, [&](Communicator& c) {
    const auto ranks = static_cast<std::size_t>(ranks_);
    std::vector<std::byte> rows(kRow * 5 * ranks);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = byte_of(c.rank(), 0, i);
    std::vector<std::int32_t> order;
    std::vector<Index> send;
    std::vector<Index> receive;
    Index coming = 0;
    for (int p = 0; p < ranks_; ++p) {
      send.push_back((c.rank() + 2 * p) % 4);
      for (Index i = 0; i < send.back(); ++i)
        order.push_back(static_cast<std::int32_t>((p * 3 + 4 * i) % (5 * ranks_)));
      receive.push_back((p + 2 * c.rank()) % 4);
      coming += receive.back();
    }
    std::vector<std::int32_t> place(static_cast<std::size_t>(coming));
    std::iota(place.rbegin(), place.rend(), 1);  // backwards, row 0 stays free
    const std::size_t bytes = kRow * static_cast<std::size_t>(coming + 1);
    std::vector<std::byte> direct(bytes);
    std::vector<std::byte> packed(bytes);
    c.exchange_rows({rows.data(), order, send}, {direct.data(), place, receive}, kRow);
    c.Communicator::exchange_rows({rows.data(), order, send}, {packed.data(), place, receive},
                                  kRow);
    ASSERT_EQ(direct, packed);
  });
}

TEST_P(InProcess, AFailingRankEndsAllOthersWithItsName) {
  const int bad = ranks_ - 1;
  std::atomic<int> told = 0;
  const auto run = [&] {
    world_->run(ranks_, [&](Communicator& c) {
      c.barrier();
      if (c.rank() == bad) throw Error(Fault::shape, "no such expert");
      try {
        c.barrier();
        ADD_FAILURE() << "rank " << c.rank() << " passed a barrier that one rank never reached";
      } catch (const Error& error) {
        const std::string what = error.what();
        EXPECT_EQ(what, "communicator: rank " + std::to_string(bad) + " failed: no such expert");
        ++told;
        throw;
      }
    });
  };
  EXPECT_EQ(refusal(run, Fault::shape), "no such expert");
  EXPECT_EQ(told, ranks_ - 1);
}

TEST(InProcessWorld, CallsThatDoNotMatchAreRefused) {
  const auto refused = [](int ranks, const std::function<void(Communicator&)>& call) {
    EXPECT_THROW(make_in_process_world()->run(ranks, call), Error);
  };
  refused(0, [](Communicator&) {});
  refused(3, [](Communicator& c) {
    if (c.rank() != 1) c.barrier();  // one that leaves early leaves nobody waiting
  });
  refused(2, [](Communicator& c) {
    if (c.rank() == 0) c.barrier();
    if (c.rank() == 1) c.all_gather({});
  });
  refused(2, [](Communicator& c) {
    std::vector<std::byte> send(4), receive(c.rank() == 0 ? 4 : 5);
    const std::vector<std::size_t> two = {2, 2}, five = {2, 3};
    c.all_to_all(send, two, receive, c.rank() == 0 ? two : five);
  });
  EXPECT_THROW(make_world("pigeons"), Error);
}

}  // namespace
}  // namespace mxo::communicators_test

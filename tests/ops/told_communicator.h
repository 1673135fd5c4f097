// A communicator without a peer: a test says what the other rank sends.
#pragma once

#include <algorithm>

#include <gtest/gtest.h>

#include "ops/communicator.h"

namespace mxo {

/// Rank 1 of two; what rank 0 sends is told beforehand, and what it would get is kept.
class ToldCommunicator : public Communicator {
 public:
  using Bytes = std::vector<std::byte>;
  using Communicator::all_gather;
  using Communicator::all_to_all;
  int rank() const override { return 1; }
  int size() const override { return 2; }
  void barrier() override {}
  void all_to_all(std::span<const std::byte> send, std::span<const std::size_t> send_bytes,
                  std::span<std::byte> receive,
                  std::span<const std::size_t> receive_bytes) override {
    ASSERT_EQ(send_bytes.size(), 2u);
    ASSERT_EQ(receive_bytes.size(), 2u);
    ASSERT_EQ(send.size(), send_bytes[0] + send_bytes[1]);
    ASSERT_EQ(receive.size(), receive_bytes[0] + receive_bytes[1]);
    ASSERT_EQ(receive_bytes[0], from_other.size());
    ASSERT_EQ(receive_bytes[1], send_bytes[1]);
    direct = send.data() == watched;
    to_other.assign(send.begin(), send.begin() + static_cast<std::ptrdiff_t>(send_bytes[0]));
    const auto own = std::copy(from_other.begin(), from_other.end(), receive.begin());
    std::copy(send.begin() + static_cast<std::ptrdiff_t>(send_bytes[0]), send.end(), own);
  }
  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    return {from_other, Bytes(mine.begin(), mine.end())};
  }

  Bytes from_other;
  Bytes to_other;
  const std::byte* watched = nullptr;
  bool direct = false;  ///< whether what was sent lay where `watched` says
};

/// The only rank there is.
class AloneCommunicator : public ToldCommunicator {
 public:
  using Communicator::all_to_all;
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_to_all(std::span<const std::byte> send, std::span<const std::size_t>,
                  std::span<std::byte> receive, std::span<const std::size_t>) override {
    ASSERT_EQ(send.size(), receive.size());
    ++exchanges;
    std::copy(send.begin(), send.end(), receive.begin());
  }
  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    return {Bytes(mine.begin(), mine.end())};
  }

  int exchanges = 0;
};

}  // namespace mxo

// What a call costs that no clock says: memory held, bytes sent, operators run.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/communicator.h"
#include "ops/forwarding_backend.h"

namespace mxo::tools {

/// Bytes that counted backends have handed out and not taken back.  Any threads at once.
class Memory {
 public:
  void take(const std::byte* memory, std::size_t bytes);
  void give(const std::byte* memory);
  std::size_t live() const;
  /// The most there were at once since `forget_peak`.
  std::size_t peak() const;
  void forget_peak();

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const std::byte*, std::size_t> held_;
  std::size_t live_ = 0;
  std::size_t peak_ = 0;
};

/// Counts what it allocates, and the calls and the seconds of every operator.  A device is waited
/// for after each, so that its time is its own.
class CountedBackend : public ForwardingBackend {
 public:
  struct Spent {
    double seconds = 0.0;
    int calls = 0;
  };
  CountedBackend(Backend& inner, Memory& memory) : ForwardingBackend(inner), memory_(memory) {}
  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* memory) noexcept override;
  void fill_zero(std::byte* memory, std::size_t bytes) override;

  const std::map<std::string, Spent>& spent() const { return spent_; }
  void forget_spent() { spent_.clear(); }

 protected:
  void around(std::string_view op, const std::function<void()>& run) override;

 private:
  Memory& memory_;
  std::map<std::string, Spent> spent_;
};

/// What one rank sent to others.
struct Traffic {
  std::size_t exchanged = 0;  ///< bytes of all_to_all and exchange_rows
  std::size_t gathered = 0;   ///< bytes of all_gather, once for every other rank
  double seconds = 0.0;       ///< in either, waiting for others included
};

/// A communicator that counts what it sends to other ranks.
class CountedCommunicator : public Communicator {
 public:
  explicit CountedCommunicator(Communicator& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void all_to_all(std::span<const std::byte> send, std::span<const std::size_t> send_bytes,
                  std::span<std::byte> receive,
                  std::span<const std::size_t> receive_bytes) override;
  void all_to_all(Backend& backend, std::span<const std::byte> send,
                  std::span<const std::size_t> send_bytes, std::span<std::byte> receive,
                  std::span<const std::size_t> receive_bytes) override;
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override;
  void all_gather(Backend& backend, std::span<const std::byte> mine, std::span<std::byte> all,
                  std::span<const std::size_t> bytes) override;
  void barrier() override { inner_.barrier(); }
  void exchange_rows(const RowsOut& out, const RowsIn& in, std::size_t row_bytes) override;

  const Traffic& traffic() const { return traffic_; }
  void forget_traffic() { traffic_ = {}; }

 private:
  template <typename Count>
  std::size_t to_others(std::span<const Count> of_ranks) const;
  void gathered(std::size_t mine);

  Communicator& inner_;
  Traffic traffic_;
};

/// A world whose ranks say what they sent.
class CountedWorld : public World {
 public:
  explicit CountedWorld(World& inner) : inner_(inner) {}
  std::string_view name() const override { return inner_.name(); }
  void run(int ranks, const std::function<void(Communicator&)>& body) override;
  bool one_process() const override { return inner_.one_process(); }
  void agree_on(std::string_view question) override { inner_.agree_on(question); }
  bool writes() const override { return inner_.writes(); }
  void check(const Backend& backend) const override { inner_.check(backend); }

  /// Of every rank of the last run, in every process; empty where none was made.
  const std::vector<Traffic>& traffic() const { return traffic_; }

 private:
  World& inner_;
  std::mutex mutex_;
  std::vector<Traffic> traffic_;
};

}  // namespace mxo::tools

// Counters around a backend, a communicator and a world.
#include "tools/counted.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace mxo::tools {
namespace {

/// Adds the seconds of its life.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

void Memory::take(const std::byte* memory, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  held_[memory] = bytes;
  live_ += bytes;
  peak_ = std::max(peak_, live_);
}

void Memory::give(const std::byte* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(memory);
  if (found == held_.end()) return;
  live_ -= found->second;
  held_.erase(found);
}

std::size_t Memory::live() const {
  const std::lock_guard lock(mutex_);
  return live_;
}

std::size_t Memory::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

void Memory::forget_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = live_;
}

std::byte* CountedBackend::allocate(std::size_t bytes) {
  std::byte* memory = inner().allocate(bytes);
  memory_.take(memory, bytes);
  return memory;
}

void CountedBackend::release(std::byte* memory) noexcept {
  memory_.give(memory);
  inner().release(memory);
}

void CountedBackend::fill_zero(std::byte* memory, std::size_t bytes) {
  around("fill_zero", [&] { inner().fill_zero(memory, bytes); });
}

void CountedBackend::around(std::string_view op, const std::function<void()>& run) {
  Spent& spent = spent_[std::string(op)];
  const Stopwatch watch(spent.seconds);
  run();
  if (!reads_host_memory()) inner().synchronize();
  ++spent.calls;
}

template <typename Count>
std::size_t CountedCommunicator::to_others(std::span<const Count> of_ranks) const {
  std::size_t sum = 0;
  for (std::size_t p = 0; p < of_ranks.size(); ++p) {
    if (p != static_cast<std::size_t>(rank())) sum += static_cast<std::size_t>(of_ranks[p]);
  }
  return sum;
}

void CountedCommunicator::gathered(std::size_t mine) {
  traffic_.gathered += mine * static_cast<std::size_t>(size() - 1);
}

void CountedCommunicator::all_to_all(std::span<const std::byte> send,
                                     std::span<const std::size_t> send_bytes,
                                     std::span<std::byte> receive,
                                     std::span<const std::size_t> receive_bytes) {
  const Stopwatch watch(traffic_.seconds);
  traffic_.exchanged += to_others(send_bytes);
  inner_.all_to_all(send, send_bytes, receive, receive_bytes);
}

void CountedCommunicator::all_to_all(Backend& backend, std::span<const std::byte> send,
                                     std::span<const std::size_t> send_bytes,
                                     std::span<std::byte> receive,
                                     std::span<const std::size_t> receive_bytes) {
  const Stopwatch watch(traffic_.seconds);
  traffic_.exchanged += to_others(send_bytes);
  inner_.all_to_all(backend, send, send_bytes, receive, receive_bytes);
}

std::vector<std::vector<std::byte>> CountedCommunicator::all_gather(
    std::span<const std::byte> mine) {
  const Stopwatch watch(traffic_.seconds);
  gathered(mine.size());
  return inner_.all_gather(mine);
}

void CountedCommunicator::all_gather(Backend& backend, std::span<const std::byte> mine,
                                     std::span<std::byte> all, std::span<const std::size_t> bytes) {
  const Stopwatch watch(traffic_.seconds);
  gathered(mine.size());
  inner_.all_gather(backend, mine, all, bytes);
}

void CountedCommunicator::exchange_rows(const RowsOut& out, const RowsIn& in,
                                        std::size_t row_bytes) {
  const Stopwatch watch(traffic_.seconds);
  traffic_.exchanged += to_others(out.counts) * row_bytes;
  inner_.exchange_rows(out, in, row_bytes);
}

void CountedWorld::run(int ranks, const std::function<void(Communicator&)>& body) {
  inner_.run(ranks, [&](Communicator& communicator) {
    CountedCommunicator counted(communicator);
    body(counted);
    const Traffic mine = counted.traffic();
    const auto all = communicator.all_gather(std::as_bytes(std::span(&mine, 1)));
    const std::lock_guard lock(mutex_);
    traffic_.resize(all.size());
    for (std::size_t p = 0; p < all.size(); ++p) {
      std::memcpy(&traffic_[p], all[p].data(), sizeof(Traffic));
    }
  });
}

}  // namespace mxo::tools

// N ranks as N threads of one process: buffers are read where they lie, between two barriers.
#include <omp.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "emu/communicators.h"
#include "emu/cpu/row_moves.h"
#include "formats/error.h"

namespace mxo {
namespace {

/// What a rank offers to the others during a call.
struct PostedBuffers {
  const char* call = nullptr;  ///< all ranks must be in the same
  std::span<const std::byte> bytes;
  std::span<const std::size_t> byte_counts;
  RowsOut rows;
  std::size_t row_bytes = 0;
};

/// What the ranks share.
class Rendezvous {
 public:
  explicit Rendezvous(int ranks) : offers_(static_cast<std::size_t>(ranks)) {}

  int size() const { return static_cast<int>(offers_.size()); }
  PostedBuffers& offer(int rank) { return offers_[static_cast<std::size_t>(rank)]; }

  /// Waits until all ranks are here.  Throws once a rank has failed.
  void wait() {
    std::unique_lock lock(mutex_);
    check();
    if (left_ >= 0) throw Error(Fault::unsupported, ended(left_));
    const auto generation = generation_;
    if (++waiting_ == size()) {
      waiting_ = 0;
      ++generation_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return generation_ != generation || failed_ >= 0; });
    if (generation_ == generation) check();
  }

  /// A rank is done.  A rank that waits for it, now or later, waits in vain.
  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    left_ = rank;
    if (waiting_ > 0 && failed_ < 0) {
      what_ = ended(rank);
      error_ = std::make_exception_ptr(Error(Fault::unsupported, what_));
      failed_ = rank;
      changed_.notify_all();
    }
  }
  /// The first failure is the one that counts.
  void fail(int rank, std::exception_ptr error, std::string what) {
    const std::lock_guard lock(mutex_);
    if (failed_ >= 0) return;
    failed_ = rank;
    error_ = std::move(error);
    what_ = std::move(what);
    changed_.notify_all();
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static std::string ended(int rank) {
    return "communicator: rank " + std::to_string(rank) + " ended while others wait for it";
  }
  void check() const {
    if (failed_ < 0) return;
    throw Error(Fault::unsupported,
                "communicator: rank " + std::to_string(failed_) + " failed: " + what_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<PostedBuffers> offers_;
  std::uint64_t generation_ = 0;
  int waiting_ = 0;
  int failed_ = -1;
  int left_ = -1;
  std::exception_ptr error_;
  std::string what_;
};

class InProcessCommunicator : public Communicator {
 public:
  using Communicator::all_gather;
  using Communicator::all_to_all;
  InProcessCommunicator(Rendezvous& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return meeting_.size(); }

  void all_to_all(std::span<const std::byte> send, std::span<const std::size_t> send_bytes,
                  std::span<std::byte> receive,
                  std::span<const std::size_t> receive_bytes) override {
    check_counts("all_to_all", send_bytes, send.size(), "send");
    check_counts("all_to_all", receive_bytes, receive.size(), "receive");
    PostedBuffers mine;
    mine.call = "all_to_all";
    mine.bytes = send;
    mine.byte_counts = send_bytes;
    meet(mine);
    while_all_stay([&] {
      std::size_t at = 0;
      for (int p = 0; p < size(); ++p) {
        const PostedBuffers& from = meeting_.offer(p);
        const auto me = static_cast<std::size_t>(rank_);
        std::size_t start = 0;
        for (std::size_t q = 0; q < me; ++q) start += from.byte_counts[q];
        const std::size_t bytes = receive_bytes[static_cast<std::size_t>(p)];
        agree("all_to_all", p, from.byte_counts[me], bytes, "bytes");
        if (bytes > 0) std::memcpy(receive.data() + at, from.bytes.data() + start, bytes);
        at += bytes;
      }
    });
  }

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    PostedBuffers offer;
    offer.call = "all_gather";
    offer.bytes = mine;
    meet(offer);
    std::vector<std::vector<std::byte>> all;
    while_all_stay([&] {
      for (int p = 0; p < size(); ++p) {
        const std::span<const std::byte> from = meeting_.offer(p).bytes;
        all.emplace_back(from.begin(), from.end());
      }
    });
    return all;
  }

  void barrier() override {
    PostedBuffers offer;
    offer.call = "barrier";
    meet(offer);
    meeting_.wait();
  }

  void exchange_rows(const RowsOut& out, const RowsIn& in, std::size_t row_bytes) override {
    check_rows(out.counts, out.order.size(), "send");
    check_rows(in.counts, in.place.size(), "receive");
    PostedBuffers offer;
    offer.call = "exchange_rows";
    offer.rows = out;
    offer.row_bytes = row_bytes;
    meet(offer);
    while_all_stay([&] { take_rows(in, row_bytes); });
  }

 private:
  /// Lays the offer out and waits for everybody's.
  void meet(const PostedBuffers& mine) {
    meeting_.offer(rank_) = mine;
    meeting_.wait();
    for (int p = 0; p < size(); ++p) {
      if (std::string_view(meeting_.offer(p).call) != mine.call) {
        throw Error(Fault::argument, std::string("communicator: rank ") + std::to_string(rank_) +
                                         " is in " + mine.call + ", rank " + std::to_string(p) +
                                         " in " + meeting_.offer(p).call);
      }
    }
  }
  /// Reads what the others offer.  No rank takes its buffers away before all are through, not even
  /// a rank that fails on the way.
  template <typename Read>
  void while_all_stay(Read&& read) {
    std::exception_ptr error;
    try {
      read();
    } catch (const Error&) {
      error = std::current_exception();
    }
    meeting_.wait();
    if (error) std::rethrow_exception(error);
  }
  /// As many threads as there are cores for each rank; large rows go past the caches.
  void take_rows(const RowsIn& in, std::size_t row_bytes) {
    const int threads = std::max(omp_get_max_threads() / size(), 1);
    const auto width = static_cast<Index>(row_bytes);
    const auto all = static_cast<Index>(in.place.size()) * width;
    std::size_t at = 0;
    for (int p = 0; p < size(); ++p) {
      const PostedBuffers& from = meeting_.offer(p);
      const auto me = static_cast<std::size_t>(rank_);
      agree("exchange_rows", p, from.row_bytes, row_bytes, "bytes a row");
      Index start = 0;
      for (std::size_t q = 0; q < me; ++q) start += from.rows.counts[q];
      const Index rows = in.counts[static_cast<std::size_t>(p)];
      agree("exchange_rows", p, static_cast<std::size_t>(from.rows.counts[me]),
            static_cast<std::size_t>(rows), "rows");
      cpu::RowRuns runs(rows);
      Index most = 0;
      for (Index i = 0; i < rows; ++i, ++at) {
        const Index row = from.rows.order[static_cast<std::size_t>(start + i)];
        runs.add(in.place[at], row);
        most = std::max(most, row + 1);
      }
      cpu::move_rows(bytes_at(in.rows, most, width), bytes_at(from.rows.rows, most, width), runs,
                     threads, all);
    }
  }
  /// Rows as a matrix of bytes.
  template <typename Byte>
  static AnyView<std::conditional_t<std::is_const_v<Byte>, const void, void>> bytes_at(
      Byte* rows, Index count, Index width) {
    return {rows, Dtype::u8, 2, {count, width}, {width, 1}};
  }
  void check_counts(const char* call, std::span<const std::size_t> counts, std::size_t bytes,
                    const char* side) const {
    std::size_t sum = 0;
    for (const std::size_t count : counts) sum += count;
    if (counts.size() == static_cast<std::size_t>(size()) && sum == bytes) return;
    throw Error(Fault::shape, std::string(call) + ": " + side + ": found " +
                                  std::to_string(counts.size()) + " counts of " +
                                  std::to_string(sum) + " bytes in all, needs " +
                                  std::to_string(size()) + " of " + std::to_string(bytes));
  }
  void check_rows(std::span<const Index> counts, std::size_t rows, const char* side) const {
    std::vector<std::size_t> sizes(counts.begin(), counts.end());
    check_counts("exchange_rows", sizes, rows, side);
  }
  void agree(const char* call, int other, std::size_t sent, std::size_t expected,
             const char* unit) const {
    if (sent == expected) return;
    throw Error(Fault::shape, std::string(call) + ": rank " + std::to_string(other) + " has " +
                                  std::to_string(sent) + " " + unit + " for rank " +
                                  std::to_string(rank_) + ", which needs " +
                                  std::to_string(expected));
  }

  Rendezvous& meeting_;
  int rank_;
};

class InProcessWorld : public World {
 public:
  std::string_view name() const override { return "in_process"; }

  void run(int ranks, const std::function<void(Communicator&)>& body) override {
    if (ranks < 1) {
      throw Error(Fault::argument, "ranks: found " + std::to_string(ranks) + ", needs 1 or more");
    }
    Rendezvous meeting(ranks);
    const auto guarded = [&](int rank) {
      InProcessCommunicator communicator(meeting, rank);
      try {
        body(communicator);
        meeting.leave(rank);
      } catch (const std::exception& error) {
        meeting.fail(rank, std::current_exception(), error.what());
      } catch (...) {
        meeting.fail(rank, std::current_exception(), "unknown exception");
      }
    };
    std::vector<std::thread> threads;
    threads.reserve(static_cast<std::size_t>(ranks));
    try {
      for (int rank = 1; rank < ranks; ++rank) threads.emplace_back(guarded, rank);
      guarded(0);
    } catch (const std::system_error& error) {
      const std::string what = "rank " + std::to_string(threads.size() + 1) + " of " +
                               std::to_string(ranks) + ": its thread cannot start: " + error.what();
      meeting.fail(static_cast<int>(threads.size()) + 1,
                   std::make_exception_ptr(Error(Fault::unsupported, what)), what);
    }
    for (std::thread& thread : threads) thread.join();
    meeting.rethrow();
  }
};

}  // namespace

std::unique_ptr<World> make_in_process_world() { return std::make_unique<InProcessWorld>(); }

}  // namespace mxo

// Ranks as the processes of an MPI job.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "emu/communicators.h"
#include "formats/error.h"

namespace mxo {
namespace {

/// Counts of MPI 3 are ints: longer messages go in pieces.
constexpr std::size_t kPiece = std::size_t{1} << 30;

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(Fault::unsupported, std::string("mpi: ") + call + ": " +
                                      std::string(text, static_cast<std::size_t>(length)));
}

class MpiCommunicator : public Communicator {
 public:
  using Communicator::all_gather;
  using Communicator::all_to_all;
  MpiCommunicator() {
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_to_all(std::span<const std::byte> send, std::span<const std::size_t> send_bytes,
                  std::span<std::byte> receive,
                  std::span<const std::size_t> receive_bytes) override {
    check_counts(send_bytes, send.size(), "send");
    check_counts(receive_bytes, receive.size(), "receive");
    check_agreement(send_bytes, receive_bytes);
    std::vector<MPI_Request> requests;
    std::size_t at = 0;
    for (int p = 0; p < size_; ++p) {
      const std::size_t bytes = receive_bytes[static_cast<std::size_t>(p)];
      in_pieces(bytes, [&](std::size_t start, int count) {
        check(MPI_Irecv(receive.data() + at + start, count, MPI_BYTE, p, 0, MPI_COMM_WORLD,
                        &requests.emplace_back()),
              "MPI_Irecv");
      });
      at += bytes;
    }
    at = 0;
    for (int p = 0; p < size_; ++p) {
      const std::size_t bytes = send_bytes[static_cast<std::size_t>(p)];
      in_pieces(bytes, [&](std::size_t start, int count) {
        check(MPI_Isend(send.data() + at + start, count, MPI_BYTE, p, 0, MPI_COMM_WORLD,
                        &requests.emplace_back()),
              "MPI_Isend");
      });
      at += bytes;
    }
    check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
          "MPI_Waitall");
  }

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    const std::vector<std::size_t> lengths = lengths_of(mine.size());
    const auto ranks = static_cast<std::size_t>(size_);
    std::vector<std::byte> send;
    for (std::size_t p = 0; p < ranks; ++p) send.insert(send.end(), mine.begin(), mine.end());
    std::size_t total = 0;
    for (const std::size_t length : lengths) total += length;
    std::vector<std::byte> receive(total);
    all_to_all(send, std::vector<std::size_t>(ranks, mine.size()), receive, lengths);
    std::vector<std::vector<std::byte>> all;
    auto from = receive.begin();
    for (const std::size_t length : lengths) {
      all.emplace_back(from, from + static_cast<std::ptrdiff_t>(length));
      from += static_cast<std::ptrdiff_t>(length);
    }
    return all;
  }

  void barrier() override { check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }

 private:
  template <typename Fn>
  static void in_pieces(std::size_t bytes, Fn&& fn) {
    for (std::size_t start = 0; start < bytes; start += kPiece) {
      fn(start, static_cast<int>(std::min(kPiece, bytes - start)));
    }
  }
  std::vector<std::size_t> lengths_of(std::size_t mine) const {
    std::vector<std::size_t> all(static_cast<std::size_t>(size_));
    check(MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all.data(), sizeof(mine), MPI_BYTE,
                        MPI_COMM_WORLD),
          "MPI_Allgather");
    return all;
  }
  void check_counts(std::span<const std::size_t> counts, std::size_t bytes,
                    const char* side) const {
    std::size_t sum = 0;
    for (const std::size_t count : counts) sum += count;
    if (counts.size() == static_cast<std::size_t>(size_) && sum == bytes) return;
    throw Error(Fault::shape, std::string("all_to_all: ") + side + ": found " +
                                  std::to_string(counts.size()) + " counts of " +
                                  std::to_string(sum) + " bytes in all, needs " +
                                  std::to_string(size_) + " of " + std::to_string(bytes));
  }
  void check_agreement(std::span<const std::size_t> sent, std::span<const std::size_t> expected) {
    std::vector<std::size_t> coming(sent.size());
    check(MPI_Alltoall(sent.data(), sizeof(std::size_t), MPI_BYTE, coming.data(),
                       sizeof(std::size_t), MPI_BYTE, MPI_COMM_WORLD),
          "MPI_Alltoall");
    for (std::size_t p = 0; p < coming.size(); ++p) {
      if (coming[p] == expected[p]) continue;
      throw Error(Fault::shape, "all_to_all: rank " + std::to_string(p) + " has " +
                                    std::to_string(coming[p]) + " bytes for rank " +
                                    std::to_string(rank_) + ", which needs " +
                                    std::to_string(expected[p]));
    }
  }

  int rank_ = 0;
  int size_ = 1;
};

/// MPI from the first use to the end of the process.
class Session {
 public:
  Session() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  ~Session() { MPI_Finalize(); }
};

class MpiWorld : public World {
 public:
  MpiWorld() { static const Session session; }
  std::string_view name() const override { return "mpi"; }

  void run(int ranks, const std::function<void(Communicator&)>& body) override {
    MpiCommunicator communicator;
    std::string failure;
    try {
      if (ranks != communicator.size()) {
        throw Error(Fault::argument, "ranks: found " + std::to_string(ranks) +
                                         ", needs the size of the MPI job, " +
                                         std::to_string(communicator.size()));
      }
      body(communicator);
      return;
    } catch (const std::exception& error) {
      failure = error.what();
    }
    // The others may wait in a call for this rank: only ending the job ends them all.
    std::fprintf(stderr, "mxo: rank %d failed: %s; the job ends\n", communicator.rank(),
                 failure.c_str());
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 3);
    std::abort();
  }
  void agree_on(std::string_view question) override {
    MpiCommunicator communicator;
    const auto* bytes = reinterpret_cast<const std::byte*>(question.data());
    const auto all = communicator.all_gather(std::span(bytes, question.size()));
    for (std::size_t p = 1; p < all.size(); ++p) {
      if (all[p] == all[0]) continue;
      throw Error(Fault::argument, "mpi: rank " + std::to_string(p) +
                                       " was given other arguments or operands than rank 0");
    }
  }
  bool one_process() const override { return false; }
  bool writes() const override { return MpiCommunicator().rank() == 0; }
};

}  // namespace

std::unique_ptr<World> make_mpi_world() { return std::make_unique<MpiWorld>(); }

std::string why_no_mpi() { return {}; }

bool started_by_mpi() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr;
}

}  // namespace mxo

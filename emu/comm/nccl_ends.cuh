// The NCCL communicators of the ranks that run in this process, and how they end together.
#pragma once

#include <nccl.h>

#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "formats/error.h"

namespace mxo {

/// Throws Error(internal) with the call's name.  Non-blocking calls may still be under way.
inline void check_nccl(ncclResult_t status, const char* call) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  std::string what = std::string("nccl: ") + call + ": " + ncclGetErrorString(status);
  const char* detail = ncclGetLastError(nullptr);
  if (detail != nullptr && *detail != '\0') what += std::string(": ") + detail;
  throw Error(Fault::internal, what);
}

/// One communicator a rank.  They are non-blocking, and a rank holds its lock for the length of a
/// call only, so that another can abort them all: kernels that wait on some device for a rank that
/// failed then leave, and with them the ranks that wait for that device.  NCCL frees the
/// communicators of one process together, with the last of them: none is destroyed before all ranks
/// are done.
class NcclEnds {
 public:
  explicit NcclEnds(int ranks) : ends_(static_cast<std::size_t>(ranks)) {}
  NcclEnds(const NcclEnds&) = delete;
  NcclEnds& operator=(const NcclEnds&) = delete;
  ~NcclEnds() {
    for (End& end : ends_) {
      if (end.comm != nullptr) ncclCommDestroy(end.comm);
    }
  }

  /// Starts this rank's part of the communicator, on the device that is current.
  void join(int rank, const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const auto ranks = static_cast<int>(ends_.size());
    {
      End& end = at(rank);
      const std::lock_guard hold(end.lock);
      check_failure();
      check_nccl(ncclCommInitRankConfig(&end.comm, ranks, id, rank, &config),
                 "ncclCommInitRankConfig");
    }
    resolve(rank, "ncclCommInitRankConfig");
  }

  /// fn(comm) between ncclGroupStart and ncclGroupEnd; returns when all of it is in its stream.
  template <typename Fn>
  void group(int rank, Fn&& fn) {
    {
      End& end = at(rank);
      const std::lock_guard hold(end.lock);
      check_failure();
      check_nccl(ncclGroupStart(), "ncclGroupStart");
      std::exception_ptr error;
      try {
        fn(end.comm);
      } catch (const Error&) {
        error = std::current_exception();
      }
      const ncclResult_t ended = ncclGroupEnd();
      if (error) std::rethrow_exception(error);
      check_nccl(ended, "ncclGroupEnd");
    }
    resolve(rank, "ncclGroupEnd");
  }

  /// Of a rank that failed.  The first failure is the one that counts.
  void abort(int rank, std::exception_ptr error, const std::string& what) {
    {
      const std::lock_guard hold(lock_);
      if (failed_) return;
      what_ = "communicator: rank " + std::to_string(rank) + " failed: " + what;
      failed_ = std::move(error);
    }
    for (End& end : ends_) {
      const std::lock_guard hold(end.lock);
      if (end.comm != nullptr) ncclCommAbort(end.comm);
      end.comm = nullptr;
    }
  }
  /// Throws what the first rank to fail has thrown.
  void rethrow() const {
    if (failed_) std::rethrow_exception(failed_);
  }

 private:
  struct End {
    std::mutex lock;
    ncclComm_t comm = nullptr;
  };
  End& at(int rank) { return ends_[static_cast<std::size_t>(rank)]; }
  void check_failure() {
    const std::lock_guard hold(lock_);
    if (failed_) throw Error(Fault::unsupported, what_);
  }
  /// Waits for the host's part of a non-blocking call, unless a rank fails.
  void resolve(int rank, const char* call) {
    End& end = at(rank);
    for (;;) {
      ncclResult_t state = ncclSuccess;
      {
        const std::lock_guard hold(end.lock);
        check_failure();
        check_nccl(ncclCommGetAsyncError(end.comm, &state), "ncclCommGetAsyncError");
      }
      check_nccl(state, call);
      if (state == ncclSuccess) return;
      std::this_thread::yield();
    }
  }

  std::deque<End> ends_;  // a mutex cannot move
  std::mutex lock_;
  std::exception_ptr failed_;
  std::string what_;
};

}  // namespace mxo

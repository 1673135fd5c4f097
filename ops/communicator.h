// Moving rows between ranks.  Moves bytes, never adds: a sum whose order is up to the library
// cannot be bit-exact, so sums happen in a Backend, in rank order.
// Thread safety: a World runs one run at a time; a Communicator belongs to the thread of its rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/tensor_view.h"

namespace mxo {

class Backend;

/// Rows on their way out: counts[p] of them go to rank p, in the order of `order`, which names
/// rows of `rows` (each of row_bytes, `rows` contiguous), those for rank 0 first.
struct RowsOut {
  const std::byte* rows = nullptr;
  std::span<const std::int32_t> order;
  std::span<const Index> counts;
};
/// Rows on their way in: counts[p] of them come from rank p; the i-th of all, those of rank 0
/// first, becomes row place[i] of `rows`.
struct RowsIn {
  std::byte* rows = nullptr;
  std::span<const std::int32_t> place;
  std::span<const Index> counts;
};

/// One rank's end of a group.  Every call but rank() and size() is collective: all ranks make the
/// same calls in the same order.  If a rank fails, the calls of all others throw
/// Error(unsupported) that names it; none hangs.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sends send_bytes[p] bytes to each rank p, blocks in rank order on both sides.
  /// Throws Error(shape) if the counts do not match the buffers or each other.
  virtual void all_to_all(std::span<const std::byte> send, std::span<const std::size_t> send_bytes,
                          std::span<std::byte> receive,
                          std::span<const std::size_t> receive_bytes) = 0;
  /// The same between buffers in a backend's memory: by way of the host, unless that is where they
  /// are or a communicator can do better.
  virtual void all_to_all(Backend& backend, std::span<const std::byte> send,
                          std::span<const std::size_t> send_bytes, std::span<std::byte> receive,
                          std::span<const std::size_t> receive_bytes);
  /// Every rank's `mine`, in rank order; they may differ in length.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) = 0;
  /// The same between buffers in a backend's memory, one block behind the other; block p has
  /// bytes[p] bytes, which every rank knows.
  virtual void all_gather(Backend& backend, std::span<const std::byte> mine,
                          std::span<std::byte> all, std::span<const std::size_t> bytes);
  virtual void barrier() = 0;

  /// Rows straight from where they lie to where they belong.  The same bytes as packing them,
  /// all_to_all, and unpacking, which is what this does unless a communicator can do better.
  virtual void exchange_rows(const RowsOut& out, const RowsIn& in, std::size_t row_bytes);
};

/// All ranks of a job, as one program sees them.
class World {
 public:
  virtual ~World() = default;
  virtual std::string_view name() const = 0;
  /// Runs `body` on each of `ranks` ranks: on threads of this process, or as this process's part
  /// of a job of processes.  Returns when all ranks that run here are done, and throws what the
  /// first of them to fail has thrown.  Throws Error(argument) if the job has another size.
  virtual void run(int ranks, const std::function<void(Communicator&)>& body) = 0;
  /// True if all ranks run in this process.
  virtual bool one_process() const { return true; }
  /// Checks that all processes were given the same request.  Collective.
  /// Throws Error(argument), in every process, where two of them differ.
  virtual void agree_on(std::string_view) {}
  /// True in the process that writes the results of all ranks.
  virtual bool writes() const { return true; }
  /// Throws Error(argument) if its ranks cannot exchange what lies in such a backend's memory.
  virtual void check(const Backend&) const {}
};

}  // namespace mxo

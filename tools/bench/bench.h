// What every table is made with: the request, the sizes it allows, and one way to time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "golden/judge/progress.h"
#include "golden/suites/models.h"
#include "ops/backend_tensor.h"
#include "tools/bench/table.h"

namespace mxo::tools {

/// One request, as the command line says it.
struct Bench {
  std::string backend_name = "cpu";
  std::string table;
  int threads = 0;                 ///< of all ranks together; 0: as many as there are cores
  const Model* model = nullptr;    ///< null: the table's own
  double scale = 1.0;              ///< multiplies tokens and widths; 1: as published
  Index tokens = 0;                ///< in place of the table's, before they are scaled; 0: those
  std::vector<int> ranks;          ///< empty: the table's own
  int repeats = 5;                 ///< n of every median
  std::string rivals = "python3";  ///< runs rival_tables.py; empty: not asked
  std::string input;               ///< a file of tensors, of requantize
  Progress progress;
  std::shared_ptr<Backend> backend;

  /// `full` scaled, rounded up to a multiple of 128 and at most `full`.
  Index extent(Index full) const;
  Index token_count(Index full) const { return extent(tokens > 0 ? tokens : full); }
  void tell(std::size_t done, std::size_t of, std::string_view what) const;

  /// Throws Error(unsupported) with the greatest scale that fits, where `need`, the bytes that
  /// such a request takes at once, are more than there are.
  void require_room(const std::function<double(const Bench&)>& need) const;
};

/// Normal deviates in bf16 times `spread`; a run of 65521 of them is repeated, so that no two rows
/// are alike.
BackendTensor normal(Backend& backend, std::initializer_list<Index> shape, unsigned seed,
                     float spread = 1.0f);
/// Ends of even groups of whole blocks of 32, or of uneven ones that end anywhere.
enum class Groups : std::uint8_t { even, uneven };
std::vector<Index> group_ends(Index rows, Index groups, Groups how);
/// The same as i32 [groups].
MirroredTensor group_ends(Backend& backend, Index rows, Index groups, Groups how);

/// One thing to be timed.
struct TimedCall {
  std::string name;
  double bytes = 0.0;  ///< read and written; not 0: memcpy of as many is timed beside it
  std::function<void()> run;
};
struct Timing {
  Sample call;
  Sample copy;  ///< n = 0: no copy
};
/// Warms up, then times the calls and copies in turns, `repeats` times.
std::vector<Timing> time_calls(const Bench& bench, const std::vector<TimedCall>& calls);

/// Bytes in use by this process, and the most since `forget_process_peak`; 0 where unknown.
std::size_t process_bytes();
std::size_t process_peak();
/// Gives free memory back and starts a new peak.  False where the system does not let us.
bool forget_process_peak();

// The tables: tools/bench/*.cc.
Table pad_table(const Bench& bench);
Table linear_table(const Bench& bench);
Table kernels_table(const Bench& bench);
Table layer_table(const Bench& bench);
Table pipelines_table(const Bench& bench);
Table recompute_table(const Bench& bench);
Table requantize_table(const Bench& bench);
Table training_table(const Bench& bench);

}  // namespace mxo::tools

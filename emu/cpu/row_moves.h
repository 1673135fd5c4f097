// Copies and clears of many rows at once, at the speed of memory.
#pragma once

#include <vector>

#include "formats/any_view.h"

namespace mxo::cpu {

/// `count` neighbouring rows of the output from neighbouring rows of the input; from -1 clears.
/// Rows are numbered by group ends and indices, which are of 32 bits.
struct RowRun {
  std::int32_t to;
  std::int32_t from;
  std::int32_t count;
};

/// Runs that continue each other become one.
class RowRuns {
 public:
  explicit RowRuns(Index most) { list_.reserve(static_cast<std::size_t>(most)); }
  void add(Index to, Index from, Index count = 1);
  const std::vector<RowRun>& list() const { return list_; }

 private:
  std::vector<RowRun> list_;
};

/// to[run.to + i, :] = from[run.from + i, :] for every run, on up to `threads` threads.  Both are
/// of rank 2, one width and one element size; the runs name each output row at most once.  They may
/// be part of a move of `all` bytes, which then decides whether stores are non-temporal.
void move_rows(const Result& to, const Operand& from, const RowRuns& runs, int threads,
               Index all = 0);

}  // namespace mxo::cpu

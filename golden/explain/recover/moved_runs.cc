// Runs of short rows of an output that lie somewhere else in it.
#include <algorithm>
#include <cstring>
#include <map>

#include "golden/explain/score.h"
#include "golden/explain/recover/pieces.h"
#include "golden/explain/recover/recover.h"

namespace mxo {
namespace {

constexpr Index kShortRow = 16;            ///< bytes; longer rows are told one by one
constexpr std::size_t kMostDistances = 4;  ///< more are an order of rows, not runs that moved
constexpr Index kMostComparisons = 1 << 26;

/// Rows of an output as what came and what is expected.
class Rows {
 public:
  explicit Rows(const Output& output)
      : bytes_(static_cast<std::size_t>(output.columns) * size_of(output.expected->dtype())),
        expected_(reinterpret_cast<const char*>(output.expected->data())),
        actual_(reinterpret_cast<const char*>(output.actual->data())) {}

  bool same(Index row, Index from) const {
    return std::memcmp(actual_ + at(row), expected_ + at(from), bytes_) == 0;
  }

 private:
  std::size_t at(Index row) const { return static_cast<std::size_t>(row) * bytes_; }
  std::size_t bytes_;
  const char* expected_;
  const char* actual_;
};

/// Rows that came as those `by` rows after them are expected.
struct RowRun {
  Index rows = 0;
  Index by = 0;
};

/// The longest run from `first` on, up to the last row that differs; of equals the nearest.
RowRun longest_run(const Output& output, const Rows& rows, const std::vector<std::uint8_t>& failing,
                   Index first) {
  RowRun best;
  for (Index from = 0; from < output.owed; ++from) {
    Index n = 0;
    Index last = 0;
    for (; std::max(first, from) + n < output.owed && rows.same(first + n, from + n); ++n) {
      if (failing[static_cast<std::size_t>(first + n)] != 0) last = n + 1;
    }
    const bool nearer = std::abs(from - first) < std::abs(best.by);
    if (last > best.rows || (last == best.rows && nearer)) best = {last, from - first};
  }
  return best;
}

}  // namespace

std::vector<Claim> recover_moved_runs(Output& output) {
  if (output.left == 0 ||
      output.columns * static_cast<Index>(size_of(output.expected->dtype())) >= kShortRow) {
    return {};
  }
  std::vector<std::uint8_t> failing(static_cast<std::size_t>(output.owed));
  for (Index r = 0; r < output.owed; ++r) {
    failing[static_cast<std::size_t>(r)] = output.differs_in(r * output.columns, output.columns);
  }
  const Index wrong = std::count(failing.begin(), failing.end(), 1);
  if (wrong * output.owed > kMostComparisons) return {};
  const Rows rows(output);
  const Chance chance(output);
  std::map<Index, std::vector<Index>> by_distance;
  for (Index r = 0; r < output.owed; ++r) {
    if (failing[static_cast<std::size_t>(r)] == 0) continue;
    const RowRun run = longest_run(output, rows, failing, r);
    if (run.rows == 0 ||
        !chance.tells({r * output.columns}, run.rows * output.columns,
                      static_cast<std::size_t>(wrong), static_cast<std::size_t>(output.owed))) {
      continue;
    }
    for (const Index end = r + run.rows; r < end; ++r) {
      by_distance[run.by].push_back(r * output.columns);
    }
    --r;
  }
  if (by_distance.size() > kMostDistances) return {};
  std::vector<Claim> claims;
  for (const auto& [by, pieces] : by_distance) {
    claims.push_back(claim_of_pieces(output, pieces, output.columns, "rows.shifted",
                                     [&, by = by](const Place& place) {
                                       return distance_in_words(output, by * output.columns, place);
                                     }));
    for (const Index at : pieces) {
      for (Index i = 0; i < output.columns; ++i) output.settle(at + i);
    }
  }
  return claims;
}

}  // namespace mxo

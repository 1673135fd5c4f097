// Rows or columns of an output in another order that comes again every few.
#include <algorithm>
#include <cstring>

#include "golden/explain/name/permutation.h"
#include "golden/explain/recover/model.h"
#include "golden/explain/recover/recover.h"

namespace mxo {
namespace {

constexpr Index kLeast = 8;  ///< elements that have to differ

/// Lines of one direction of the output: rows, or columns.
class Lines {
 public:
  Lines(const Output& output, bool rows) : o_(output), rows_(rows) {}
  Index count() const { return rows_ ? o_.owed : o_.columns; }

  /// Whether what came of `line` is what `source` is owed.
  bool fits(Index line, Index source) const {
    if (rows_) {
      const std::size_t bytes =
          static_cast<std::size_t>(o_.columns) * size_of(o_.expected->dtype());
      return std::memcmp(o_.actual->data() + static_cast<std::size_t>(line) * bytes,
                         o_.expected->data() + static_cast<std::size_t>(source) * bytes,
                         bytes) == 0;
    }
    for (Index r = 0; r < o_.owed; ++r) {
      if (o_.came(r * o_.columns + line) != o_.wanted(r * o_.columns + source)) return false;
    }
    return true;
  }
  /// Runs of so many lines in which something differs.
  Index runs_that_differ(Index period) const {
    Index found = 0;
    for (Index line = 0; line < count(); line += period) {
      bool differs = false;
      for (Index i = line; i < std::min(line + period, count()) && !differs; ++i) {
        differs = !fits(i, i);
      }
      found += differs;
    }
    return found;
  }
  Index source(const Permutation& p, Index i) const {
    const Index line = rows_ ? i / o_.columns : i % o_.columns;
    const Index from = p.from(line);
    if (from >= count()) return i;
    return rows_ ? from * o_.columns + i % o_.columns : i - line + from;
  }

 private:
  const Output& o_;
  bool rows_;
};

std::optional<Claim> claim_lines(Output& output, bool rows) {
  const Lines lines(output, rows);
  const Index n = lines.count();
  const auto fits = [&](Index period, Index i, Index j) {
    if (period > n) return false;
    for (Index line = i; line < n; line += period) {
      if (line - i + period > n) return true;  // an incomplete run may be any
      if (!lines.fits(line, line - i + j)) return false;
    }
    return true;
  };
  for (const Permutation& p : permutations_of(fits)) {
    // An order without a name has to come again, and one row for all of them.
    const bool again = 2 * p.period() <= n && lines.runs_that_differ(p.period()) > 1;
    if ((!p.has_name() || p.source.front() == p.source.back()) && !again) continue;
    auto claim = claim_model(
        output, [&](Index i) { return output.wanted(lines.source(p, i)); },
        rows ? "order.rows" : "order.columns",
        std::string(rows ? "rows" : "columns") + " are taken " + p.words(), kLeast);
    if (claim) return claim;
  }
  return std::nullopt;
}

std::vector<Claim> claims_of(Output& output, bool rows) {
  if (output.left < kLeast || output.left != output.differing) return {};
  auto claim = claim_lines(output, rows);
  return claim ? std::vector<Claim>{std::move(*claim)} : std::vector<Claim>{};
}

}  // namespace

std::vector<Claim> recover_row_order(Output& output) { return claims_of(output, true); }

std::vector<Claim> recover_column_order(Output& output) { return claims_of(output, false); }

}  // namespace mxo

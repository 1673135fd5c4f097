// Rows, tiles and experts that hold their own sum and what is expected, or came, elsewhere.
#include <map>

#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

constexpr Index kRows = 24;  ///< that are looked at
constexpr Index kLeastRows = 4;
constexpr Index kLeastTile = 64;  ///< elements
constexpr Index kLeastTold = 32;  ///< elements
constexpr double kSteps = 64;     ///< roundings that totals in f32 may be away

class Sums {
 public:
  /// `steps`: roundings of a sum in f32.
  explicit Sums(const Output& o, double steps = 1.0)
      : o_(o),
        read_(o.expected->dtype()),
        half_(o.expected->dtype() == Dtype::bf16  ? 0x1p-8
              : o.expected->dtype() == Dtype::f16 ? 0x1p-11
                                                  : 0x1p-23 * steps) {}
  /// Whether element i is the sum of what is expected there and `more`, each of them rounded.
  bool holds(Index i, std::uint64_t more) const {
    const double own = read_(o_.expected_bits(i)).value;
    const double got = read_(o_.actual_bits(i)).value;
    const double added = read_(more).value;
    const double bound = half_ * (std::abs(own) + std::abs(added) + std::abs(got));
    return std::abs(got - own - added) <= bound;
  }
  /// That the sum is another value than the one expected, by more than rounding.
  bool tells(Index i, std::uint64_t more) const {
    return std::abs(read_(more).value) > 4.0 * half_ * std::abs(read_(o_.expected_bits(i)).value);
  }
  /// Whether row r holds its own sum and that of row `from`.
  bool row_holds(Index r, Index from) const {
    Index told = 0;
    for (Index c = 0; c < o_.columns; ++c) {
      const Index i = r * o_.columns + c;
      const std::uint64_t more = o_.expected_bits(from * o_.columns + c);
      if (!holds(i, more)) return false;
      told += tells(i, more);
    }
    return told * 4 > o_.columns;
  }

 private:
  const Output& o_;
  ElementReader read_;
  double half_;
};

/// Whether everything that differs is a tile to which the actual output `by` columns before was
/// added.
bool tiles_hold(const Output& o, const Sums& sums, Index by) {
  Index told = 0;
  for (Index i = 0; i < o.compared_rows * o.columns; ++i) {
    if (!o.differs(i)) continue;
    if (i % o.columns < by || !sums.holds(i, o.actual_bits(i - by))) return false;
    told += sums.tells(i, o.expected_bits(i - by));
  }
  return told * 4 >= o.left;
}

/// Whether every element from `by` on is the sum of what is expected and the actual output `by`
/// before, and most of those that differ show it.
bool runs_on(const Output& o, Index by) {
  const Sums sums(o, kSteps);
  Index told = 0;
  for (Index i = 0; i < o.compared_rows * o.columns; ++i) {
    if (i < by ? o.differs(i) : !sums.holds(i, o.actual_bits(i - by))) return false;
    told += o.differs(i) && sums.tells(i, o.actual_bits(i - by));
  }
  return told >= kLeastTold && told * 2 > o.left;
}

}  // namespace

Claims recover_running(Output& output) {
  if (!is_unexplained(output, 1) || !is_wide_float(output.expected->dtype())) return {};
  const bool experts = output.group == "expert";
  if (!runs_on(output, (experts ? output.ends.front() : 1) * output.columns)) return {};
  const std::string each = experts ? "expert" : "row";
  return claim_all(output, {"rows.running", FindingKind::cause, true},
                   "every " + each + " of " + output.name +
                       " holds its own sum and what came in the " + each +
                       " before: running totals, sums that are not begun anew");
}

Claims recover_added(Output& output) {
  if (output.columns < 4 || !is_wide_float(output.expected->dtype())) return {};
  const Sums sums(output);
  if (is_unexplained(output, kLeastTile)) {
    for (const Index by : {8, 16, 32, 64, 128, 192, 256, 512}) {
      if (!tiles_hold(output, sums, by)) continue;
      return claim_place(output, {"columns.added"}, [by](const Place& place) {
        return place.words + " hold their own sum and what came " + std::to_string(by) +
               " columns before";
      });
    }
  }
  std::vector<Index> failing;
  for (Index r = 0; r < output.compared_rows; ++r) {
    Index left = 0;
    for (Index c = 0; c < output.columns; ++c) left += output.differs(r * output.columns + c);
    if (left * 2 > output.columns) failing.push_back(r);
  }
  std::map<Index, Index> votes;  // how many rows on
  for (const Index r : evenly_spread(failing, kRows)) {
    Index from = 0;
    while (from < output.compared_rows && !sums.row_holds(r, from)) ++from;
    if (from < output.compared_rows) ++votes[from - r];
  }
  Claims claims;
  for (const auto& [by, count] : votes) {
    if (count < 2 || by == 0) continue;  // added to itself it is a factor of two, whatever made it
    std::vector<Index> rows;
    for (const Index r : failing) {
      if (r + by >= 0 && r + by < output.compared_rows && sums.row_holds(r, r + by))
        rows.push_back(r);
    }
    if (static_cast<Index>(rows.size()) < kLeastRows) continue;
    const bool experts = output.group == "expert" && by % output.ends.front() == 0;
    const std::string source = experts ? away(by / output.ends.front(), "expert") : away(by, "row");
    append(claims, claim_where(
                       output, {"rows.added", FindingKind::cause, true},
                       [&](Index i) {
                         return std::binary_search(rows.begin(), rows.end(), i / output.columns);
                       },
                       [&](const Place& place) {
                         return place.words + std::string(place.hold()) +
                                (place.one() ? "its" : "their") + " own sum and that of " + source;
                       }));
  }
  return claims;
}

}  // namespace mxo

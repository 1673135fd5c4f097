// Rows that hold the sum of what they are owed and what another row is owed, or came to hold.
#include <algorithm>
#include <cmath>
#include <map>

#include "golden/explain/recover/recover.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kRows = 24;  ///< that are looked at
constexpr Index kLeastRows = 4;
constexpr Index kLeastTile = 64;  ///< elements
constexpr Index kLeastTold = 32;  ///< elements
constexpr double kSteps = 64;     ///< roundings that totals in f32 may be away

/// What a value of the type may be away, as a multiple of it; `steps` are roundings of f32.
double half_step(Dtype dtype, double steps) {
  switch (dtype) {
    case Dtype::bf16: return 0x1p-8;
    case Dtype::f16: return 0x1p-11;
    default: return 0x1p-23 * steps;
  }
}

class Sums {
 public:
  /// `steps`: roundings of a sum in f32.
  explicit Sums(const Output& o, double steps = 1.0)
      : o_(o), read_(o.expected->dtype()), half_(half_step(o.expected->dtype(), steps)) {}
  /// Whether element i is the sum of what is expected there and at `other`, or of what came there,
  /// each of the three rounded.
  bool holds(Index i, Index other) const { return is_sum(i, o_.wanted(other)); }
  bool holds_what_came(Index i, Index other) const { return is_sum(i, o_.came(other)); }
  /// That the sum is another value than the one owed, by more than rounding.
  bool tells(Index i, Index other) const { return is_more(i, o_.wanted(other)); }
  bool tells_what_came(Index i, Index other) const { return is_more(i, o_.came(other)); }
  bool row_holds(Index r, Index from) const {
    Index told = 0;
    for (Index c = 0; c < o_.columns; ++c) {
      if (!holds(r * o_.columns + c, from * o_.columns + c)) return false;
      told += tells(r * o_.columns + c, from * o_.columns + c);
    }
    return told * 4 > o_.columns;
  }

 private:
  bool is_more(Index i, std::uint64_t more_bits) const {
    const double own = read_(o_.wanted(i)).value;
    return std::abs(read_(more_bits).value) > 4.0 * half_ * std::abs(own);
  }
  bool is_sum(Index i, std::uint64_t more_bits) const {
    const double own = read_(o_.wanted(i)).value;
    const double more = read_(more_bits).value;
    const double came = read_(o_.came(i)).value;
    const double bound = half_ * (std::abs(own) + std::abs(more) + std::abs(came));
    return std::abs(came - own - more) <= bound;
  }

  const Output& o_;
  ElementReader read_;
  double half_;
};

/// Everything that differs is a tile to which the tile so many columns before it was added, or all
/// that was added up in it.
std::vector<Claim> tiles_added(Output& output) {
  if (output.left < kLeastTile || output.left != output.differing) return {};
  const Sums sums(output);
  for (const Index by : {8, 16, 32, 64, 128, 192, 256, 512}) {
    bool all = true;
    Index told = 0;
    for (Index i = 0; i < output.owed * output.columns && all; ++i) {
      if (output.marks[static_cast<std::size_t>(i)] != Mark::differs) continue;
      all = i % output.columns >= by && sums.holds_what_came(i, i - by);
      told += all && sums.tells(i, i - by);
    }
    if (!all || told * 4 < output.left) continue;
    const Place place = place_of(output, [&](Index i) {
      return output.marks[static_cast<std::size_t>(i)] == Mark::differs;
    });
    Claim claim;
    claim.id = "columns.added";
    claim.sentence = place.words + " hold their own sum and what came " + std::to_string(by) +
                     " columns before: accumulators that were not cleared";
    claim.where = place.where;
    claim.elements = static_cast<double>(output.left);
    for (std::size_t i = 0; i < output.marks.size(); ++i) output.settle(static_cast<Index>(i));
    return {claim};
  }
  return {};
}

/// Whether every element from `unit` rows on is the sum of what is expected and what came `unit`
/// rows before, and most of those that differ show it: none where there are no more rows.
bool runs_on(const Output& output, Index unit) {
  const Sums sums(output, kSteps);
  const Index by = unit * output.columns;
  Index told = 0;
  for (Index i = 0; i < output.owed * output.columns; ++i) {
    const bool differs = output.marks[static_cast<std::size_t>(i)] == Mark::differs;
    if (i < by ? differs : !sums.holds_what_came(i, i - by)) return false;
    told += differs && sums.tells_what_came(i, i - by);
  }
  return told >= kLeastTold && told * 2 > output.left;
}

}  // namespace

std::vector<Claim> recover_running(Output& output) {
  if (output.left == 0 || output.left != output.differing) return {};
  if (!is_wide_float(output.expected->dtype())) return {};
  const bool experts = output.group == "expert";
  const Index unit = experts ? output.ends.front() : 1;
  if (!runs_on(output, unit)) return {};
  Claim claim;
  claim.id = "rows.running";
  claim.yields = true;
  const std::string each = experts ? "expert" : "row";
  claim.sentence = "every " + each + " of " + output.name +
                   " holds its own sum and what came in the " + each +
                   " before: running totals, sums that are not begun anew";
  claim.where.tensor = output.name;
  claim.elements = static_cast<double>(output.left);
  for (std::size_t i = 0; i < output.marks.size(); ++i) output.settle(static_cast<Index>(i));
  return {claim};
}

std::vector<Claim> recover_added(Output& output) {
  if (output.columns < 4 || !is_wide_float(output.expected->dtype())) return {};
  std::vector<Index> failing;
  for (Index r = 0; r < output.owed; ++r) {
    Index left = 0;
    for (Index c = 0; c < output.columns; ++c) left += output.mark(r, c) == Mark::differs;
    if (left * 2 > output.columns) failing.push_back(r);
  }
  if (auto tiles = tiles_added(output); !tiles.empty()) return tiles;
  const auto n = static_cast<Index>(failing.size());
  const Sums sums(output);
  std::map<Index, Index> votes;
  for (Index i = 0; i < std::min(n, kRows); ++i) {
    const Index r = failing[static_cast<std::size_t>(n <= kRows ? i : i * n / kRows)];
    for (Index from = 0; from < output.owed; ++from) {
      if (sums.row_holds(r, from)) {
        ++votes[from - r];
        break;
      }
    }
  }
  std::vector<Claim> claims;
  for (const auto& [by, count] : votes) {
    // A row added to itself is a factor of two, whatever made it.
    if (count < 2 || by == 0) continue;
    std::vector<std::uint8_t> good(static_cast<std::size_t>(output.rows));
    Index rows = 0;
    for (const Index r : failing) {
      if (r + by < 0 || r + by >= output.owed) continue;
      if (!sums.row_holds(r, r + by)) continue;
      good[static_cast<std::size_t>(r)] = 1;
      ++rows;
    }
    if (rows < kLeastRows) continue;
    const auto holds = [&](Index i) {
      return good[static_cast<std::size_t>(i / output.columns)] != 0 &&
             output.marks[static_cast<std::size_t>(i)] == Mark::differs;
    };
    const Place place = place_of(output, holds);
    const bool experts = output.group == "expert" && by % output.ends.front() == 0;
    const Index apart = std::abs(by) / (experts ? output.ends.front() : 1);
    const std::string source = std::to_string(apart) + (experts ? " expert" : " row") +
                               (apart == 1 ? "" : "s") + (by < 0 ? " before" : " after");
    Claim claim;
    claim.id = "rows.added";
    claim.yields = true;
    claim.sentence = place.words + std::string(place.hold()) + (place.one() ? "its" : "their") +
                     " own sum and that of " + source +
                     ": accumulators that were not cleared, or a row added twice";
    claim.where = place.where;
    claim.elements = static_cast<double>(place.elements);
    std::vector<Index> found;
    for (Index i = 0; i < output.rows * output.columns; ++i) {
      if (holds(i)) found.push_back(i);
    }
    for (const Index i : found) output.settle(i);
    claims.push_back(std::move(claim));
  }
  return claims;
}

}  // namespace mxo

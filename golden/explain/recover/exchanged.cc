// Columns of an output that hold what is expected in other columns, and values that changed places
// within their rows: slots of a token, scales of neighbouring blocks.
#include <algorithm>
#include <vector>

#include "golden/explain/recover/recover.h"

namespace mxo {
namespace {

constexpr Index kMostColumns = 512;
constexpr Index kLeast = 8;              ///< elements of columns that moved without an exchange
constexpr std::size_t kLeastTokens = 4;  ///< one that is shuffled is no order
constexpr std::size_t kMostPairs = 4;    ///< that are named one by one

std::vector<Index> failing_rows(const Output& o) {
  std::vector<Index> rows;
  for (Index r = 0; r < o.owed; ++r) {
    if (o.differs_in(r * o.columns, o.columns)) rows.push_back(r);
  }
  return rows;
}

std::vector<Index> failing_columns(const Output& o, const std::vector<Index>& rows) {
  std::vector<Index> columns;
  for (Index c = 0; c < o.columns; ++c) {
    const auto fails = [&](Index r) { return o.mark(r, c) == Mark::differs; };
    if (std::any_of(rows.begin(), rows.end(), fails)) columns.push_back(c);
  }
  return columns;
}

bool holds(const Output& o, const std::vector<Index>& rows, Index column, Index source) {
  return std::all_of(rows.begin(), rows.end(), [&](Index r) {
    return o.came(r * o.columns + column) == o.wanted(r * o.columns + source);
  });
}

/// Slots of tokens are what a router calls its columns.
bool has_slots(const Output& o) {
  return o.name.ends_with("experts") || o.name.ends_with("weights");
}
std::string noun_of(const Output& o) { return has_slots(o) ? "slot" : "column"; }

Claim claim_of(Output& o, const std::vector<Index>& rows, const std::string& id,
               const std::string& words, Kind kind) {
  const Place place =
      place_of(o, [&](Index i) { return o.marks[static_cast<std::size_t>(i)] == Mark::differs; });
  Claim claim{id, words, place.where};
  claim.elements = static_cast<double>(place.elements);
  claim.kind = kind;
  for (const Index r : rows) {
    for (Index c = 0; c < o.columns; ++c) o.settle(r * o.columns + c);
  }
  return claim;
}

std::string in_rows(const Output& o, const std::vector<Index>& rows) {
  const bool most = static_cast<Index>(rows.size()) * 4 >= o.owed * 3;
  return most ? " of " + o.name : " of " + ranges_in_words("row", rows) + " of " + o.name;
}

/// Every column that differs with one other, each holding what is expected of the other.
std::vector<Claim> claim_pairs(Output& o, const std::vector<Index>& rows,
                               const std::vector<Index>& columns) {
  std::vector<std::uint8_t> taken(static_cast<std::size_t>(o.columns));
  std::string text;
  std::size_t pairs = 0;
  for (const Index c : columns) {
    if (taken[static_cast<std::size_t>(c)]) continue;
    const auto other = std::find_if(columns.begin(), columns.end(), [&](Index d) {
      return d > c && !taken[static_cast<std::size_t>(d)] && holds(o, rows, c, d) &&
             holds(o, rows, d, c);
    });
    if (other == columns.end()) return {};
    taken[static_cast<std::size_t>(c)] = taken[static_cast<std::size_t>(*other)] = 1;
    if (++pairs > kMostPairs) continue;
    text += (text.empty() ? "" : ", ") + noun_of(o) + "s " + std::to_string(c) + " and " +
            std::to_string(*other);
  }
  // In one row numbers are alike by chance: two neighbours, or the slots of a token.
  const bool neighbours = columns.size() == 2 && columns.back() == columns.front() + 1;
  if (rows.size() == 1 && !has_slots(o) && (!neighbours || o.owed == 1)) return {};
  if (pairs > kMostPairs) text += " and " + std::to_string(pairs - kMostPairs) + " more pairs";
  return {claim_of(o, rows, "columns.exchanged", text + in_rows(o, rows) + " change places",
                   Kind::symptom)};
}

/// Every column that differs holds what is expected so many columns away.
std::vector<Claim> claim_shift(Output& o, const std::vector<Index>& rows,
                               const std::vector<Index>& columns) {
  if (o.left < kLeast || columns.size() < 2) return {};
  for (Index by = 1; by < o.columns; ++by) {
    for (const Index d : {-by, by}) {
      const bool all = std::all_of(columns.begin(), columns.end(), [&](Index c) {
        return c + d >= 0 && c + d < o.columns && holds(o, rows, c, c + d);
      });
      if (!all) continue;
      return {claim_of(o, rows, "columns.shifted",
                       ranges_in_words(noun_of(o), columns) + in_rows(o, rows) + " hold those " +
                           std::to_string(by) + (d < 0 ? " before" : " after"),
                       Kind::cause)};
    }
  }
  return {};
}

/// Tokens that hold their own slots in another order, each in its own.
std::vector<Claim> claim_reordered(Output& o, const std::vector<Index>& rows) {
  if (!has_slots(o) || rows.size() < kLeastTokens) return {};
  for (const Index r : rows) {
    std::vector<std::uint64_t> wanted;
    std::vector<std::uint64_t> came;
    for (Index i = r * o.columns; i < (r + 1) * o.columns; ++i) {
      if (o.marks[static_cast<std::size_t>(i)] != Mark::differs) continue;
      wanted.push_back(o.wanted(i));
      came.push_back(o.came(i));
    }
    std::sort(wanted.begin(), wanted.end());
    std::sort(came.begin(), came.end());
    if (wanted != came) return {};
  }
  const Place place =
      place_of(o, [&](Index i) { return o.marks[static_cast<std::size_t>(i)] == Mark::differs; });
  return {claim_of(o, rows, "row.reordered",
                   "values change places within their rows in " + place.words, Kind::symptom)};
}

}  // namespace

std::vector<Claim> recover_exchanged(Output& output) {
  if (output.left < 2 || output.left != output.differing || output.columns > kMostColumns) {
    return {};
  }
  const std::vector<Index> rows = failing_rows(output);
  const std::vector<Index> columns = failing_columns(output, rows);
  std::vector<Claim> claims = claim_pairs(output, rows, columns);
  if (claims.empty()) claims = claim_shift(output, rows, columns);
  if (claims.empty()) claims = claim_reordered(output, rows);
  return claims;
}

}  // namespace mxo

// Rows that a model gives.
#include "golden/explain/recover/model.h"

#include <algorithm>

namespace mxo {
namespace {

constexpr Index kMostRuns = 8;  ///< of rows, for a cause to be called a place

}  // namespace

std::optional<Claim> claim_fits(Output& output, const std::function<RowFit(Index row)>& fit,
                                const std::string& id, const std::string& phrase, Index least) {
  std::vector<Index> good;  // rows
  std::vector<std::uint8_t> is_good(static_cast<std::size_t>(output.rows));
  Index fixed = 0;
  bool whole = true;
  Index hopeless = 0;
  for (Index r = 0; r < output.owed; ++r) {
    const auto [fits, here] = fit(r);
    whole = whole && fits;
    if (!fits) {
      // A model that fails from the first rows on is not looked at to the end.
      if (++hopeless > 4096 && fixed == 0) return std::nullopt;
      continue;
    }
    if (here == 0) continue;
    good.push_back(r);
    is_good[static_cast<std::size_t>(r)] = 1;
    fixed += here;
  }
  // What needs many elements to be told from chance needs them even where no others are left.
  constexpr Index kMany = 8;
  if (fixed < least && (least >= kMany || fixed != output.left)) return std::nullopt;
  if (fixed == 0) return std::nullopt;
  // A part must be most of what is left, or a block of rows too large for chance.
  if (!whole && fixed * 2 < output.left && (runs(good) > 1 || fixed < 64)) return std::nullopt;
  if (!whole && runs(good) > kMostRuns && ranges(good).find("mod") == std::string::npos) {
    return std::nullopt;
  }
  const Place place = place_of(output, [&](Index i) {
    return is_good[static_cast<std::size_t>(i / output.columns)] != 0 &&
           output.marks[static_cast<std::size_t>(i)] == Mark::differs;
  });
  for (const Index r : good) {
    for (Index c = 0; c < output.columns; ++c) output.settle(r * output.columns + c);
  }
  Claim claim;
  claim.id = id;
  claim.sentence = (whole ? output.name : place.words) + ": " + phrase;
  claim.where = place.where;
  claim.elements = static_cast<double>(fixed);
  return claim;
}

}  // namespace mxo

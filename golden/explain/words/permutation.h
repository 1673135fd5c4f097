// Neighbours in another order, the same in every run of so many, and its words.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/tensor_view.h"

namespace mxo {

/// Element i of every run of source.size() neighbours is taken from place source[i] of that run.
struct Permutation {
  std::vector<Index> source;
  Index period() const { return static_cast<Index>(source.size()); }
  /// Where i comes from, in runs that begin at `origin`.
  Index from(Index i, Index origin = 0) const {
    const auto run = period();
    const Index within = (i - origin) % run;
    return i - within + source[static_cast<std::size_t>(within)];
  }
  bool identity() const;
  /// Whether the order is one that has a name: reversed, rolled, halves exchanged, transposed.
  bool has_name() const;
  /// Whether all but the first or last few are taken from one distance, these from the other end.
  bool is_rolled() const;
  /// "in runs of 4 in the order 3, 2, 1, 0 (reversed)".
  std::string words() const;
};

inline constexpr Index kPermutationPeriods[] = {2, 4, 8, 16, 32, 64, 128};

/// The permutation of the least period for which place i may come from place j of its run wherever
/// fits(i, j) is true; known ones first, else any.  None if some place fits nowhere.
/// `fits` is asked for places within one period.
std::vector<Permutation> permutations_of(
    const std::function<bool(Index period, Index i, Index j)>& fits);

}  // namespace mxo

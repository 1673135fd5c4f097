// How many bits of news it is that some elements of an output come as they do.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "golden/explain/output.h"

namespace mxo {

/// Bits by the shares of values among what is expected and among what came, whichever is larger:
/// rows of scales of three values are alike by chance, rows of floats never.
class Chance {
 public:
  explicit Chance(const Output& output);

  /// -log2 of the chance that `elements` elements of what came are those from `at` on.
  double bits(Index at, Index elements) const;

  /// Whether `pieces` of `failing` are told by more than chance to come from one of `places`
  /// places: bits of all of them, less those that name which of the failing ones and which place.
  bool tells(const std::vector<Index>& pieces, Index width, std::size_t failing,
             std::size_t places) const;

 private:
  const Output& output_;
  std::unordered_map<std::uint64_t, double> bits_;  ///< of values that were seen
  double unseen_;
};

}  // namespace mxo

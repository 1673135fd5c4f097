// What was found, weighed in bits: how much it explains, less what it takes to say it.
// Thread safety: any threads at once; an object is used by one.
#pragma once

#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "golden/explain/case/output.h"
#include "golden/explain/hypotheses.h"

namespace mxo {

inline constexpr double kCertain = 20.0;   ///< bits that a cause needs: one chance in a million
inline constexpr double kFamily = 9.0;     ///< log2 of the causes that are tried together
inline constexpr double kWitnesses = 4.0;  ///< that a call needs which gives every bit
/// Codes that differ as the scales beside them have it, which damage to scales does not do: half
/// the witnesses are enough.
inline constexpr double kFollowing = 16.0;

/// How many bits of news it is that some elements of an output come as they do: by the shares of
/// values among what is expected and among the actual output, whichever is larger.  Rows of scales
/// of three values are alike by chance, rows of floats never.
class Chance {
 public:
  explicit Chance(const Output& output);

  /// -log2 of the chance that `elements` elements of the actual output are those from `at` on.
  double bits(Index at, Index elements) const;

  /// Whether `pieces` of `failing` are told by more than chance to come from one of `places`
  /// places: bits of all of them, less those that name which of the failing ones and which place.
  bool tells(const std::vector<Index>& pieces, Index width, std::size_t failing,
             std::size_t places) const;

 private:
  const Output& output_;
  std::unordered_map<std::uint64_t, double> bits_;  ///< of values that were seen
  double unseen_;
  double again_;  ///< of a value that its neighbour has, too: scales of a row are often alike
};

/// Bits by which the scales that an altered product took for others, in the lines that it explains,
/// could have been otherwise: every element of a line follows from them; the same of the expert of
/// each token.  Of a pair each has to be told: the least.  Infinity where anything else is altered.
double bits_of_operands(const Call& call, const std::vector<const Hypothesis*>& made_by,
                        const Output& y, const std::vector<Index>& explained);

/// Bits of rows, or columns, of which each came as what is expected times one power of two: one
/// number each, or as one number for one other.  Infinity where they did not.
double bits_of_powers(const Output& y, const std::vector<Index>& explained);

/// Whether one scale alone is expected in the rows in which a call gives some, and the call alters
/// all of these: many calls have that step.
bool is_of_one_scale(const Output& scales, const Variant& patch, const VariantMatch& given);

/// Whether all that was explained since came as zero.
bool are_zeros_since(const Snapshot& before, const std::vector<Output>& outputs);

/// Weighs what is explained after it was made.
class Weighing {
 public:
  explicit Weighing(const std::vector<Output>& outputs) : before_(outputs) {}

  /// Bits by which the elements that were explained since could have been otherwise, codes left out
  /// where their scales were, too: they follow.
  double gain(const std::vector<Output>& outputs) const;

  /// Bits that it is worth to tell which elements differ, and that no others do: what a cause does
  /// that gives all of them.
  double place_told(const std::vector<Output>& outputs) const;

  /// Whether an altered call that gives every bit of every output may be named: by kWitnesses
  /// elements that differ each on its own, one a scale, and none that follow from others; where
  /// codes follow by half as many scales, or by f32 scales that are kCertain bits off.  Damage
  /// would have to hit the answer of a whole call.
  bool names_call(const std::vector<Output>& outputs) const;

  /// Whether `claims`, which explained them, explain kCertain bits more than they take to say:
  /// `family` and their place for each, where that is not all that differs.  Of what is explained
  /// no more than `most` bits count.
  bool names(const Claims& claims, const std::vector<Output>& outputs, double family = kFamily,
             double most = HUGE_VAL) const;
  /// Elements of output `n` that were explained since.
  std::vector<Index> explained(const std::vector<Output>& outputs, std::size_t n) const {
    return before_.explained_since(outputs, n);
  }
  /// Marks as they were before.
  void restore(std::vector<Output>& outputs) const { before_.restore(outputs); }

 private:
  Snapshot before_;
};

/// What `find` claims of `outputs`, if that is enough to be named; `place`: it is news which
/// elements differ.
template <typename Find>
Claims named_by(std::vector<Output>& outputs, Find find, double family = kFamily,
                bool place = false) {
  const Weighing before(outputs);
  Claims claims = find();
  if (!claims.empty() &&
      before.names(claims, outputs, family - (place ? before.place_told(outputs) : 0.0)))
    return claims;
  before.restore(outputs);
  return {};
}

}  // namespace mxo

// How a value becomes a code of eight bits, measured from pairs of both.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "formats/dtype.h"
#include "formats/rounding.h"

namespace mxo {

/// Magnitudes of a format in the order of their codes.
class Grid {
 public:
  explicit Grid(Dtype format);
  std::size_t top() const { return values_.size() - 1; }
  double value(std::size_t code) const { return values_[code]; }
  double least_normal() const { return values_[normal_]; }
  bool fnuz() const { return fnuz_; }
  bool no_number(std::uint64_t code) const {
    return fnuz_ ? (code & 0xFF) == 0x80 : (code & 0x7F) > top();
  }
  /// The magnitude code of |v|, saturated.
  std::size_t round(double v, Rounding rounding) const;

 private:
  /// No magnitude of eight bits has more than three fraction bits: numbers that agree in these and
  /// in the exponent lie between the same two.
  static constexpr int kKeyShift = 52 - 3;
  static std::uint64_t key_of(double m) { return bit_cast<std::uint64_t>(m) >> kKeyShift; }

  std::vector<double> values_;
  std::vector<std::uint8_t> low_;  ///< code at or below, by key
  std::size_t normal_ = 1;
  bool fnuz_ = false;
};

/// A rule of codes, measured.
struct CodeRule {
  Rounding rounding = Rounding::even;
  std::size_t clamp = 0;             ///< largest code
  double jump = 0;                   ///< magnitudes above become the largest code; 0: none do
  bool flush = false;                ///< codes below the least normal one are zero
  double lost = 0;                   ///< magnitudes from here on become NaN or infinity; 0: none do
  std::optional<Rounding> low = {};  ///< of magnitudes below the least normal one, if another
  std::size_t code(const Grid& g, double v) const;
  /// Whether `v` may become `came`, sign and all.
  bool gives(const Grid& g, double v, std::uint64_t got) const;
  /// In what it differs from `own`, the rule that was asked for.
  std::string words(const Grid& g, const CodeRule& own) const;
};

/// A pair that the rule has to give.
struct CodePair {
  double v;
  std::size_t code;
};

/// The rule that gives every pair.
std::optional<CodeRule> fit(const Grid& grid, const std::vector<CodePair>& pairs);
/// Whether codes go to either neighbour as often as their distances say.
bool rounds_at_random(const Grid& grid, const std::vector<CodePair>& pairs);

}  // namespace mxo

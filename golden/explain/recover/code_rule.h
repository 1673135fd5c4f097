// How a value becomes a code of eight bits, measured from pairs of both.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "formats/dtype.h"
#include "formats/host_device.h"

namespace mxo {

enum class CodeRounding : std::uint8_t { even, away_ties, zero_ties, zero, away, down, up };

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
  std::size_t round(double v, CodeRounding rounding) const {
    const double m = std::abs(v);
    if (m >= values_.back()) return top();
    const std::size_t low = m < values_[1] ? 0 : low_[key_of(m) - key_of(values_[1])];
    if (values_[low] == m) return low;
    const double half = 0.5 * (values_[low] + values_[low + 1]);
    switch (rounding) {
      case CodeRounding::even: return m > half || (m == half && (low & 1) != 0) ? low + 1 : low;
      case CodeRounding::away_ties: return m >= half ? low + 1 : low;
      case CodeRounding::zero_ties: return m > half ? low + 1 : low;
      case CodeRounding::zero: return low;
      case CodeRounding::away: return low + 1;
      case CodeRounding::down: return v < 0 ? low + 1 : low;
      case CodeRounding::up: break;
    }
    return v < 0 ? low : low + 1;
  }

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
  CodeRounding rounding = CodeRounding::even;
  std::size_t clamp = 0;  ///< largest code
  double jump = 0;        ///< magnitudes above become the largest code; 0: none do
  bool flush = false;     ///< codes below the least normal one are zero
  double lost = 0;        ///< magnitudes from here on become NaN or infinity; 0: none do
  std::size_t code(const Grid& g, double v) const {
    const std::size_t c = std::min(g.round(v, rounding), clamp);
    if (jump > 0 && std::abs(v) > jump) return g.top();
    if (flush && g.value(c) < g.least_normal()) return 0;
    return c;
  }
  /// Whether `v` may become `code`, sign and all.
  bool gives(const Grid& g, double v, std::uint64_t came) const {
    if (lost > 0 && std::abs(v) >= lost) return g.no_number(came);
    const std::size_t c = code(g, v);
    if (c == 0 && (came & 0x7F) == 0 && flush && !g.fnuz()) return true;
    const std::uint64_t sign = std::signbit(v) ? 0x80 : 0;
    return came == (c == 0 && g.fnuz() ? 0 : c | sign);
  }
  /// In what it differs from `own`, the rule that was asked for.
  std::string words(const Grid& g, const CodeRule& own) const;
  /// The same where that rounds to nearest even and saturates.
  std::string words(const Grid& g) const { return words(g, {CodeRounding::even, g.top()}); }
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

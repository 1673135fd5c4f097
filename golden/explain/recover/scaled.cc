// Rows, columns or all of an output that are what is expected times a number, each rounded on its
// own; columns to which a number was added.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "golden/explain/recover/recover.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kMany = 64;              ///< elements that tell a number from chance in bf16
constexpr Index kFew = 8;                ///< the same in f32
constexpr Index kLeastInLine = 3;        ///< elements of a line that differ
constexpr double kNearOne = 0x1p-17;     ///< what numbers of f32 are apart from 1 by rounding
constexpr std::size_t kMostNumbers = 3;  ///< that are named one by one
constexpr std::size_t kLeastLines = 4;   ///< with numbers of their own
constexpr double kLoose = 0x1p-21;       ///< what sums in f32 may have lost on the way

struct Interval {
  double low = -HUGE_VAL;
  double high = HUGE_VAL;
  bool empty() const { return low > high; }
  bool holds(double v) const { return low <= v && v <= high; }
  void cut(const Interval& other) {
    low = std::max(low, other.low);
    high = std::min(high, other.high);
  }
};

/// Half the distance between neighbours of a type at v, and a little more.
double half_step(Dtype dtype, double v) {
  const int bits = dtype == Dtype::bf16 ? 8 : dtype == Dtype::f16 ? 11 : 24;
  const int least = dtype == Dtype::f16 ? -14 : -126;
  const int exponent = std::max(std::ilogb(v), least);
  return std::ldexp(1.0, exponent - bits) + kLoose * std::abs(v);
}

enum class Made : std::uint8_t { multiplied, added };

/// A row or a column: the numbers that may have been multiplied with all of it, or added.
struct LineNumber {
  Index line;
  Index differing;
  Interval number;
};

class LineNumbers {
 public:
  LineNumbers(const Output& output, bool columns, Made made)
      : o_(output), read_(output.expected->dtype()), columns_(columns), made_(made) {
    for (Index line = 0; line < (columns ? output.columns : output.owed); ++line) {
      if (auto found = number_of(line)) lines_.push_back(*found);
    }
  }
  /// The numbers that all of an output may have been multiplied with; none if there are none.
  static std::optional<Interval> of_all(const Output& output) {
    const LineNumbers any(output);
    Interval number;
    for (Index i = 0; i < output.owed * output.columns; ++i) {
      if (!any.cut(number, i) || number.empty()) return std::nullopt;
    }
    return number;
  }
  const std::vector<LineNumber>& lines() const { return lines_; }
  bool of_columns() const { return columns_; }
  /// What makes no difference.
  double neutral() const { return made_ == Made::multiplied ? 1.0 : 0.0; }

 private:
  explicit LineNumbers(const Output& output)
      : o_(output), read_(output.expected->dtype()), columns_(false), made_(Made::multiplied) {}
  Index length() const { return columns_ ? o_.owed : o_.columns; }
  Index at(Index line, Index k) const {
    return columns_ ? k * o_.columns + line : line * o_.columns + k;
  }

  /// From the first element of a line that differs to the last one.
  std::optional<LineNumber> number_of(Index line) const {
    LineNumber found{line, 0, {}};
    Index first = length();
    Index last = 0;
    for (Index k = 0; k < length(); ++k) {
      if (o_.marks[static_cast<std::size_t>(at(line, k))] != Mark::differs) continue;
      ++found.differing;
      first = std::min(first, k);
      last = k;
    }
    // Of few elements a number says little more than they do.
    if (found.differing < kLeastInLine) return std::nullopt;
    for (Index k = first; k <= last; ++k) {
      const Index i = at(line, k);
      if (o_.marks[static_cast<std::size_t>(i)] == Mark::settled) continue;
      if (!cut(found.number, i) || found.number.empty()) return std::nullopt;
    }
    return found;
  }

  bool cut(Interval& number, Index i) const {
    const Element want = read_(o_.wanted(i));
    const Element came = read_(o_.came(i));
    if (want.nan || want.infinite || came.nan || came.infinite) {
      return o_.marks[static_cast<std::size_t>(i)] != Mark::differs;
    }
    const double a = half_step(o_.expected->dtype(), want.value);
    const double b = half_step(o_.expected->dtype(), came.value);
    if (made_ == Made::added) {
      const double by = came.value - want.value;
      number.cut({by - a - b, by + a + b});
      return true;
    }
    const double sign = want.value < 0.0 ? -1.0 : 1.0;
    const double w = std::abs(want.value);
    const double low = sign * came.value - b;
    const double high = sign * came.value + b;
    if (w <= a) return low <= 0.0 && high >= 0.0;
    number.cut({low / (low < 0.0 ? w - a : w + a), high / (high < 0.0 ? w + a : w - a)});
    return true;
  }

  const Output& o_;
  ElementReader read_;
  bool columns_;
  Made made_;
  std::vector<LineNumber> lines_;
};

/// Lines that may share one number, and that number.
struct Shared {
  std::vector<Index> lines;
  Interval number;
  Index differing = 0;
};

/// The number that fits the most elements of lines that are not taken.
Shared best_of(const std::vector<LineNumber>& all, const std::vector<std::uint8_t>& taken) {
  struct Edge {
    double at;
    Index change;
  };
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (taken[i]) continue;
    edges.push_back({all[i].number.low, all[i].differing});
    edges.push_back({all[i].number.high, -all[i].differing});
  }
  // Ends are closed: one begins before another one ends at the same place.
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return a.at < b.at || (a.at == b.at && a.change > b.change);
  });
  Index depth = 0;
  Index most = 0;
  double where = 0.0;
  for (const Edge& e : edges) {
    depth += e.change;
    if (depth <= most) continue;
    most = depth;
    where = e.at;
  }
  Shared best;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (taken[i] || !all[i].number.holds(where)) continue;
    best.lines.push_back(static_cast<Index>(i));
    best.number.cut(all[i].number);
    best.differing += all[i].differing;
  }
  return best;
}

std::string digits(double v, int n) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", n, v);
  return text;
}

/// The shortest number within.
std::string in_words(const Interval& number) {
  const double middle = (number.low + number.high) / 2.0;
  const auto holds = [&](const std::string& text) { return number.holds(std::stod(text)); };
  if (const std::string two = digits(middle, 2); holds(two)) return two;
  for (int n = 2; n <= 4096; ++n) {
    if (number.holds(1.0 / n)) return "1/" + std::to_string(n);
    if (number.holds(n)) return std::to_string(n);
  }
  for (int n = 3;; ++n) {
    const std::string text = digits(middle, n);
    if (n == 9 || holds(text)) return text;
  }
}

class Claims {
 public:
  explicit Claims(Output& output) : o_(output) {}

  void claim(const LineNumbers& numbers, const std::vector<Index>& lines, const std::string& id,
             const std::string& words) {
    std::vector<std::uint8_t> in(
        static_cast<std::size_t>(numbers.of_columns() ? o_.columns : o_.rows));
    for (const Index l : lines) {
      in[static_cast<std::size_t>(numbers.lines()[static_cast<std::size_t>(l)].line)] = 1;
    }
    const auto holds = [&](Index i) {
      const Index line = numbers.of_columns() ? i % o_.columns : i / o_.columns;
      return in[static_cast<std::size_t>(line)] != 0 &&
             o_.marks[static_cast<std::size_t>(i)] == Mark::differs;
    };
    const Place place = place_of(o_, holds);
    if (place.elements == 0) return;  // of lines that another number has explained since
    Claim c{id, place.words + ": " + words, place.where};
    c.elements = static_cast<double>(place.elements);
    claims_.push_back(std::move(c));
    std::vector<Index> found;
    for (Index i = 0; i < o_.owed * o_.columns; ++i) {
      if (holds(i)) found.push_back(i);
    }
    for (const Index i : found) o_.settle(i);
  }
  std::vector<Claim> take() { return std::move(claims_); }

 private:
  Output& o_;
  std::vector<Claim> claims_;
};

/// Up to three numbers that many lines share.
void claim_shared(const Output& output, const LineNumbers& numbers, Claims& claims) {
  const Index least = size_of(output.expected->dtype()) == 4 ? kFew : kMany;
  std::vector<std::uint8_t> taken(numbers.lines().size());
  for (std::size_t n = 0; n < kMostNumbers && output.left >= least; ++n) {
    const Shared best = best_of(numbers.lines(), taken);
    if (best.differing < least || best.number.holds(1.0) || best.number.holds(0.0)) return;
    if (least == kFew && best.number.low > 1.0 - kNearOne && best.number.high < 1.0 + kNearOne)
      return;
    for (const Index l : best.lines) taken[static_cast<std::size_t>(l)] = 1;
    claims.claim(numbers, best.lines, "value.factor",
                 "every value is " + in_words(best.number) + " times what is expected");
  }
}

/// Numbers of lines, each its own, where they explain nearly all that differs.
void claim_own(const Output& output, const LineNumbers& numbers, Claims& claims, Made made) {
  const bool wide = size_of(output.expected->dtype()) == 4;
  Interval range{HUGE_VAL, -HUGE_VAL};
  Interval one;  // number that all of them may share
  std::vector<Index> lines;
  std::size_t strong = 0;
  Index differing = 0;  ///< in lines that tell their number from chance
  for (std::size_t i = 0; i < numbers.lines().size(); ++i) {
    const LineNumber& line = numbers.lines()[i];
    if (line.number.holds(numbers.neutral()) || line.number.holds(0.0)) continue;
    lines.push_back(static_cast<Index>(i));
    one.cut(line.number);
    if (line.differing < (wide ? 3 : 16)) continue;
    ++strong;
    differing += line.differing;
    const double middle = (line.number.low + line.number.high) / 2.0;
    range.low = std::min(range.low, middle);
    range.high = std::max(range.high, middle);
  }
  if (strong < kLeastLines || differing * 10 < output.left * 9) return;
  const std::string each = numbers.of_columns() ? "each column" : "each row";
  const std::string from_to = digits(range.low, 3) + " to " + digits(range.high, 3);
  if (made == Made::multiplied) {
    claims.claim(numbers, lines, "value.factors",
                 each + " is multiplied by a factor of its own, " + from_to);
  } else if (!one.empty()) {
    claims.claim(numbers, lines, "value.offset", "one number is added, " + in_words(one));
  } else {
    claims.claim(
        numbers, lines, "value.offsets",
        each + " has a number of its own added, a bias or what is missing of one: " + from_to);
  }
}

}  // namespace

std::vector<Claim> recover_one_factor(Output& output) {
  if (output.left < kMany || output.left != output.differing) return {};
  if (!is_wide_float(output.expected->dtype())) return {};
  const auto number = LineNumbers::of_all(output);
  if (!number) return {};
  const double middle = std::abs(number->low + number->high) / 2.0;
  if (number->holds(std::exp2(std::round(std::log2(middle))))) return {};
  Claim claim;
  claim.id = "value.factor";
  claim.sentence =
      "all of " + output.name + ": every value is " + in_words(*number) + " times what is expected";
  claim.where.tensor = output.name;
  claim.elements = static_cast<double>(output.left);
  for (std::size_t i = 0; i < output.marks.size(); ++i) output.settle(static_cast<Index>(i));
  return {claim};
}

std::vector<Claim> recover_scaled(Output& output) {
  if (output.left < kFew || !is_wide_float(output.expected->dtype())) return {};
  Claims claims(output);
  for (const bool columns : {false, true}) {
    if (output.left < kFew) break;
    const LineNumbers numbers(output, columns, Made::multiplied);
    const Shared best = best_of(numbers.lines(), std::vector<std::uint8_t>(numbers.lines().size()));
    if (best.differing * 2 < output.left) claim_own(output, numbers, claims, Made::multiplied);
    claim_shared(output, numbers, claims);
  }
  if (output.left == output.differing) {
    const LineNumbers numbers(output, true, Made::added);
    claim_own(output, numbers, claims, Made::added);
  }
  return claims.take();
}

}  // namespace mxo

// Rows, columns or all of an output times numbers, powers of two or any, each element rounded on
// its own; columns to which a number was added.
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

constexpr Index kMany = 64;              ///< elements that tell a number from chance in bf16
constexpr Index kFew = 8;                ///< the same in f32, and of powers of two
constexpr Index kLeastInLine = 3;        ///< elements of a line that differ
constexpr Index kLeastOfRest = 8;        ///< of what has no cause: one of many numbers is by chance
constexpr double kNearOne = 0x1p-17;     ///< what numbers of f32 are apart from 1 by rounding
constexpr int kMostTimes = 64;           ///< that a sum is added or divided
constexpr std::size_t kMostNumbers = 3;  ///< that are named one by one
constexpr std::size_t kLeastLines = 4;   ///< with numbers of their own
constexpr double kLoose = 0x1p-21;       ///< what sums in f32 may have lost on the way

struct Interval {
  double low = -HUGE_VAL;
  double high = HUGE_VAL;
  bool empty() const { return low > high; }
  bool holds(double v) const { return low <= v && v <= high; }
  double middle() const { return (low + high) / 2.0; }
  void cut(const Interval& other) {
    low = std::max(low, other.low);
    high = std::min(high, other.high);
  }
};

/// Half the distance to the next number of a type, and a little more.
double half_step(const ElementReader& read, std::uint64_t bits) {
  const double v = read(bits).value;
  return std::abs(read(bits + 1).value - v) / 2.0 + kLoose * std::abs(v);
}

enum class Made : std::uint8_t { doubled, multiplied, added };  ///< doubled: by a power of two

/// Leaves of `number` what element i may have been made with; false where there is nothing.
bool cut(const Output& o, const ElementReader& read, Made made, Index i, Interval& number) {
  const Element want = o.wanted(i);
  const Element got = o.came(i);
  if (want.nan || want.infinite || got.nan || got.infinite)
    return made != Made::doubled && !o.differs(i);
  if (made == Made::doubled) {
    if (want.value == 0.0 && got.value == 0.0) return true;  // zeros are times anything
    int by = 0;  // of no number, and of 0 and infinity, there is no half
    const double ratio = got.value / want.value;
    if (std::frexp(ratio, &by) == 0.5 && ratio != 1.0) {
      number.cut({ratio, ratio});
      return !number.empty();
    }
    // Below the least normal number bits are lost, or all of it.
    const double least = o.expected->dtype() == Dtype::f16 ? 0x1p-14 : 0x1p-126;
    if (!(std::abs(got.value) < least) || want.value == 0.0 || ratio < 0.0) return false;
    const double off = half_step(read, o.actual_bits(i)) / std::abs(want.value);
    number.cut(got.value == 0.0 ? Interval{0.0, least / std::abs(want.value)}
                                : Interval{ratio - off, ratio + off});
    return !number.empty();
  }
  const double a = half_step(read, o.expected_bits(i));
  const double b = half_step(read, o.actual_bits(i));
  if (made == Made::added) {
    const double by = got.value - want.value;
    number.cut({by - a - b, by + a + b});
  } else {
    const double sign = want.value < 0.0 ? -1.0 : 1.0;
    const double w = std::abs(want.value);
    const double low = sign * got.value - b;
    const double high = sign * got.value + b;
    if (w <= a) return low <= 0.0 && high >= 0.0;
    number.cut({low / (low < 0.0 ? w - a : w + a), high / (high < 0.0 ? w + a : w - a)});
  }
  return !number.empty();
}

/// A line, and the numbers that may have been multiplied with all of it, or added.
struct LineNumber {
  Index line;
  Index differing;
  Interval number;
  Index first = 0;  ///< that differs
  Index last = 0;
  bool whole = true;  ///< elements before the first and behind the last may be so, too
};

Index differing_in(const std::vector<LineNumber>& lines) {
  Index n = 0;
  for (const LineNumber& l : lines) n += l.differing;
  return n;
}

/// "", or words for lines of which each is so between places of its own, which no place tells.
std::string between(const std::vector<LineNumber>& lines) {
  const auto alike = [&](const LineNumber& l) {
    return l.first == lines.front().first && l.last == lines.front().last;
  };
  const bool whole = std::all_of(lines.begin(), lines.end(), [](const auto& l) { return l.whole; });
  if (whole || std::all_of(lines.begin(), lines.end(), alike)) return "";
  return "between the first and the last that differ in each, ";
}

/// Of each line from its first element that differs to the last one; powers of two of all of it.
std::vector<LineNumber> numbers_of(const Lines& lines, Made made) {
  const Output& o = lines.o;
  const ElementReader read(o.expected->dtype());
  std::vector<LineNumber> list;
  for (const Index line : lines.failing()) {
    LineNumber found{line, 0, {}};
    for (Index k = 0; k < lines.length(); ++k) {
      if (!o.differs(lines.at(line, k))) continue;
      if (found.differing++ == 0) found.first = k;
      found.last = k;
    }
    if (made == Made::doubled) {
      found.first = 0;
      found.last = lines.length() - 1;
    } else if (found.differing < kLeastInLine) {
      continue;  // of few elements a number that is rounded says little more than they do
    }
    bool all = true;
    Index explained = 0;
    Index nonzero = 0;
    for (Index k = found.first; k <= found.last && all; ++k) {
      const Index i = lines.at(line, k);
      const bool is_left = nth(o.marks, i) != Mark::explained;
      explained += is_left ? 0 : 1;
      nonzero += is_left && o.wanted(i).value != 0.0 ? 1 : 0;
      all = !is_left || cut(o, read, made, i, found.number);
    }
    // A factor is one of nearly every number, though a small one may be lost in rounding.
    if (made == Made::multiplied && nonzero > 2 * found.differing) continue;
    // What is said of a line is not said of those elements that are explained.
    if (explained * 4 > found.differing) continue;
    Interval beyond = found.number;
    for (Index k = 0; k < lines.length() && all && found.whole; ++k)
      if (k < found.first || k > found.last)
        found.whole = cut(o, read, made, lines.at(line, k), beyond);
    // Zeros alone, of either sign, are times any power.
    if (all && (made != Made::doubled || found.number.low == found.number.high))
      list.push_back(found);
  }
  return list;
}

/// Lines that share one number, the one that fits the most elements.
struct Shared {
  std::vector<LineNumber> lines;
  Interval number;
};

Shared shared_number(const std::vector<LineNumber>& lines) {
  // Where numbers of a line begin, and end: closed, one begins before another one ends there.
  std::vector<std::pair<double, Index>> edges;
  for (const LineNumber& l : lines) {
    edges.emplace_back(l.number.low, -l.differing);
    edges.emplace_back(l.number.high, l.differing);
  }
  std::ranges::sort(edges);
  Index depth = 0;
  Index most = 0;
  double where = 0.0;
  for (const auto& [at, less] : edges) {
    depth -= less;
    if (depth > most) where = at;
    most = std::max(most, depth);
  }
  Shared best;
  for (const LineNumber& l : lines) {
    if (!l.number.holds(where)) continue;
    best.lines.push_back(l);
    best.number.cut(l.number);
  }
  return best;
}

/// The shortest number within: of two digits, or a whole number or one over it, or of more.
std::string in_words(const Interval& factor) {
  for (int n = 2; n < 9; ++n) {
    const std::string text = number(factor.middle(), n);
    if (factor.holds(std::stod(text))) return text;
    for (int whole = 2; n == 2 && whole <= 4096; ++whole) {
      if (factor.holds(1.0 / whole)) return "1/" + std::to_string(whole);
      if (factor.holds(whole)) return std::to_string(whole);
    }
  }
  return number(factor.middle(), 9);
}

/// Whether a number is one that sums make which are added or divided so many times; others come
/// from numbers that are not known.
bool is_ratio(const Interval& number) {
  for (int whole = 2; whole <= kMostTimes; ++whole)
    if (number.holds(whole) || number.holds(1.0 / whole)) return true;
  return number.holds(std::exp2(std::round(std::log2(std::abs(number.middle())))));
}

/// The cause of what differs in some lines, where something does.
void add_claim(Output& output, const Lines& lines, std::vector<LineNumber> found, const ClaimId& id,
               const std::string& words, Claims& claims) {
  std::ranges::sort(found, {}, &LineNumber::line);
  const auto is_in = [&](Index i) {
    return std::ranges::binary_search(found, lines.of(i), {}, &LineNumber::line);
  };
  if (!are_of_several_values(output, is_in)) return;
  append(claims, claim_where(output, id, is_in, [&](const Place& place) {
           return place.words + ": " + between(found) + words;
         }));
}

/// Up to three numbers that many lines share.
void claim_shared(Output& output, const Lines& lines, std::vector<LineNumber> numbers,
                  Claims& claims) {
  const bool wide = size_of(output.expected->dtype()) == 4;
  const Index least = wide ? kFew : kMany;
  for (std::size_t n = 0; n < kMostNumbers && output.left >= least; ++n) {
    const Shared best = shared_number(numbers);
    if (differing_in(best.lines) < std::max(least, output.left / kLeastOfRest) ||
        best.number.holds(1.0) || best.number.holds(0.0))
      return;
    if (wide && best.number.low > 1.0 - kNearOne && best.number.high < 1.0 + kNearOne) return;
    std::erase_if(numbers, [&](const LineNumber& l) {
      return std::ranges::binary_search(best.lines, l.line, {}, &LineNumber::line);
    });
    const bool is_whole = std::ssize(best.lines) * lines.length() == compared(output);
    add_claim(output, lines, best.lines,
              {"value.factor",
               is_whole || is_ratio(best.number) ? FindingKind::cause : FindingKind::look},
              "every value is " + in_words(best.number) + " times what is expected", claims);
  }
}

/// Numbers of lines, each its own, where they explain nearly all that differs.
void claim_own(Output& output, const Lines& lines, const std::vector<LineNumber>& numbers,
               Made made, Claims& claims) {
  const Index strong = size_of(output.expected->dtype()) == 4 ? kLeastInLine : 16;
  Interval range{HUGE_VAL, -HUGE_VAL};
  Interval one;  // number that all of them may share
  std::vector<LineNumber> in;
  std::size_t told = 0;  // lines that tell their number from chance
  Index differing = 0;   // elements in them
  for (const LineNumber& l : numbers) {
    if (l.number.holds(made == Made::multiplied ? 1.0 : 0.0) || l.number.holds(0.0)) continue;
    in.push_back(l);
    one.cut(l.number);
    if (l.differing < strong) continue;
    ++told;
    differing += l.differing;
    range.low = std::min(range.low, l.number.middle());
    range.high = std::max(range.high, l.number.middle());
  }
  if (told < kLeastLines || differing * 10 < output.left * 9) return;
  const std::string each = "each " + lines.noun();
  const std::string from_to = number(range.low, 3) + " to " + number(range.high, 3);
  if (made == Made::multiplied) {
    add_claim(output, lines, in, {"value.factors", FindingKind::look},
              each + " is multiplied by a factor of its own, " + from_to, claims);
  } else if (!one.empty()) {
    add_claim(output, lines, in, {"value.offset"}, "one number is added, " + in_words(one), claims);
  } else {
    add_claim(output, lines, in, {"value.offsets", FindingKind::look},
              each + " has a number of its own added: " + from_to, claims);
  }
}

/// A power of two that nearly as many elements beside these lines have is no factor of lines.
bool claim_scattered(Output& output, const Lines& lines, int by, Index in_lines, Claims& claims) {
  const ElementReader read(output.expected->dtype());
  const auto holds = [&](Index i) {
    Interval number{std::exp2(by), std::exp2(by)};
    return output.differs(i) && cut(output, read, Made::doubled, i, number);
  };
  Index all = 0;
  for (Index i = 0; i < compared(output); ++i) all += holds(i);
  if ((all - in_lines) * 2 < in_lines || !are_of_several_values(output, holds)) return false;
  append(
      claims,
      claim_where(output, {"value.power_of_2", FindingKind::look}, holds, [&](const Place& place) {
        return filled("{} elements in {} are multiplied by 2^{}, of no whole {}", all, place.words,
                      by, lines.noun());
      }));
  return true;
}

}  // namespace

Claims recover_factors(Output& output) {
  if (output.left < kFew || !is_wide_float(output.expected->dtype())) return {};
  std::vector<LineNumber> best;
  std::set<int> powers;  // of two, by which they are multiplied
  Index most = 0;
  bool are_columns = false;
  for (const bool columns : {false, true}) {
    std::vector<LineNumber> found = numbers_of({output, columns}, Made::doubled);
    std::set<int> own;
    for (const LineNumber& l : found) own.insert(std::ilogb(l.number.low));
    const Index elements = differing_in(found);
    // Fewer factors for as many elements: a column is one line, not a factor of each row.
    if (elements < most || (columns && elements == most && own.size() >= powers.size())) continue;
    best = std::move(found);
    powers = std::move(own);
    most = elements;
    are_columns = columns;
  }
  Claims claims;
  const Lines lines{output, are_columns};
  // Among many lines with numbers of their own some are powers of two by chance.
  if (numbers_of(lines, Made::multiplied).size() > 2 * best.size()) return claims;
  if (powers.size() > kMostNumbers) {
    add_claim(output, lines, best, {"value.power_of_2", FindingKind::look},
              filled("every {} is multiplied by a power of two of its own, 2^{} to 2^{}",
                     lines.noun(), *powers.begin(), *powers.rbegin()),
              claims);
    return claims;
  }
  for (const int by : powers) {
    std::vector<LineNumber> own = best;
    std::erase_if(own, [by](const LineNumber& l) { return std::ilogb(l.number.low) != by; });
    const Index differing = differing_in(own);
    if (differing < kFew || claim_scattered(output, lines, by, differing, claims)) continue;
    add_claim(output, lines, own, {"value.power_of_2"}, times_power_of_2(by), claims);
  }
  return claims;
}

std::string times_power_of_2(Index power) {
  return power == 1 ? "every value is twice what is expected"
                    : filled("every value is multiplied by 2^{}", power);
}

std::optional<int> power_of(const Output& output, const std::vector<Index>& elements) {
  if (std::ssize(elements) < kFew || !is_wide_float(output.expected->dtype())) return {};
  const ElementReader read(output.expected->dtype());
  Interval number;
  for (const Index i : elements)
    if (!cut(output, read, Made::doubled, i, number)) return {};
  if (number.low != number.high) return {};
  return std::ilogb(number.low);
}

Claims recover_one_factor(Output& output) {
  if (!is_unexplained(output, kMany) || !is_wide_float(output.expected->dtype())) return {};
  const ElementReader read(output.expected->dtype());
  Interval number;
  Index nonzero = 0;
  for (Index i = 0; i < compared(output); ++i) {
    if (!cut(output, read, Made::multiplied, i, number)) return {};
    nonzero += output.wanted(i).value != 0.0 ? 1 : 0;
  }
  if (nonzero > 2 * output.differing) return {};
  if (number.holds(std::exp2(std::round(std::log2(std::abs(number.middle())))))) return {};
  return claim_all(
      output, {"value.factor"},
      filled("all of {}: every value is {} times what is expected", output.name, in_words(number)));
}

Claims recover_scaled(Output& output) {
  if (output.left < kFew || !is_wide_float(output.expected->dtype())) return {};
  Claims claims;
  for (const bool columns : {false, true}) {
    if (output.left < kFew) break;
    const Lines lines{output, columns};
    const std::vector<LineNumber> numbers = numbers_of(lines, Made::multiplied);
    if (differing_in(shared_number(numbers).lines) * 2 < output.left)
      claim_own(output, lines, numbers, Made::multiplied, claims);
    claim_shared(output, lines, numbers, claims);
  }
  if (output.left == output.differing) {
    const Lines columns{output, true};
    claim_own(output, columns, numbers_of(columns, Made::added), Made::added, claims);
  }
  if (output.left == output.differing) claim_by_row_and_column(output, claims);
  return claims;
}

}  // namespace mxo

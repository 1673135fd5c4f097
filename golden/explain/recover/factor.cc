// Rows or columns that are what is owed times a power of two of their own.
#include <cmath>
#include <map>
#include <optional>

#include "golden/explain/recover/recover.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kLeast = 8;              ///< elements of a factor: fewer say nothing
constexpr std::size_t kMostFactors = 3;  ///< that are named one by one

/// Exponents of the factors of each row, or of each column.
class Factors {
 public:
  Factors(const Output& output, bool of_columns)
      : output_(output), read_(output.expected->dtype()), of_columns_(of_columns) {
    found_.resize(static_cast<std::size_t>(of_columns ? output.columns : output.rows));
    for (Index i = 0; i < output.owed * output.columns; ++i) {
      if (output.marks[static_cast<std::size_t>(i)] != Mark::settled) join(i);
    }
  }
  /// Elements that differ in lines with a factor, by its exponent.
  std::map<int, Index> counts() const {
    std::map<int, Index> counts;
    for (Index i = 0; i < output_.owed * output_.columns; ++i) {
      if (const auto by = exponent(i)) ++counts[*by];
    }
    return counts;
  }
  /// The exponent of the line of element i, which differs; none without one factor.
  std::optional<int> exponent(Index i) const {
    if (output_.marks[static_cast<std::size_t>(i)] != Mark::differs) return std::nullopt;
    const Line& line = found_[line_of(i)];
    return line.same ? line.exponent : std::nullopt;
  }

 private:
  struct Line {
    std::optional<int> exponent;
    bool same = true;
  };
  std::size_t line_of(Index i) const {
    return static_cast<std::size_t>(of_columns_ ? i % output_.columns : i / output_.columns);
  }
  /// Zeros have any factor; every other element must have the one of its line, exactly.
  void join(Index i) {
    const Element owed = read_(output_.wanted(i));
    const Element came = read_(output_.came(i));
    if (owed.value == 0.0 && came.value == 0.0) return;
    Line& line = found_[line_of(i)];
    int by = 0;  // of no number, and of 0 and infinity, there is no half
    const bool power = std::frexp(came.value / owed.value, &by) == 0.5 && by != 1;
    line.same = line.same && power && line.exponent.value_or(by - 1) == by - 1;
    line.exponent = by - 1;
  }

  const Output& output_;
  ElementReader read_;
  bool of_columns_;
  std::vector<Line> found_;
};

Index sum_of(const std::map<int, Index>& counts) {
  Index sum = 0;
  for (const auto& [by, count] : counts) sum += count;
  return sum;
}

}  // namespace

std::vector<Claim> recover_factors(Output& output) {
  std::vector<Claim> claims;
  if (output.left < kLeast || !is_wide_float(output.expected->dtype())) return claims;
  const Factors of_rows(output, false);
  const Factors of_columns(output, true);
  const std::map<int, Index> by_rows = of_rows.counts();
  const std::map<int, Index> by_columns = of_columns.counts();
  // Fewer factors for as many elements: a column of its own is one line, not a factor of each row.
  const Index rows = sum_of(by_rows);
  const Index columns = sum_of(by_columns);
  const bool choose_columns =
      columns > rows || (columns == rows && by_columns.size() < by_rows.size());
  const Factors& factors = choose_columns ? of_columns : of_rows;
  const std::map<int, Index>& counts = choose_columns ? by_columns : by_rows;
  const auto claim = [&](const std::string& words, Index count, auto&& holds) {
    const Place place = place_of(output, holds);
    claims.push_back({});
    claims.back().id = "value.power_of_2";
    claims.back().sentence = place.words + ": " + words;
    claims.back().where = place.where;
    claims.back().elements = static_cast<double>(count);
    std::vector<Index> found;
    for (Index i = 0; i < output.owed * output.columns; ++i) {
      if (holds(i)) found.push_back(i);
    }
    for (const Index i : found) output.settle(i);
  };
  if (counts.size() > kMostFactors) {
    claim((choose_columns ? "every column is" : "every row is") +
              std::string(" multiplied by a power of two of its own, 2^") +
              std::to_string(counts.begin()->first) + " to 2^" +
              std::to_string(counts.rbegin()->first),
          sum_of(counts), [&](Index i) { return factors.exponent(i).has_value(); });
    return claims;
  }
  for (const auto& [by, count] : counts) {
    if (count < kLeast) continue;
    claim("every value is multiplied by 2^" + std::to_string(by), count,
          [&factors, by = by](Index i) { return factors.exponent(i) == by; });
  }
  return claims;
}

}  // namespace mxo

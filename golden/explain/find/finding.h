// What finders share: elements by an Index, numbers that came, least squares, distances and lists
// in words.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "golden/explain/case/output.h"
#include "golden/judge/elements.h"

namespace mxo {

/// -1, 1, -2, 2, .. -most, most.
inline std::vector<Index> both_ways(Index most) {
  std::vector<Index> list;
  for (Index by = 1; by <= most; ++by) list.insert(list.end(), {-by, by});
  return list;
}

inline Index modulo(Index i, Index n) { return (i % n + n) % n; }

/// Numbers that came, to be weighed by how finely they are stored: by their inverse, quiet ones as
/// an eighth of the root mean square.
struct ActualNumbers {
  std::vector<double> values;
  double least = 0.0;
  /// False where one is no number, or all are zero.
  bool tell() const { return least > 0.0 && std::isfinite(least); }
  double weight(std::size_t i) const { return 1.0 / std::max(std::abs(values[i]), least); }
};

inline ActualNumbers actual_numbers(const Output& o, const std::vector<Index>& elements) {
  ActualNumbers got;
  double square = 0.0;
  for (const Index i : elements) {
    got.values.push_back(o.came(i).value);
    square += got.values.back() * got.values.back();
  }
  got.least = std::sqrt(square / static_cast<double>(elements.size())) / 8.0;
  return got;
}

/// Stores the bits of element `i`.
inline void set_bits(Tensor& tensor, Index i, std::uint64_t bits) {
  const std::size_t size = size_of(tensor.dtype());
  std::memcpy(tensor.data() + static_cast<std::size_t>(i) * size, &bits, size);
}

/// The bits of a scale of a type, as near to `v` as that has one.
inline std::uint64_t scale_bits(Dtype type, double v) {
  if (size_of(type) != 1) return bit_cast<std::uint32_t>(static_cast<float>(v));
  const double e = v > 0.0 ? std::round(std::log2(v)) + 127.0 : 0.0;
  return static_cast<std::uint64_t>(std::clamp(e, 0.0, 254.0));
}

/// The elements of a row.
inline std::vector<Index> elements_of_row(const Output& o, Index row) {
  return evenly_spread(row * o.columns, (row + 1) * o.columns, o.columns);
}

/// "1 row", "3 rows".
inline std::string counted(Index n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

/// "3 rows before"; "3 before" without a noun.
inline std::string away(Index by, std::string_view noun = {}) {
  const Index far = std::abs(by);
  return (noun.empty() ? std::to_string(far) : counted(far, noun)) +
         (by < 0 ? " before" : " after");
}

/// Which line is taken for line i, by a number n.
inline constexpr std::pair<const char*, Index (*)(Index i, Index n)> kLineFunctions[] = {
    {"i / {}", [](Index i, Index n) { return i / n; }},
    {"i modulo {}", [](Index i, Index n) { return i % n; }},
    {"i - i modulo {}", [](Index i, Index n) { return i - i % n; }},
};

/// One more of a list in words.
inline void list_words(std::string& list, std::string_view more, std::string_view between = ", ") {
  if (!list.empty()) list += between;
  list += more;
}

/// `v` as %.*g has it.
std::string number(double v, int digits);

/// The shortest number that a measured factor may be, by its denominator; without words: none.
struct ShortFactor {
  double times = 0.0;
  std::string words;
};
ShortFactor short_factor(double measured);

struct LeastSquaresFit {
  std::vector<double> x;
  /// Of each unknown its standard error where equations are off by 1; infinite where no equation
  /// has it: it is 0, and nothing is known of it.
  std::vector<double> sigma;
  double left = 0.0;    ///< as LeastSquares::left() of x
  double misfit = 0.0;  ///< its root mean square, an equation
};

/// Equations value = sum of x[u] features[u], solved by their normal equations.  Rows are kept, so
/// that what is left is summed from themselves.
class LeastSquares {
 public:
  explicit LeastSquares(std::size_t unknowns) : unknowns_(unknowns) {}

  /// Both sides are multiplied by `weight`.
  void add(std::span<const double> features, double value, double weight = 1.0);
  std::size_t equations() const { return values_.size(); }
  /// The sum of the squares of what the equations are off by with these unknowns.
  double left(std::span<const double> x) const;

  /// None where the features leave it open.  `ridge`, a share of each unknown's own square, marks
  /// as explained what is nearly open for the smaller numbers.
  std::optional<LeastSquaresFit> solved(double ridge = 1e-12) const;

 private:
  std::size_t unknowns_;
  std::vector<double> rows_;
  std::vector<double> values_;
};

}  // namespace mxo

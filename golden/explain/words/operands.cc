// Elements that differ, by the numbers that they were made of.
#include <algorithm>
#include <cmath>
#include <set>

#include "golden/explain/case/wide_values.h"
#include "golden/explain/find/quantiser/quantiser_call.h"
#include "golden/explain/words/places.h"

namespace mxo {
namespace {

constexpr Index kLeast = 16;           ///< elements that differ, and that do not
constexpr std::size_t kMantissas = 4;  ///< that are told one by one

/// Magnitudes of the elements of an operand that differ, and of those that do not.
struct Magnitudes {
  std::vector<float> wrong;
  std::vector<float> right;
};

Magnitudes magnitudes_of(const Tensor& x, const Output& output) {
  Magnitudes m;
  for (Index i = 0; i < output.compared_rows * output.columns; ++i) {
    const float v = std::abs(wide_value(x, i));
    if (std::isnan(v)) continue;
    if (output.differs(i)) m.wrong.push_back(v);
    if (output.marks[static_cast<std::size_t>(i)] == Mark::same) m.right.push_back(v);
  }
  return m;
}

std::string by_magnitude(const Magnitudes& m) {
  const auto [least, most] = std::minmax_element(m.wrong.begin(), m.wrong.end());
  bool below = false;
  bool above = false;
  for (const float v : m.right) {
    if (v >= *least && v <= *most) return {};
    below = below || v < *least;
    above = above || v > *most;
  }
  const std::string low = number(static_cast<double>(*least), 6);
  const std::string high = number(static_cast<double>(*most), 6);
  return "a magnitude of " + (!below   ? high + " and less"
                              : !above ? low + " and more"
                                       : low + " to " + high);
}

/// 1 to 2, without the exponent; 0 where there is none.
float mantissa(float v) {
  int exponent = 0;
  return std::isfinite(v) ? 2.0f * std::frexp(v, &exponent) : 0.0f;
}

std::string by_mantissa(const Magnitudes& m) {
  std::set<float> all;
  for (const float v : m.wrong) {
    all.insert(mantissa(v));
    if (all.size() > kMantissas) return {};
  }
  if (std::any_of(m.right.begin(), m.right.end(),
                  [&](float v) { return all.contains(mantissa(v)); }))
    return {};
  std::string words;
  for (const float v : all) words += (words.empty() ? "" : " or ") + number(v, 7);
  return "a mantissa of " + words;
}

}  // namespace

std::string operands_seen(const Call& call, const Output& output) {
  if (output.left < kLeast || !call.has("x")) return {};
  const Tensor& x = call.input("x");
  const bool in_rows = !call.set.flag("transpose", false);
  if (!is_wide_float(x.dtype()) || x.shape() != output.expected->shape() || !in_rows) return {};
  const Magnitudes m = magnitudes_of(x, output);
  if (static_cast<Index>(m.wrong.size()) < kLeast || static_cast<Index>(m.right.size()) < kLeast)
    return {};
  std::string words = by_magnitude(m);
  if (words.empty()) words = by_mantissa(m);
  return words.empty() ? words : "exactly the elements of x with " + words + " differ";
}

}  // namespace mxo

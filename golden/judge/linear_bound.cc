// Magnitudes of the operands, with what a cast to codes may add to them.
#include "golden/judge/linear_bound.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "golden/judge/checked_outputs.h"
#include "golden/judge/elements.h"
#include "golden/judge/group_rows.h"
#include "golden/judge/product_factor.h"
#include "golden/judge/rounding_cell.h"
#include "golden/judge/sum_error.h"

namespace mxo {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr auto kMost = static_cast<double>(std::numeric_limits<float>::max());

/// |q(v)| <= (1 + 2^-4) |v| + 2^-16 amax: half a step of a code, of which a subnormal one is half
/// of 2^-9 at a scale no larger than amax / 112.
std::vector<double> magnitudes(const Tensor& tensor) {
  const ElementReader read(tensor.dtype());
  std::vector<double> values;
  double amax = 0x1p-13;  // no rule takes an amax for smaller than 10^-4 where it is
  for (Index i = 0; i < tensor.elements(); ++i) {
    values.push_back(std::fabs(read(bits_at(tensor, i)).value));
    amax = std::max(amax, values.back());
  }
  for (double& value : values) value = value * (1 + 0x1p-4) + amax * 0x1p-16;
  return values;
}

/// Sums of a[i] b[i] over the contracted axis, strided.
struct Lines {
  Index a = 0, b = 0;            // first elements
  Index a_step = 1, b_step = 1;  // along the axis
  Index count = 0;
};

struct Layer {
  std::string_view output;
  std::vector<double> a, b;
  std::vector<Index> ends;
  Index n, k;
  bool many;                 ///< magnitudes: roundings do not depend on one another
  std::vector<double> bias;  ///< magnitudes, of every column or of those of each group; empty: none

  std::optional<Lines> lines(Index i) const {
    if (output == "dw") {
      const auto e = static_cast<std::size_t>(i / (n * k));
      const Index begin = e == 0 ? 0 : ends[e - 1];
      return Lines{begin * n + i / k % n, begin * k + i % k, n, k, ends[e] - begin};
    }
    const Index columns = output == "y" ? n : k;
    const Index t = i / columns;
    const auto owner = std::upper_bound(ends.begin(), ends.end(), t);
    if (owner == ends.end()) return std::nullopt;
    const Index w = (owner - ends.begin()) * n * k;
    if (output == "y") return Lines{t * k, w + i % n * k, 1, 1, k};
    return Lines{t * n, w + i % k, 1, k, n};
  }

  /// Of element i of y.
  Index bias_of(Index i) const {
    const auto owner = std::upper_bound(ends.begin(), ends.end(), i / n);
    return static_cast<Index>(bias.size()) == n ? i % n : (owner - ends.begin()) * n + i % n;
  }

  /// `expected` and any right kernel are rounded sums within one stray of the same real number.
  ElementBound bound(Index i, Dtype out, double expected) const {
    const std::optional<Lines> at = lines(i);
    if (!at) return {expected, kInfinity, 0};
    if (!std::isfinite(expected)) return {std::nan(""), 0, 0};
    double reach = 0;
    for (Index j = 0; j < at->count; ++j) {
      reach += a[static_cast<std::size_t>(at->a + j * at->a_step)] *
               b[static_cast<std::size_t>(at->b + j * at->b_step)];
    }
    // Blocks of 32 or more are scaled, three roundings, and added on their own.
    const Index steps = at->count + ceil_div(at->count, Index{32}) + 8;
    const RoundingCell cell = rounding_cell(out, expected);
    const double half = std::max(cell.high - expected, expected - cell.low);
    const double added = bias.empty() ? 0 : bias[static_cast<std::size_t>(bias_of(i))];
    const double sum =
        bias.empty() ? std::fabs(expected) : (std::fabs(expected) + added + half) * (1 + 0x1p-5);
    const double one_sided = gamma_of(steps, 0x1p-24) * sum;
    const SumError error = many ? SumError::independent(steps) : SumError::any_order(steps);
    const double stray = std::max(error(reach, 0), one_sided);
    // Beside the ends of f32's range a step may overflow, or lose what another one keeps.
    if (!(reach * 2 < kMost) || (reach > 0 && reach < 0x1p-90)) return {expected, kInfinity, 0};
    if (bias.empty()) return {expected, up(half + 2 * stray), 0};
    // Both sums were rounded to the type first, then the bias was added in f32.
    const double most = sum + 2 * stray;
    const double first = rounding_cell(out, most).high - most + 0x1p-24 * (most + added);
    return {expected, up(half + 2 * (stray + first)), 0};
  }
};

}  // namespace

std::optional<ErrorBound> linear_bound(std::string_view output, const NamedTensors& inputs,
                                       const Parameters& set, const Tensor& expected) {
  const bool y = output == "y";
  const bool dw = output == "dw";
  if ((!y && !dw && output != "dx") || !inputs.contains("x") ||
      (dw && inputs.contains("main_grad"))) {
    return std::nullopt;
  }
  const std::string_view sum = set.text("sum", "exact");
  if (sum != "exact" && sum != "fma_chain") return std::nullopt;
  checked_outputs("grouped_linear", inputs, set);
  const Tensor& w = inputs.at("w");
  const Tensor& x = inputs.at("x");
  std::vector<double> a = magnitudes(y ? x : inputs.at("dy"));
  std::vector<double> b = magnitudes(dw ? x : w);
  std::vector<double> bias;
  if (const auto held = inputs.find("bias"); y && held != inputs.end()) {
    const ElementReader read(held->second.dtype());
    for (Index i = 0; i < held->second.elements(); ++i) {
      bias.push_back(std::fabs(read(bits_at(held->second, i)).value));
    }
  }
  const bool many = has_many_magnitudes(a) && has_many_magnitudes(b);
  const auto layer = std::make_shared<const Layer>(
      Layer{y    ? "y"
            : dw ? "dw"
                 : "dx",
            std::move(a), std::move(b), group_ends_of(inputs.at("group_ends")), w.extent(1),
            w.extent(2), many, std::move(bias)});
  ErrorBound bound;
  bound.count = expected.elements();
  bound.one = [layer, &expected, read = ElementReader(expected.dtype())](Index i) {
    return layer->bound(i, expected.dtype(), read(bits_at(expected, i)).value);
  };
  return bound;
}

}  // namespace mxo

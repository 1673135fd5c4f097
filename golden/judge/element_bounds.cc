// Bounds element by element.
#include "golden/judge/element_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "golden/judge/elements.h"
#include "golden/judge/judge.h"
#include "golden/judge/rounding_step.h"

namespace mxo {
namespace {

constexpr double kU = 0x1p-24;

double value_of(const ElementReader& read, const Tensor& tensor, Index i) {
  return read(bits_at(tensor, i)).value;
}

}  // namespace

ErrorBound swiglu_bound(const NamedTensors& inputs, Dtype out) {
  const Tensor& x = inputs.at("x");
  const auto probs = inputs.find("probs");
  const ElementReader read(x.dtype());
  const ElementReader read_f32(Dtype::f32);
  const Index rows = x.extent(0);
  const Index features = x.extent(1) / 2;
  ErrorBound bound;
  for (Index r = 0; r < rows; ++r) {
    const double p = probs == inputs.end() ? 1 : value_of(read_f32, probs->second, r);
    for (Index f = 0; f < features; ++f) {
      const double a = value_of(read, x, r * 2 * features + f);
      const double factor = value_of(read, x, r * 2 * features + features + f) * p;
      // a below -745 leaves nothing of sigma in double, and less than the second term allows.
      const double exact = a / (1 + std::exp(-a)) * factor;
      const double stray =
          12 * kU * std::fabs(exact) + 0x1p-125 * std::fabs(a * factor) + 4 * 0x1p-149;
      const double reach = std::fabs(exact) + stray;
      const bool overflows = reach > largest(out);
      bound.exact.push_back(std::isfinite(a * factor) ? exact
                                                      : std::numeric_limits<double>::quiet_NaN());
      bound.allowed.push_back(overflows ? std::numeric_limits<double>::infinity()
                                        : stray * (1 + 0x1p-40) + half_step(out, reach));
    }
  }
  return bound;
}

std::optional<ErrorBound> quantize_bound(const NamedTensors& inputs, const Parameters& set,
                                         const Owed& codes, const Tensor& actual) {
  const auto x = inputs.find("x");
  if (x == inputs.end() || codes.pair == nullptr) return std::nullopt;
  const bool turned = set.flag("transpose", false);
  std::vector<Index> shape = x->second.shape();
  if (turned) std::reverse(shape.begin(), shape.end());
  if (shape != codes.expected->shape() || (turned && shape.size() != 2)) return std::nullopt;
  const ElementReader read(x->second.dtype());
  const Judge judge(codes, actual, {});
  ErrorBound bound;
  for (Index i = 0; i < codes.expected->elements(); ++i) {
    const Index from = turned ? i % shape[1] * shape[0] + i / shape[1] : i;
    const double value = value_of(read, x->second, from);
    const double nearest = std::fabs(judge.at(i).expected.value - value);
    bound.exact.push_back(value);
    bound.allowed.push_back(nearest + 4 * kU * std::fabs(value));
  }
  return bound;
}

}  // namespace mxo

// Bounds element by element.
#include "golden/judge/element_bounds.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "golden/judge/elements.h"
#include "golden/judge/judge.h"
#include "golden/judge/quantized_pair.h"
#include "golden/judge/rounding_cell.h"
#include "golden/judge/tied_codes.h"

namespace mxo {
namespace {

constexpr double kU = 0x1p-24;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr auto kMost = static_cast<double>(std::numeric_limits<float>::max());

double value_of(const ElementReader& read, const Tensor& tensor, Index i) {
  return read(bits_at(tensor, i)).value;
}

/// Of words whose sign is their first bit.
template <typename Word>
bool all_below(const Tensor& tensor, Word limit) {
  Word most = 0;
  for (Index i = 0; i < tensor.elements(); ++i) {
    Word word;
    std::memcpy(&word, tensor.data() + static_cast<std::size_t>(i) * sizeof word, sizeof word);
    most = std::max(most, static_cast<Word>(word & std::numeric_limits<Word>::max()));
  }
  return most < limit;
}

bool all_finite(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case Dtype::bf16: return all_below<std::int16_t>(tensor, 0x7F80);
    case Dtype::f16: return all_below<std::int16_t>(tensor, 0x7C00);
    case Dtype::f32: return all_below<std::int32_t>(tensor, 0x7F800000);
    default: return false;
  }
}

}  // namespace

ErrorBound swiglu_bound(const NamedTensors& inputs) {
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
      const double b = value_of(read, x, r * 2 * features + features + f);
      // a below -745 leaves nothing of sigma in double, and less than doubt adds.
      const double s = a / (1 + std::exp(-a));
      const double exact = s * (b * p);
      const double sizes[] = {std::fabs(s), std::fabs(b), std::fabs(p)};
      const double lost = (1 + sizes[0]) * (1 + sizes[1]) * (1 + sizes[2]);
      const double stray =
          12 * kU * std::fabs(exact) + 0x1p-125 * std::fabs(a * b * p) + 0x1p-147 * lost;
      // Products of two in any order, as they may be rounded.
      const double most = std::max(
          {sizes[0] * sizes[1], sizes[0] * sizes[2], sizes[1] * sizes[2], std::fabs(exact)});
      const bool overflows = most * (1 + 12 * kU) + stray > kMost;
      bound.exact.push_back(std::isfinite(a * b * p) ? exact : kNaN);
      bound.stray.push_back(overflows ? kInfinity : stray * (1 + 0x1p-40));
      bound.doubt.push_back(std::fabs(exact) * 0x1p-50 + 0x1p-700);
    }
  }
  return bound;
}

std::optional<ErrorBound> quantize_bound(const NamedTensors& inputs, const Parameters& set,
                                         const ExpectedOutput& codes, const Tensor& actual,
                                         Roundings roundings) {
  const auto x = inputs.find("x");
  if (x == inputs.end() || codes.pair == nullptr) return std::nullopt;
  const bool turned = set.flag("transpose", false);
  std::vector<Index> shape = x->second.shape();
  if (turned) std::reverse(shape.begin(), shape.end());
  if (shape != codes.expected->shape() || (turned && shape.size() != 2)) return std::nullopt;
  const Tensor& elements = x->second;
  const auto judge = std::make_shared<const Judge>(codes, actual, CompareOptions{});
  ErrorBound bound;
  bound.count = codes.expected->elements();
  // A code at its scale and a finite x are finite, and so is what lies between them.
  bound.promises_all = roundings == Roundings::worst && all_finite(elements);
  bound.one = [&elements, judge, shape, turned, read = ElementReader(elements.dtype())](Index i) {
    const Index from = turned ? i % shape[1] * shape[0] + i / shape[1] : i;
    const double value = value_of(read, elements, from);
    const double nearest = std::fabs(judge->at(i).expected.value - value);
    return ElementBound{std::isfinite(nearest) ? value : kNaN,
                        up(nearest + 4 * kU * std::fabs(value)), 0};
  };
  bound.terms = [one = bound.one](Index i, ExactTerms& sum) { sum.add(one(i).exact); };
  const Dtype type = elements.dtype();
  if (type == Dtype::bf16 || type == Dtype::f16 || type == Dtype::f32) {
    bound.codes =
        std::make_shared<const TiedCodes>(codes.format, elements, turned, codes.pair->divides());
  }
  return bound;
}

}  // namespace mxo

// Element by element, bits and values.
#include "golden/fingerprint/match.h"

#include <cmath>
#include <limits>

#include "formats/error.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

void require_same_shape(std::string_view name, const Tensor& model, const Tensor& actual) {
  if (model.shape() == actual.shape() && size_of(model.dtype()) == size_of(actual.dtype())) return;
  throw Error(Fault::shape, "explain: " + std::string(name) + ": found " +
                                describe(actual.operand()) + ", needs " +
                                describe(model.operand()));
}

bool differ(std::uint64_t a, std::uint64_t b, const ElementReader& read) {
  return a != b && !(read(a).nan && read(b).nan);
}

Index compared_elements(const Tensor& t, std::string_view name, Index expected_output) {
  if (expected_output < 0 || name != "y" || t.rank() != 2) return t.elements();
  return expected_output * t.extent(1);
}

}  // namespace

Match match(const NamedTensors& model, const NamedTensors& actual, Index expected_output) {
  Match result;
  double signal = 0.0;
  double noise = 0.0;
  bool one_sided = false;
  for (const auto& [name, want] : model) {
    const auto at = actual.find(name);
    if (at == actual.end()) continue;
    require_same_shape(name, want, at->second);
    const ElementReader read(want.dtype());
    const Index n = compared_elements(want, name, expected_output);
    result.compared += n;
    for (Index i = 0; i < n; ++i) {
      const std::uint64_t a = bits_at(want, i);
      const std::uint64_t b = bits_at(at->second, i);
      const Element x = read(a);
      const Element y = a == b ? x : read(b);
      if (differ(a, b, read)) ++result.differing;
      if (x.nan || y.nan || x.infinite || y.infinite) {
        one_sided = one_sided || differ(a, b, read);
        continue;
      }
      signal += x.value * x.value;
      noise += (x.value - y.value) * (x.value - y.value);
    }
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  result.sqnr_db = one_sided       ? -kInfinity
                   : noise == 0.0  ? kInfinity
                   : signal == 0.0 ? -kInfinity
                                   : 10.0 * std::log10(signal / noise);
  return result;
}

}  // namespace mxo

// The certified bound of the grouped products.
#include "golden/judge/bound.h"

#include <cmath>
#include <limits>

#include "formats/error.h"
#include "golden/judge/element_bounds.h"
#include "golden/judge/elements.h"
#include "golden/judge/group_rows.h"
#include "golden/judge/rounding_step.h"
#include "ops/catalogue/gate_parameters.h"

namespace mxo {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// K u / (1 - K u), rounded upward; infinite where K u reaches 1.
double gamma(Index k, double u) {
  const double ku = static_cast<double>(k) * u;  // exact: k below 2^53, u a power of two
  return ku >= 1 ? kInfinity : up(ku / (1 - ku));
}

/// One factor of the product, as doubles; every code * scale is exact in double.
struct Factor {
  std::vector<double> value;
  Index rows = 0;  ///< of a group of w, or all of x
  Index k = 0;
};

/// A plain operand, or one in blocks of 32 with e8m0 scales; nothing for any other.
std::optional<Factor> factor_of(const NamedTensors& inputs, const std::string& name,
                                const Parameters& set) {
  const auto plain = inputs.find(name);
  const bool coded = plain == inputs.end();
  const Tensor& codes = coded ? inputs.at(name + ".codes") : plain->second;
  const Dtype held = codes.dtype() == Dtype::u16 ? Dtype::bf16 : codes.dtype();
  const bool bits = size_of(held) == 4 && !coded;  // i32 and u32 hold those of f32
  const ElementReader code_of(coded  ? set.format("format_" + name, "e4m3")
                              : bits ? Dtype::f32
                                     : held);
  Factor factor;
  factor.k = codes.extent(codes.rank() - 1);
  factor.rows = codes.extent(codes.rank() - 2);
  factor.value.resize(static_cast<std::size_t>(codes.elements()));
  for (Index i = 0; i < codes.elements(); ++i) {
    factor.value[static_cast<std::size_t>(i)] = code_of(bits_at(codes, i)).value;
  }
  if (!coded) return factor;
  const Tensor& scales = inputs.at(name + ".scales");
  const bool blocks = size_of(scales.dtype()) == 1 && scales.rank() == codes.rank() &&
                      scales.extent(scales.rank() - 1) * 32 == factor.k &&
                      scales.elements() * 32 == codes.elements();
  if (!blocks || set.text("block_" + name, "1x32") != "1x32") return std::nullopt;
  const ElementReader scale_of(Dtype::e8m0);
  for (Index i = 0; i < codes.elements(); ++i) {
    factor.value[static_cast<std::size_t>(i)] *= scale_of(bits_at(scales, i / 32)).value;
  }
  return factor;
}

/// How far any f32 summation of `k` products may stray; absent for the exact sum.
struct SumError {
  double relative = 0;  ///< of sum |x w|
  double absolute = 0;
};

SumError sum_error(std::string_view sum, Index k) {
  if (sum == "exact") return {};
  if (!sum.empty() && sum != "fma_chain") {
    throw Error(Fault::argument, "gate bound: no bound is known for sum=" + std::string(sum) +
                                     "; there are exact, fma_chain, and none for any f32 order");
  }
  return {gamma(k, 0x1p-24), up(static_cast<double>(k) * 0x1p-149)};
}

class RowBound {
 public:
  RowBound(Dtype out, std::string_view sum, Index k)
      : out_(out), error_(sum_error(sum, k)), gamma_double_(gamma(k, 0x1p-53)) {}

  void add(const double* x, const double* w, Index k, double& exact, double& allowed) const {
    double total = 0;
    double magnitude = 0;
    for (Index i = 0; i < k; ++i) {
      const double product = x[i] * w[i];  // exact: 48 bits of significand at most
      total += product;
      magnitude += std::fabs(product);
    }
    exact = std::isfinite(magnitude) ? total : kNaN;
    // magnitude itself was rounded k times.
    const double a = up(magnitude * up(1 + gamma_double_));
    const double stray = up(up(a * up(error_.relative + gamma_double_)) + error_.absolute);
    const double reach = up(std::fabs(total) + stray);
    // Beyond f32's range an intermediate sum may overflow: nothing can be promised.
    allowed = reach > static_cast<double>(std::numeric_limits<float>::max())
                  ? kInfinity
                  : up(stray + half_step(out_, reach));
  }

 private:
  Dtype out_;
  SumError error_;
  double gamma_double_;
};

}  // namespace

std::optional<ErrorBound> certified_bound(std::string_view op, std::string_view output,
                                          const NamedTensors& inputs, const Parameters& parameters,
                                          Dtype out, std::string_view sum) {
  if (op == "swiglu" && output == "y") {
    check_call(op, inputs, parameters);
    if (gate_of(parameters) != GateRule{}) return std::nullopt;
    return swiglu_bound(inputs, out);
  }
  if (op != "grouped_matmul" || output != "y") return std::nullopt;
  check_call(op, inputs, parameters);
  const std::optional<Factor> x = factor_of(inputs, "x", parameters);
  const std::optional<Factor> w = factor_of(inputs, "w", parameters);
  if (!x || !w) return std::nullopt;
  const std::vector<Index> ends = group_ends_of(inputs.at("group_ends"));
  const Index n = w->rows;
  const Index rows = x->rows;
  ErrorBound bound;
  bound.exact.assign(static_cast<std::size_t>(rows * n), 0);
  bound.allowed.assign(static_cast<std::size_t>(rows * n), kInfinity);  // rows that are not owed
  const RowBound row_bound(out, sum, x->k);
  Index r = 0;
  for (std::size_t g = 0; g < ends.size(); ++g) {
    for (; r < ends[g]; ++r) {
      for (Index j = 0; j < n; ++j) {
        const auto at = static_cast<std::size_t>(r * n + j);
        row_bound.add(x->value.data() + r * x->k,
                      w->value.data() + (static_cast<Index>(g) * n + j) * x->k, x->k,
                      bound.exact[at], bound.allowed[at]);
      }
    }
  }
  return bound;
}

}  // namespace mxo

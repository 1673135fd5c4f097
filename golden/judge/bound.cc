// The certified bound of the grouped products.
#include "golden/judge/bound.h"

#include <cmath>
#include <limits>

#include "formats/error.h"
#include "golden/judge/element_bounds.h"
#include "golden/judge/elements.h"
#include "golden/judge/group_rows.h"
#include "golden/judge/rounding_step.h"

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
  Index rows = 0;  ///< of all groups
  Index k = 0;
};

Factor mx_factor(const NamedTensors& inputs, const std::string& name, Dtype format) {
  const Tensor& codes = inputs.at(name + ".codes");
  const Tensor& scales = inputs.at(name + ".scales");
  const ElementReader code_of(format);
  const ElementReader scale_of(Dtype::e8m0);
  Factor factor;
  factor.k = codes.extent(codes.rank() - 1);
  factor.rows = factor.k == 0 ? 0 : codes.elements() / factor.k;
  factor.value.resize(static_cast<std::size_t>(codes.elements()));
  for (Index i = 0; i < codes.elements(); ++i) {
    factor.value[static_cast<std::size_t>(i)] =
        code_of(bits_at(codes, i)).value * scale_of(bits_at(scales, i / 32)).value;
  }
  return factor;
}

Factor bf16_factor(const NamedTensors& inputs, const std::string& name) {
  const Tensor& x = inputs.at(name);
  const ElementReader read(Dtype::bf16);
  Factor factor;
  factor.k = x.extent(x.rank() - 1);
  factor.rows = factor.k == 0 ? 0 : x.elements() / factor.k;
  factor.value.resize(static_cast<std::size_t>(x.elements()));
  for (Index i = 0; i < x.elements(); ++i) {
    factor.value[static_cast<std::size_t>(i)] = read(bits_at(x, i)).value;
  }
  return factor;
}

Dtype format_of(const Parameters& set, std::string_view key) {
  return set.has(key) ? set.format(key, "e4m3") : set.format("format", "e4m3");
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
      const double product = x[i] * w[i];  // exact: 16 bits of significand at most
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
    return swiglu_bound(inputs, out);
  }
  const bool mx = op == "grouped_matmul";
  if ((!mx && op != "grouped_matmul_bf16") || output != "y") return std::nullopt;
  check_call(op, inputs, parameters);
  const Factor x =
      mx ? mx_factor(inputs, "x", format_of(parameters, "format_x")) : bf16_factor(inputs, "x");
  const Factor w =
      mx ? mx_factor(inputs, "w", format_of(parameters, "format_w")) : bf16_factor(inputs, "w");
  const std::vector<Index> ends = group_ends_of(inputs.at("group_ends"));
  const Tensor& w_shape = inputs.at(mx ? "w.codes" : "w");
  const Tensor& x_shape = inputs.at(mx ? "x.codes" : "x");
  const Index n = w_shape.extent(1);
  const Index rows = x_shape.extent(0);
  ErrorBound bound;
  bound.exact.assign(static_cast<std::size_t>(rows * n), 0);
  bound.allowed.assign(static_cast<std::size_t>(rows * n), kInfinity);  // rows that are not owed
  const RowBound row_bound(out, sum, x.k);
  Index r = 0;
  for (std::size_t g = 0; g < ends.size(); ++g) {
    for (; r < ends[g]; ++r) {
      for (Index j = 0; j < n; ++j) {
        const auto at = static_cast<std::size_t>(r * n + j);
        row_bound.add(x.value.data() + r * x.k,
                      w.value.data() + (static_cast<Index>(g) * n + j) * x.k, x.k, bound.exact[at],
                      bound.allowed[at]);
      }
    }
  }
  return bound;
}

}  // namespace mxo

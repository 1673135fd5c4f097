// Certified bounds of what is summed.
#include "golden/judge/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "golden/judge/element_bounds.h"
#include "golden/judge/group_rows.h"
#include "golden/judge/product_factor.h"
#include "golden/judge/rounding_step.h"
#include "golden/judge/slots_bound.h"
#include "golden/judge/sum_error.h"
#include "ops/catalogue/gate_parameters.h"

namespace mxo {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr auto kMost = static_cast<double>(std::numeric_limits<float>::max());
constexpr double kU = 0x1p-24;

/// Which sum ACTUAL claims: an unknown kernel, or a row of `mxo list sums` with the parameters of
/// the call where it asks for the same.  `shared` k at a time have the same f32 scales; 0: all.
std::optional<Accumulation> claimed(std::string_view op, std::string_view name,
                                    const Parameters& set, const ProductFactor& a,
                                    const ProductFactor& b, Index shared) {
  if (name.empty()) return std::nullopt;
  Parameters chosen = set;
  if (set.text("sum", "exact") != name) {
    chosen = {};
    chosen.set("sum", name);
  }
  const bool numbers = a.scales != nullptr || b.scales != nullptr;
  const bool scaled = numbers || a.blocks_of_32 || b.blocks_of_32;
  const OperandKind kind = operand_kind(a.type, b.type, a.blocks_of_32 || b.blocks_of_32);
  const Accumulation sum = sum_from(chosen, kind);
  if (is_machine(sum)) require_machine_takes(op, sum, kind);
  return settled_sum(op, sum, scaled, numbers, shared);
}

/// One output: blocks of products that share their scales, in any fold.
class ProductBound {
 public:
  ProductBound(Dtype out, const std::optional<Accumulation>& sum, bool scaled)
      : out_(out), sum_(sum), scaled_(scaled) {}

  /// Lines of `k` elements, cut into blocks of `block` k.
  void prepare(Index k, Index block) {
    k_ = k;
    block_ = std::max<Index>(block, 1);
    error_ = error_of(std::min(k, block_));
    gamma_double_ = gamma_of(std::min(k, block_) + 4, 0x1p-53);
    // Every restart inside a block of scales is scaled and added on its own.
    const Index blocks = ceil_div(k, block_);
    const Index restarts = sum_ && sum_->block > 0 ? ceil_div(block_, Index{sum_->block}) : 1;
    pieces_ = static_cast<double>(blocks * restarts + (sum_ ? sum_->split : 1));
  }

  template <typename ScaleX, typename ScaleW>
  void add(const double* x, const double* w, const double* bx, const double* bw, ScaleX scale_x,
           ScaleW scale_w, double& exact, double& allowed) const {
    double total = 0;
    double reach = 0;  // of the exact sum, by magnitudes
    double stray = 0;
    bool finite = true;
    bool overflows = false;
    for (Index b = 0; b * block_ < k_ || b == 0; ++b) {
      double sum = 0;
      double magnitude = 0;
      double binade = 0;
      for (Index i = b * block_; i < std::min(k_, (b + 1) * block_); ++i) {
        const double product = x[i] * w[i];
        sum += product;
        magnitude += std::fabs(product);
        binade = std::max(binade, bx[i] * bw[i]);
      }
      // magnitude itself was rounded.
      const double a = up(magnitude * up(1 + gamma_double_));
      double error = up(error_(a, binade) + up(a * gamma_double_));
      const double sx = scale_x(b);
      const double sw = scale_w(b);
      finite = finite && std::isfinite(magnitude) && std::isfinite(sx) && std::isfinite(sw);
      const double s = std::fabs(sx * sw);
      total += sum * (sx * sw);
      reach = up(reach + up(a * s));
      if (scaled_ && is_exact()) {
        error = up(error * up(s));
      } else if (scaled_) {
        const double p = up(a + error);
        overflows = overflows || up(p * std::fabs(sx)) > kMost || up(p * std::fabs(sw)) > kMost ||
                    s > kMost || up(p * s) > kMost;
        error = up(up(error * up(s)) + folded(p, s, std::fabs(sx) + std::fabs(sw)));
      }
      stray = up(stray + error);
    }
    if (scaled_) {
      if (!is_exact()) stray = up(stray + up(pieces_ * up(up(up(reach + stray) * kU) + 0x1p-149)));
      stray = up(stray + up(reach * (pieces_ + 4) * 0x1p-52));  // of `total`, a double
    }
    exact = finite ? total : kNaN;
    const double most = up(std::fabs(total) + stray);
    // Beyond f32's range an intermediate sum may overflow: nothing can be promised.
    overflows = overflows || std::isinf(stray) || up(reach + stray) > kMost;
    allowed = overflows ? kInfinity : up(stray + half_step(out_, most));
  }

 private:
  /// Roundings of p * sx * sw, however it is folded: three, each with its underflow.
  double folded(double p, double s, double scales) const {
    const double relative = up(up(p * s) * up(3 * kU * (1 + 0x1p-20)));
    return up(relative + up(pieces_ * 0x1p-149 * up(up(p + scales) + 2)));
  }

  bool is_exact() const { return sum_ && sum_->family == SumFamily::exact; }

  SumError error_of(Index k) const {
    return sum_ ? SumError::of(*sum_, k) : SumError::any_order(k);
  }

  Dtype out_;
  std::optional<Accumulation> sum_;
  bool scaled_;
  Index k_ = 0;
  Index block_ = 0;
  SumError error_ = SumError::any_order(0);
  double gamma_double_ = 0;
  double pieces_ = 1;
};

ErrorBound unowed(Index elements) {
  ErrorBound bound;
  bound.exact.assign(static_cast<std::size_t>(elements), 0);
  bound.allowed.assign(static_cast<std::size_t>(elements), kInfinity);
  return bound;
}

/// Scales of e8m0 on one side, which are powers of two inside the terms, and numbers on the other,
/// which a kernel may multiply with them first.
bool mixed(const ProductFactor& a, const ProductFactor& b) {
  return (a.blocks_of_32 && b.scales != nullptr) || (b.blocks_of_32 && a.scales != nullptr);
}

std::optional<ErrorBound> forward_bound(const NamedTensors& inputs, const Parameters& set,
                                        Dtype out, std::string_view name) {
  std::optional<ProductFactor> x = factor_of_rows(inputs, "x", set);
  std::optional<ProductFactor> w = factor_of_rows(inputs, "w", set);
  if (!x || !w || mixed(*x, *w)) return std::nullopt;
  const bool along = x->blocks > 1 || w->blocks > 1;
  const auto sum = claimed("grouped_matmul", name, set, *x, *w, along ? 128 : 0);
  const bool scaled = x->scales != nullptr || w->scales != nullptr;
  if (sum && is_machine(*sum) && sum->scales == ScalePlace::operand) {
    for (ProductFactor* factor : {&*x, &*w}) {
      if (factor->blocks_of_32) dequantise_to_bf16(*factor);
    }
  }
  const std::vector<Index> ends = group_ends_of(inputs.at("group_ends"));
  const Index n = w->lines;
  ErrorBound bound = unowed(x->lines * n);
  ProductBound product(out, sum, scaled);
  product.prepare(x->k, scaled ? std::min(x->block_k, w->block_k) : x->k);
  Index r = 0;
  for (std::size_t group = 0; group < ends.size(); ++group) {
    const auto g = static_cast<Index>(group);
    for (; r < ends[group]; ++r) {
      for (Index j = 0; j < n; ++j) {
        const auto at = static_cast<std::size_t>(r * n + j);
        const Index line = g * n + j;
        product.add(
            x->values_of(r), w->values_of(line), x->binades_of(r), w->binades_of(line),
            [&](Index b) { return x->scale(0, r, b); }, [&](Index b) { return w->scale(g, j, b); },
            bound.exact[at], bound.allowed[at]);
      }
    }
  }
  return bound;
}

/// Rows of a group that share the f32 scales of both sides; 0: all.
Index shared_rows(const ProductFactor& dy, const ProductFactor& x) {
  return std::gcd(dy.scales == nullptr ? 0 : dy.block_k, x.scales == nullptr ? 0 : x.block_k);
}

std::optional<ErrorBound> gradient_bound(const NamedTensors& inputs, const Parameters& set,
                                         Dtype out, std::string_view name) {
  std::optional<ProductFactor> dy = factor_of_columns(inputs, "dy", set);
  std::optional<ProductFactor> x = factor_of_columns(inputs, "x", set);
  if (!dy || !x || mixed(*dy, *x)) return std::nullopt;
  const bool scaled = dy->scales != nullptr || x->scales != nullptr;
  const Index shared = shared_rows(*dy, *x);
  const auto sum = claimed("grouped_matmul_wgrad", name, set, *dy, *x, shared);
  if (sum && is_machine(*sum) && sum->scales == ScalePlace::operand) {
    for (ProductFactor* factor : {&*dy, &*x}) {
      if (factor->blocks_of_32) dequantise_to_bf16(*factor);
    }
  }
  const std::vector<Index> ends = group_ends_of(inputs.at("group_ends"));
  ErrorBound bound = unowed(static_cast<Index>(ends.size()) * dy->lines * x->lines);
  ProductBound product(out, sum, scaled);
  std::size_t at = 0;
  Index begin = 0;
  for (std::size_t group = 0; group < ends.size(); ++group) {
    const auto g = static_cast<Index>(group);
    const Index rows = ends[group] - begin;
    const Index block = shared == 0 ? rows : shared;
    product.prepare(rows, block);
    for (Index n = 0; n < dy->lines; ++n) {
      for (Index k = 0; k < x->lines; ++k, ++at) {
        product.add(
            dy->values_of(n) + begin, x->values_of(k) + begin, dy->binades_of(n) + begin,
            x->binades_of(k) + begin, [&](Index b) { return dy->scale_below(g, n, b * block); },
            [&](Index b) { return x->scale_below(g, k, b * block); }, bound.exact[at],
            bound.allowed[at]);
      }
    }
    begin = ends[group];
  }
  return bound;
}

}  // namespace

std::optional<ErrorBound> certified_bound(std::string_view op, std::string_view output,
                                          const NamedTensors& inputs, const Parameters& parameters,
                                          Dtype out, std::string_view sum) {
  const bool forward = op == "grouped_matmul" && output == "y";
  const bool gradient = op == "grouped_matmul_wgrad" && output == "dw";
  const bool slots = sums_slots(op, output);
  const bool gate = op == "swiglu" && output == "y";
  if (!forward && !gradient && !slots && !gate) return std::nullopt;
  check_call(op, inputs, parameters);
  if (gate) {
    if (gate_of(parameters) != GateRule{}) return std::nullopt;
    return swiglu_bound(inputs, out);
  }
  // Rounded to bf16 at every step, a sum of slots is another sum.
  if (slots && parameters.text("steps", "f32") == "bf16") return std::nullopt;
  if (slots) return slots_bound(op, output, inputs, parameters, out);
  return forward ? forward_bound(inputs, parameters, out, sum)
                 : gradient_bound(inputs, parameters, out, sum);
}

}  // namespace mxo

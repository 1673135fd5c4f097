// Certified bounds of what is summed.
#include "golden/judge/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "golden/judge/beside_exact.h"
#include "golden/judge/checked_outputs.h"
#include "golden/judge/element_bounds.h"
#include "golden/judge/group_rows.h"
#include "golden/judge/judged_product.h"
#include "golden/judge/rounding_cell.h"
#include "golden/judge/slots_bound.h"
#include "golden/judge/sum_error.h"
#include "ops/catalogue/gate_parameters.h"

namespace mxo {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr auto kMost = static_cast<double>(std::numeric_limits<float>::max());
constexpr double kU = 0x1p-24;
constexpr Index kLanes = 8;

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
  return resolved_sum(op, sum, scaled, numbers, shared);
}

/// Exact: of values, products and pairs of scales none has more than 53 bits.
void add_terms(const JudgedProduct::Output& output, ExactTerms& sum) {
  const double* a = output.values_a();
  const double* b = output.values_b();
  for (Index block = 0; block < output.blocks(); ++block) {
    const double scale = output.scale_a(block) * output.scale_b(block);
    const Index end = std::min(output.k, (block + 1) * output.block());
    for (Index i = block * output.block(); i < end; ++i) sum.add_product(a[i] * b[i], scale);
  }
}

/// How far one output strays: blocks of products that share their scales, in any fold.
class ProductBound {
 public:
  ProductBound(const std::optional<Accumulation>& sum, bool scaled, Roundings roundings, Index k,
               Index block)
      : sum_(sum),
        scaled_(scaled),
        error_(error_of(sum, roundings, std::min(k, block))),
        blocks_(ceil_div(k, block)),
        gamma_double_(gamma_of(std::min(k, block) + 4, 0x1p-53)) {
    // Every restart inside a block of scales is scaled and added on its own.
    const Index restarts = sum && sum->block > 0 ? ceil_div(block, Index{sum->block}) : 1;
    pieces_ = blocks_ * restarts + (sum ? sum->split : 1);
  }

  /// A block: its sum and that of magnitudes, as doubles add them, its largest binade, its scales.
  void add(double sum, double magnitude, double binade, double sx, double sw) {
    // magnitude itself was rounded.
    const double a = up(magnitude * up(1 + gamma_double_));
    finite_ = finite_ && std::isfinite(magnitude) && std::isfinite(sx) && std::isfinite(sw);
    const double s = std::fabs(sx * sw);
    total_ += sum * (sx * sw);
    reach_ = up(reach_ + up(a * s));
    if (is_exact()) return;
    double error = error_(a, binade);
    if (scaled_) {
      const double p = up(a + error);
      overflows_ = overflows_ || up(p * std::fabs(sx)) > kMost || up(p * std::fabs(sw)) > kMost ||
                   s > kMost || up(p * s) > kMost;
      error = up(up(error * up(s)) + folded(p, s, std::fabs(sx) + std::fabs(sw)));
    }
    stray_ = up(stray_ + error);
  }

  ElementBound result() const {
    double stray = stray_;
    if (scaled_ && !is_exact()) {
      const double added = up(up(reach_ + stray) * gamma_of(pieces_, kU));
      stray = up(stray + up(added + up(static_cast<double>(pieces_) * 0x1p-149)));
    }
    // Beyond f32's range an intermediate sum may overflow: nothing can be promised.
    const bool overflows =
        overflows_ || std::isinf(stray) || (!is_exact() && up(reach_ + stray) > kMost);
    return {finite_ ? total_ : kNaN, overflows ? kInfinity : stray,
            up(reach_ * up(gamma_double_ + static_cast<double>(blocks_ + 4) * 0x1p-52))};
  }

 private:
  /// Roundings of p * sx * sw, however it is folded: three, each with its underflow.
  double folded(double p, double s, double scales) const {
    const double relative = up(up(p * s) * up(3 * kU * (1 + 0x1p-20)));
    return up(relative + up(static_cast<double>(pieces_) * 0x1p-149 * up(up(p + scales) + 2)));
  }

  bool is_exact() const { return sum_ && sum_->family == SumFamily::exact; }

  static SumError error_of(const std::optional<Accumulation>& sum, Roundings roundings, Index k) {
    if (sum) return SumError::of(*sum, k);
    return roundings == Roundings::independent ? SumError::independent(k) : SumError::any_order(k);
  }

  const std::optional<Accumulation>& sum_;
  bool scaled_;
  SumError error_;
  Index blocks_;
  double gamma_double_;
  Index pieces_ = 1;  ///< sums that are scaled and added on their own, and their chain
  double total_ = 0;
  double reach_ = 0;  ///< of the exact sum, by magnitudes
  double stray_ = 0;
  bool finite_ = true;
  bool overflows_ = false;
};

/// What the products of a bound have in common.
struct ProductClaim {
  JudgedProduct product;
  std::optional<Accumulation> sum;
  Roundings roundings;

  ElementBound of(const JudgedProduct::Output& output) const {
    const Index block = output.block();
    ProductBound worst(sum, product.scaled, Roundings::worst, output.k, block);
    ProductBound likely(sum, product.scaled, roundings, output.k, block);
    const double* x = output.values_a();
    const double* w = output.values_b();
    const double* bx = output.binades_a();
    const double* bw = output.binades_b();
    const bool machine = sum && is_machine(*sum);
    for (Index b = 0; b < output.blocks(); ++b) {
      const Index end = std::min(output.k, (b + 1) * block);
      // Lanes, which do not wait for one another; `doubt` holds for any order.
      double totals[kLanes] = {};
      double magnitudes[kLanes] = {};
      Index i = b * block;
      for (; i + kLanes <= end; i += kLanes) {
        for (Index lane = 0; lane < kLanes; ++lane) {
          const double term = x[i + lane] * w[i + lane];
          totals[lane] += term;
          magnitudes[lane] += std::fabs(term);
        }
      }
      for (; i < end; ++i) {
        totals[0] += x[i] * w[i];
        magnitudes[0] += std::fabs(x[i] * w[i]);
      }
      const double total = std::accumulate(totals, totals + kLanes, 0.0);
      const double magnitude = std::accumulate(magnitudes, magnitudes + kLanes, 0.0);
      double binade = 0;
      for (i = b * block; machine && i < end; ++i) binade = std::max(binade, bx[i] * bw[i]);
      worst.add(total, magnitude, binade, output.scale_a(b), output.scale_b(b));
      if (is_likely()) {
        likely.add(total, magnitude, binade, output.scale_a(b), output.scale_b(b));
      }
    }
    ElementBound bound = worst.result();
    if (is_likely() && bound.promises()) {
      // Terms of one sign are summed with roundings that may all fall on one side.
      const double one_sided = up(gamma_of(output.k, kU) * (std::fabs(bound.exact) + bound.doubt));
      bound.stray = std::min(bound.stray, std::max(likely.result().stray, one_sided));
    }
    return bound;
  }

  /// True where the largest operands of all, everywhere, would still be promised something.
  bool promises_all() const {
    const auto largest = [](const std::vector<double>& values) {
      double most = 0;
      for (const double v : values) {
        if (!(std::fabs(v) <= most)) most = std::fabs(v);
        if (!std::isfinite(v)) return kNaN;
      }
      return most;
    };
    const auto scale = [](const ProductFactor& factor) {
      double most = factor.scales == nullptr ? 1 : 0;
      for (Index i = 0; factor.scales != nullptr && i < factor.scales->elements(); ++i) {
        const auto v = std::fabs(static_cast<double>(factor.scales->as<float>()[i]));
        if (!(v <= most)) most = v;
        if (!std::isfinite(v)) return kNaN;
      }
      return most;
    };
    if (!product.gradient && (product.ends.empty() || product.ends.back() != product.a.lines)) {
      return false;
    }
    Index k = product.a.k;
    if (product.gradient) {
      k = 0;
      for (std::size_t g = 0; g < product.ends.size(); ++g) {
        k = std::max(k, product.ends[g] - (g == 0 ? 0 : product.ends[g - 1]));
      }
    }
    const Index block = std::max<Index>(product.shared == 0 ? k : product.shared, 1);
    ProductBound worst(sum, product.scaled, Roundings::worst, k, block);
    const double binade = largest(product.a.binade) * largest(product.b.binade);
    const double most = largest(product.a.value) * largest(product.b.value);
    for (Index b = 0; b < ceil_div(k, block); ++b) {
      worst.add(0, most * static_cast<double>(std::min(k, block)) * (1 + 0x1p-20), binade,
                scale(product.a), scale(product.b));
    }
    const ElementBound bound = worst.result();
    return bound.promises() && !std::isnan(bound.exact);
  }

 private:
  bool is_likely() const { return !sum && roundings == Roundings::independent; }
};

/// What stray is of M at least, in any order of f32, of every output that sums something: gamma of
/// a block, and where scales are numbers the roundings of folds and of adding up the blocks
/// (ProductBound, with n u for gamma_n).
double least_relative(const JudgedProduct& product) {
  double least = kInfinity;
  const auto take = [&](Index k) {
    if (k == 0) return;
    const Index block = product.shared == 0 ? k : std::min(k, product.shared);
    const Index added = product.scaled ? 3 + ceil_div(k, block) + 1 : 0;
    least = std::min(least, static_cast<double>(block + added) * kU);
  };
  if (!product.gradient) take(product.a.k);
  for (std::size_t g = 0; product.gradient && g < product.ends.size(); ++g) {
    take(product.ends[g] - (g == 0 ? 0 : product.ends[g - 1]));
  }
  return std::isinf(least) ? 0 : least;
}

ErrorBound bound_of(JudgedProduct&& given, const std::optional<Accumulation>& sum,
                    Roundings roundings) {
  const bool many = has_many_magnitudes(given.a.value) && has_many_magnitudes(given.b.value);
  const auto claim = std::make_shared<const ProductClaim>(
      ProductClaim{std::move(given), sum, many ? roundings : Roundings::worst});
  ErrorBound bound;
  bound.count = claim->product.outputs();
  bound.promises_all = claim->promises_all();
  bound.one = [claim](Index i) {
    const auto output = claim->product.at(i);
    return output ? claim->of(*output) : ElementBound{0, kInfinity, 0};
  };
  bound.terms = [claim](Index i, ExactTerms& terms) {
    if (const auto output = claim->product.at(i)) add_terms(*output, terms);
  };
  return bound;
}

/// Scales of e8m0 on one side, which are powers of two inside the terms, and numbers on the other,
/// which a kernel may multiply with them first.
bool mixed(const ProductFactor& a, const ProductFactor& b) {
  return (a.blocks_of_32 && b.scales != nullptr) || (b.blocks_of_32 && a.scales != nullptr);
}

/// k that share the f32 scales of both sides; 0: all.
Index shared_by(const ProductFactor& a, const ProductFactor& b, bool gradient) {
  if (gradient) {
    return std::gcd(a.scales == nullptr ? 0 : a.block_k, b.scales == nullptr ? 0 : b.block_k);
  }
  const bool scaled = a.scales != nullptr || b.scales != nullptr;
  return scaled ? std::min(a.block_k, b.block_k) : 0;
}

std::optional<ErrorBound> product_bound(std::string_view op, const NamedTensors& inputs,
                                        const Parameters& set, std::string_view name,
                                        Roundings roundings, Backend* backend) {
  const bool gradient = op == "grouped_matmul_wgrad";
  std::optional<ProductFactor> a =
      gradient ? factor_of_columns(inputs, "dy", set) : factor_of_rows(inputs, "x", set);
  std::optional<ProductFactor> b =
      gradient ? factor_of_columns(inputs, "x", set) : factor_of_rows(inputs, "w", set);
  if (!a || !b || mixed(*a, *b)) return std::nullopt;
  const bool scaled = a->scales != nullptr || b->scales != nullptr;
  const Index shared = shared_by(*a, *b, gradient);
  const bool along = a->blocks > 1 || b->blocks > 1;
  const auto sum = claimed(op, name, set, *a, *b, gradient ? shared : along ? 128 : 0);
  if (sum && is_machine(*sum) && sum->scales == ScalePlace::operand) {
    for (ProductFactor* factor : {&*a, &*b}) {
      if (factor->blocks_of_32) dequantise_to_bf16(*factor);
    }
  }
  JudgedProduct product{std::move(*a), std::move(*b), group_ends_of(inputs.at("group_ends")),
                        gradient,      scaled,        shared};
  const double least = least_relative(product);
  ErrorBound bound = bound_of(std::move(product), sum, roundings);
  if (backend != nullptr && bound.promises_all && !sum && roundings == Roundings::worst) {
    bound.sure = beside_exact(*backend, op, gradient ? "dw" : "y", inputs, set, least);
  }
  return bound;
}

}  // namespace

std::optional<ErrorBound> certified_bound(std::string_view op, std::string_view output,
                                          const NamedTensors& inputs, const Parameters& parameters,
                                          std::string_view sum) {
  auto bound = bound_when_asked(op, output, inputs, parameters, sum);
  if (bound) bound = computed(std::move(*bound));
  return bound;
}

std::optional<ErrorBound> bound_when_asked(std::string_view op, std::string_view output,
                                           const NamedTensors& inputs, const Parameters& parameters,
                                           std::string_view sum, Roundings roundings,
                                           Backend* backend) {
  const bool forward = op == "grouped_matmul" && output == "y";
  // With main_grad dw is not the product alone.
  const bool gradient =
      op == "grouped_matmul_wgrad" && output == "dw" && !inputs.contains("main_grad");
  const bool slots = sums_slots(op, output);
  const bool gate = op == "swiglu" && output == "y";
  if (!forward && !gradient && !slots && !gate) return std::nullopt;
  checked_outputs(op, inputs, parameters);
  if (gate) {
    if (gate_of(parameters) != GateRule{}) return std::nullopt;
    return swiglu_bound(inputs);
  }
  // What is added to a gradient is another sum.
  if (gradient && inputs.contains("main_grad")) return std::nullopt;
  // Rounded to bf16 at every step, a sum of slots is another sum.
  if (slots && parameters.text("steps", "f32") == "bf16") return std::nullopt;
  if (slots) return slots_bound(op, output, inputs, parameters);
  return product_bound(op, inputs, parameters, sum, roundings, backend);
}

}  // namespace mxo

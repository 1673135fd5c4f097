// Walks of the lines of a product; the equations of one line, and its scales from their solution.
#include "golden/explain/find/product/sides.h"

#include <limits>

#include "golden/explain/find/finding.h"

namespace mxo {
namespace {

constexpr Index kSpare = 48;  ///< equations beyond the unknowns
constexpr Index kMostBlocks = 512;

/// The other lines with which a line made elements that are still to be explained: of those that
/// are live, from the first to the last element that is left.
std::vector<Index> partners(const ProductSides& s, const Output& y, const LineAt& at,
                            std::vector<Index> live) {
  const std::vector<Index> left = s.differing(y, at.group, at.line);
  std::erase_if(live, [&](Index j) {
    return j < left.front() || j > left.back() ||
           s.mark(y, at.group, at.line, j) == Mark::explained;
  });
  return live;
}

Effective measure_line(const ProductSides& s, const Output& y, const LineAt& at,
                       const std::vector<Index>& live, DecodedLines& others) {
  Effective e{at.group, at.line, {}, {}};
  const Index blocks = ceil_div(s.p.depth(at.group), s.p.block);
  if (blocks > kMostBlocks) return e;
  const auto n = static_cast<std::size_t>(blocks);
  const auto block = static_cast<std::size_t>(s.p.block);
  const ElementReader read(y.expected->dtype());
  const ProductSides::Line values = s.line(at.group, at.line);
  std::vector<std::vector<double>> sums;  // over each block, of each equation
  std::vector<double> got;
  double square = 0.0;
  for (const Index other : evenly_spread(partners(s, y, at, live), 2 * blocks + kSpare)) {
    const double value = read(y.actual_bits(s.element(y, at.group, at.line, other))).value;
    const ProductSides::Line& v = others(at.group, other);
    std::vector<double> sum(n);
    for (std::size_t d = 0; d < values.size(); ++d) sum[d / block] += values[d] * v[d];
    const auto finite = [](double x) { return std::isfinite(x); };
    if (!finite(value) || !std::all_of(sum.begin(), sum.end(), finite)) continue;
    sums.push_back(std::move(sum));
    got.push_back(value);
    square += value * value;
  }
  const std::size_t m = got.size();
  if (n == 0 || m < n + 4 || square == 0.0) return e;
  const double rms = std::sqrt(square / static_cast<double>(m));
  LeastSquares equations(n);
  for (std::size_t i = 0; i < m; ++i)
    equations.add(sums[i], got[i], 1.0 / (std::abs(got[i]) + rms * 0.1));
  const std::optional<LeastSquaresFit> fit = equations.solved();
  if (!fit) return e;
  e.ratio = fit->x;
  double left = 0.0;
  for (std::size_t i = 0; i < m; ++i) {
    double r = got[i];
    for (std::size_t a = 0; a < n; ++a) r -= sums[i][a] * e.ratio[a];
    left += r * r;
  }
  e.misfit = std::sqrt(left / square);
  const double off = std::sqrt(fit->left / static_cast<double>(m - n));
  for (const double sigma : fit->sigma) e.sigma.push_back(std::isinf(sigma) ? sigma : sigma * off);
  return e;
}

}  // namespace

ProductSides::Line ProductSides::codes_of(Index g, Index i) const {
  Product plain = p;
  plain.a.scales = plain.b.scales = nullptr;
  return ProductSides{plain, side}.line(g, i);
}

std::vector<Index> ProductSides::differing(const Output& y, Index g, Index i, Index most) const {
  std::vector<Index> found;
  const ProductSides with = other();
  for (Index j = with.first(g); j < with.last(g); ++j) {
    if (static_cast<Index>(found.size()) == most) break;
    if (mark(y, g, i, j) == Mark::differs) found.push_back(j);
  }
  return found;
}

std::vector<Index> ProductSides::failing(const Output& y, Index g) const {
  std::vector<Index> found;
  for (Index i = first(g); i < last(g); ++i) {
    if (!differing(y, g, i, 1).empty()) found.push_back(i);
  }
  return found;
}

std::vector<LineAt> ProductSides::failing(const Output& y) const {
  std::vector<LineAt> found;
  for (Index g = 0; g < p.groups(); ++g) {
    for (const Index i : failing(y, g)) found.push_back({g, i});
  }
  return found;
}

Index group_of_row(const Product& p, Index row) {
  const auto after = std::upper_bound(p.ends.begin(), p.ends.end(), row);
  return std::min<Index>(after - p.ends.begin(), p.groups() - 1);
}

std::vector<Index> bounds_of(const Product& p) {
  std::vector<Index> bounds{0};
  bounds.insert(bounds.end(), p.ends.begin(), p.ends.end());
  return bounds;
}

Reading read_axis(const std::string& operand, const Tensor& given, int axis,
                  std::function<Index(Index)> source) {
  Index inner = 1;
  for (int a = axis + 1; a < given.rank(); ++a) inner *= given.extent(a);
  if (inner > 1 || axis + 1 == given.rank()) {
    return read_lines(operand, axis, std::move(source));
  }
  // Lines of one element, one after the other, are none of the last axis.
  const Index lines = given.extent(axis);
  return read_elements(operand, [source = std::move(source), lines](Index i) {
    const Index from = source(i % lines);
    return from < 0 || from >= lines ? Index{-1} : i - i % lines + from;
  });
}

bool Effective::known(Index block) const {
  return block < blocks() && nth(sigma, block) < std::max(0.08 * std::abs(nth(ratio, block)), 0.02);
}

std::vector<Effective> measure(const Product& product, const Output& output, Side side,
                               Index most) {
  const ProductSides s{product, side};
  const std::vector<LineAt> failing = s.failing(output);
  const auto n = static_cast<Index>(failing.size());
  const Index count = std::min(n, most);
  std::vector<Effective> found;
  DecodedLines others(s.other());
  Index group = -1;
  std::vector<Index> live;
  for (Index i = 0; i < count; ++i) {
    const LineAt& at = nth(failing, count > 1 ? i * (n - 1) / (count - 1) : 0);
    if (at.group != group) {
      others.forget();
      live = s.other().failing(output, at.group);
    }
    group = at.group;
    Effective e = measure_line(s, output, at, live, others);
    if (!e.ratio.empty()) found.push_back(std::move(e));
  }
  return found;
}

double Observation::value(const Effective& e, Index block) const {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  const Index i = at(e, block);
  if (i < 0 || !e.known(block)) return kUnknown;
  const double s = scale_value(*factor().scales, i) * nth(e.ratio, block);
  if (size_of(factor().scales->dtype()) != 1) return s;
  return s > 0.0 ? std::exp2(std::round(std::log2(s))) : kUnknown;
}

std::optional<Observation::Range> Observation::range(const Effective& e, Index block) const {
  const double measured = value(e, block);
  if (std::isnan(measured)) return std::nullopt;
  if (size_of(factor().scales->dtype()) == 1) return Range{measured, measured};
  const double error = nth(e.sigma, block) / std::abs(nth(e.ratio, block));
  const double within = std::abs(measured) * (5.0 * error + 1e-4);
  return Range{measured - within, measured + within};
}

}  // namespace mxo

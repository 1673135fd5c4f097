// The equations of one line.
#include "golden/explain/find/product/measured.h"

#include <algorithm>
#include <cmath>

#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kSpare = 48;  ///< equations beyond the unknowns
constexpr Index kMostBlocks = 512;

/// The other lines with which a line made elements that are still to be explained: of those that
/// are live, from the first to the last element that is left.
std::vector<Index> partners(const Sides& s, const Output& y, Index g, Index line,
                            const std::vector<Index>& live) {
  const std::vector<Index> left = s.differing(y, g, line);
  std::vector<Index> found;
  for (const Index j : live) {
    if (j < left.front() || j > left.back()) continue;
    if (s.mark(y, g, line, j) != Mark::settled) found.push_back(j);
  }
  return found;
}

Effective measure_line(const Sides& s, const Output& y, Index g, Index line,
                       const std::vector<Index>& live, DecodedLines& others) {
  Effective e;
  e.group = g;
  e.line = line;
  const Index depth = s.p.depth(g);
  const Index blocks = ceil_div(depth, s.p.block);
  if (blocks > kMostBlocks) return e;
  const auto n = static_cast<std::size_t>(blocks);
  const ElementReader read(y.expected->dtype());
  const Sides::Line values = s.line(g, line);
  std::vector<double> sums;  // over each block, of each equation
  std::vector<double> came;
  double square = 0.0;
  for (const Index other : evenly_spread(partners(s, y, g, line, live), 2 * blocks + kSpare)) {
    const Element element = read(y.came(s.element(y, g, line, other)));
    if (element.nan || element.infinite) continue;
    const Sides::Line& v = others(g, other);
    const std::size_t begin = sums.size();
    sums.resize(begin + n);
    for (std::size_t d = 0; d < values.size(); ++d) {
      sums[begin + d / static_cast<std::size_t>(s.p.block)] += values[d] * v[d];
    }
    if (!std::all_of(sums.begin() + static_cast<std::ptrdiff_t>(begin), sums.end(),
                     [](double sum) { return std::isfinite(sum); })) {
      sums.resize(begin);
      continue;
    }
    came.push_back(element.value);
    square += element.value * element.value;
  }
  const std::size_t m = came.size();
  if (n == 0 || m < n + 4 || square == 0.0) return e;
  const double rms = std::sqrt(square / static_cast<double>(m));
  LeastSquares equations(n);
  for (std::size_t i = 0; i < m; ++i) {
    equations.add({&sums[i * n], n}, came[i], 1.0 / (std::abs(came[i]) + rms * 0.1));
  }
  const std::optional<LeastSquaresFit> fit = equations.solved();
  if (!fit) return e;
  e.ratio = fit->x;
  double left = 0.0;
  for (std::size_t i = 0; i < m; ++i) {
    double r = came[i];
    for (std::size_t a = 0; a < n; ++a) r -= sums[i * n + a] * e.ratio[a];
    left += r * r;
  }
  e.misfit = std::sqrt(left / square);
  const double off = std::sqrt(fit->left / static_cast<double>(m - n));
  for (const double sigma : fit->sigma) {
    e.sigma.push_back(std::isinf(sigma) ? sigma : sigma * off);
  }
  return e;
}

}  // namespace

bool Effective::known(Index block) const {
  const auto b = static_cast<std::size_t>(block);
  return b < ratio.size() && sigma[b] < std::max(0.08 * std::abs(ratio[b]), 0.02);
}

std::vector<Effective> measure(const Product& product, const Output& output, Side side,
                               Index most) {
  const Sides s{product, side};
  std::vector<std::pair<Index, Index>> failing;  // group and line
  for (Index g = 0; g < product.groups(); ++g) {
    for (const Index line : s.failing(output, g)) failing.emplace_back(g, line);
  }
  std::vector<Effective> found;
  DecodedLines others(s.other());
  const auto n = static_cast<Index>(failing.size());
  const Index count = std::min(n, most);
  Index group = -1;
  std::vector<Index> live;
  for (Index i = 0; i < count; ++i) {
    const auto& [g, line] =
        failing[static_cast<std::size_t>(count > 1 ? i * (n - 1) / (count - 1) : 0)];
    if (g != group) {
      others.forget();
      live = s.other().failing(output, g);
    }
    group = g;
    Effective e = measure_line(s, output, g, line, live, others);
    if (!e.ratio.empty()) found.push_back(std::move(e));
  }
  return found;
}

}  // namespace mxo

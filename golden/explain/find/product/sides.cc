// Walks of the lines of a product; the equations of one line, and its scales from their solution.
#include "golden/explain/find/product/sides.h"

#include <limits>

#include "golden/explain/find/finding.h"
#include "golden/explain/words/places.h"

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
  if (blocks == 0 || blocks > kMostBlocks) return e;
  const std::vector<Index> with = evenly_spread(partners(s, y, at, live), 2 * blocks + kSpare);
  const SampledLine line = sampled(s, y, at, with, others);
  LeastSquares equations(static_cast<std::size_t>(blocks));
  for (const SampledLine::With& o : line.outputs)
    equations.add(run_sums(line.values, *o.other, s.p.block), o.got, o.weight);
  const Index spare = std::ssize(line.outputs) - blocks;
  const std::optional<LeastSquaresFit> fit = equations.solved();
  if (spare < 4 || !fit) return e;
  e.ratio = fit->x;
  e.misfit = std::sqrt(fit->left / static_cast<double>(spare));
  for (const double sigma : fit->sigma)
    e.sigma.push_back(std::isinf(sigma) ? sigma : sigma * e.misfit);
  return e;
}

}  // namespace

ProductSides::Line ProductSides::codes_of(Index g, Index i) const {
  Product plain = p;
  plain.a.scales = plain.b.scales = nullptr;
  return ProductSides{plain, side}.line(g, i);
}

ProductSides::Line ProductSides::scales_of(Index g, Index i) const {
  Line scales(static_cast<std::size_t>(p.depth(g)), 1.0);
  const Index run = p.depth_of_scale(factor());
  for (Index d = 0; d < std::ssize(scales); d += run) {
    const Index at = scale(g, i, d);
    if (at < 0) continue;
    std::fill_n(scales.begin() + d, std::min(run, std::ssize(scales) - d),
                scale_value(*factor().scales, at));
  }
  return scales;
}

std::vector<Index> ProductSides::differing(const Output& y, Index g, Index i) const {
  std::vector<Index> found;
  const ProductSides with = other();
  for (Index j = with.first(g); j < with.last(g); ++j)
    if (mark(y, g, i, j) == Mark::differs) found.push_back(j);
  return found;
}

std::vector<Index> ProductSides::failing(const Output& y, Index g) const {
  std::vector<std::uint8_t> fails(static_cast<std::size_t>(last(g)));
  for (Index i = p.first_line(g); i < p.last_line(g); ++i) {
    const Index begin = p.output_row(g, i) * y.columns;
    const Index end = begin + y.columns;
    for (Index at = y.next_difference(begin, end); at < end; at = y.next_difference(at + 1, end)) {
      nth(fails, side == Side::a ? i : at - begin) = 1;
      if (side == Side::a) break;
    }
  }
  return marked(fails);
}

std::vector<LineAt> ProductSides::failing(const Output& y) const {
  std::vector<LineAt> found;
  for (Index g = 0; g < p.groups(); ++g)
    for (const Index i : failing(y, g)) found.push_back({g, i});
  return found;
}

std::vector<double> run_sums(const ProductSides::Line& a, const ProductSides::Line& b, Index run) {
  std::vector<double> sums(static_cast<std::size_t>(ceil_div(std::ssize(a), run)));
  if (run == 1) {
    for (std::size_t d = 0; d < sums.size(); ++d) sums[d] += a[d] * b[d];
    return sums;
  }
  const Index whole = std::ssize(a) / run;
  add_up(std::span(sums).first(static_cast<std::size_t>(whole)), run,
         [&](Index n, Index d) { return nth(a, n * run + d) * nth(b, n * run + d); });
  for (Index d = whole * run; d < std::ssize(a); ++d) sums.back() += nth(a, d) * nth(b, d);
  return sums;
}

SampledLine sampled(const ProductSides& s, const Output& y, const LineAt& at,
                    const std::vector<Index>& others, DecodedLines& decoded) {
  SampledLine line{at, s.line(at.group, at.line)};
  std::vector<const ProductSides::Line*> lines;
  for (const Index j : others) lines.push_back(&decoded(at.group, j));
  std::vector<double> sums(lines.size());
  add_up(sums, std::ssize(line.values),
         [&](Index n, Index d) { return nth(*nth(lines, n), d) * nth(line.values, d); });
  std::vector<Index> elements;
  for (std::size_t j = 0; j < lines.size(); ++j) {
    const Index element = s.element(y, at.group, at.line, others[j]);
    const double got = y.came(element).value;
    if (!std::isfinite(got - sums[j])) continue;
    line.outputs.push_back({lines[j], got, got - sums[j], 1.0});
    elements.push_back(element);
  }
  const ActualNumbers got = actual_numbers(y, elements);
  if (!got.tell()) line.outputs.clear();
  for (std::size_t i = 0; i < line.outputs.size(); ++i) line.outputs[i].weight = got.weight(i);
  return line;
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
  const double scale = scale_value(*factor().scales, i) * nth(e.ratio, block);
  if (size_of(factor().scales->dtype()) != 1) return scale;
  return scale > 0.0 ? std::exp2(std::round(std::log2(scale))) : kUnknown;
}

std::optional<Observation::Range> Observation::range(const Effective& e, Index block) const {
  const double measured = value(e, block);
  if (std::isnan(measured)) return std::nullopt;
  if (size_of(factor().scales->dtype()) == 1) return Range{measured, measured};
  const double error = nth(e.sigma, block) / std::abs(nth(e.ratio, block));
  const double within = std::abs(measured) * (5.0 * error + 1e-4);
  return Range{measured - within, measured + within};
}

bool Observation::may(const Effective& e, Index block, Index from) const {
  if (std::max(block, from) >= e.blocks()) return true;
  const std::optional<Range> taken = range(e, block);
  return !taken || taken->holds(scale_value(*factor().scales, at(e, from)));
}

Observation::Range Observation::range(const Effective& e) const {
  double weights = 0.0;
  double sum = 0.0;
  for (std::size_t b = 0; b < e.ratio.size(); ++b) {
    const double w = 1.0 / (e.sigma[b] * e.sigma[b] + 1e-16);
    weights += w;
    sum += w * e.ratio[b];
  }
  const double measured = scale_value(*factor().scales, at(e, 0)) * sum / weights;
  const double error = std::sqrt(weights) / std::abs(sum);
  const double within = std::abs(measured) * (5.0 * error + 2e-5);
  return {measured - within, measured + within};
}

}  // namespace mxo

// Normal equations of one line.
#include "golden/explain/recover/effective.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kSpare = 48;  ///< equations beyond the unknowns
constexpr Index kMostBlocks = 512;

/// At most `most` of a list, spread over it.
std::vector<Index> thinned(const std::vector<Index>& all, Index most) {
  const auto n = static_cast<Index>(all.size());
  if (n <= most) return all;
  std::vector<Index> kept;
  for (Index i = 0; i < most; ++i) kept.push_back(all[static_cast<std::size_t>(i * n / most)]);
  return kept;
}

/// The mark of what line `line` of `side` and a line of the other side made.
Mark mark_at(const Product& p, const Output& out, Side side, Index g, Index line, Index other) {
  return side == Side::a ? out.mark(p.output_row(g, line), other)
                         : out.mark(p.output_row(g, other), line);
}

/// Lines [first, last) of the other side.
struct Others {
  Index first;
  Index last;
};
Others others_of(const Product& p, Side side, Index g) {
  return side == Side::a ? Others{0, p.n} : Others{p.first_line(g), p.last_line(g)};
}

/// The lines of the other side with which any line of group g made an element that is left.
std::vector<std::uint8_t> live_others(const Product& p, const Output& out, Side side, Index g) {
  const Others with = others_of(p, side, g);
  const Others own = others_of(p, side == Side::a ? Side::b : Side::a, g);
  std::vector<std::uint8_t> live(static_cast<std::size_t>(with.last - with.first));
  for (Index line = own.first; line < own.last; ++line) {
    for (Index j = with.first; j < with.last; ++j) {
      live[static_cast<std::size_t>(j - with.first)] |=
          mark_at(p, out, side, g, line, j) == Mark::differs;
    }
  }
  return live;
}

/// The other lines with which line `line` made elements that are still to be explained: of those
/// that are live, from the first to the last element that is left.
std::vector<Index> partners(const Product& p, const Output& out, Side side, Index g, Index line,
                            const std::vector<std::uint8_t>& live) {
  const Others with = others_of(p, side, g);
  const auto at = [&](Index other) { return mark_at(p, out, side, g, line, other); };
  Index from = with.last;
  Index to = with.first;
  for (Index j = with.first; j < with.last; ++j) {
    if (at(j) != Mark::differs) continue;
    from = std::min(from, j);
    to = j + 1;
  }
  std::vector<Index> found;
  for (Index j = from; j < to; ++j) {
    if (at(j) != Mark::settled && live[static_cast<std::size_t>(j - with.first)] != 0) {
      found.push_back(j);
    }
  }
  return found;
}

/// Lines decoded once.
class Lines {
 public:
  Lines(const Product& p, Side side) : p_(p), side_(side) {}
  const std::vector<double>& operator()(Index g, Index line) {
    const auto [at, fresh] = kept_.try_emplace({g, line});
    if (fresh) at->second = side_ == Side::a ? p_.line_a(g, line) : p_.line_b(g, line);
    return at->second;
  }
  void forget() { kept_.clear(); }

 private:
  const Product& p_;
  Side side_;
  std::map<std::pair<Index, Index>, std::vector<double>> kept_;
};

Effective measure_line(const Product& p, const Output& out, Side side, Index g, Index line,
                       const std::vector<std::uint8_t>& live, Lines& others) {
  Effective e;
  e.group = g;
  e.line = line;
  const Index depth = p.depth(g);
  const Index blocks = ceil_div(depth, p.block);
  if (blocks > kMostBlocks) return e;
  const std::vector<Index> with =
      thinned(partners(p, out, side, g, line, live), 2 * blocks + kSpare);
  const ElementReader read(out.expected->dtype());
  const std::vector<double> values = side == Side::a ? p.line_a(g, line) : p.line_b(g, line);
  const auto n = static_cast<std::size_t>(blocks);
  std::vector<double> rows;
  std::vector<double> y;
  double square = 0.0;
  for (const Index other : with) {
    const Index at = side == Side::a ? p.output_row(g, line) * out.columns + other
                                     : p.output_row(g, other) * out.columns + line;
    const Element element = read(out.came(at));
    if (element.nan || element.infinite) continue;
    const std::vector<double>& v = others(g, other);
    bool finite = true;
    const std::size_t begin = rows.size();
    for (Index b = 0; b < blocks; ++b) {
      double sum = 0.0;
      const Index to = std::min(depth, (b + 1) * p.block);
      for (Index d = b * p.block; d < to; ++d) {
        sum += values[static_cast<std::size_t>(d)] * v[static_cast<std::size_t>(d)];
      }
      finite = finite && std::isfinite(sum);
      rows.push_back(sum);
    }
    if (!finite) {
      rows.resize(begin);
      continue;
    }
    y.push_back(element.value);
    square += element.value * element.value;
  }
  const std::size_t m = y.size();
  if (m < n + 4 || square == 0.0) return e;
  const double rms = std::sqrt(square / static_cast<double>(m));
  std::vector<double> matrix(n * n);
  std::vector<double> right(n);
  std::vector<double> weight(m);
  for (std::size_t i = 0; i < m; ++i) {
    weight[i] = 1.0 / (std::abs(y[i]) + rms * 0.1);
    for (std::size_t a = 0; a < n; ++a) {
      const double left = rows[i * n + a] * weight[i] * weight[i];
      right[a] += left * y[i];
      for (std::size_t b = 0; b <= a; ++b) matrix[a * n + b] += left * rows[i * n + b];
    }
  }
  // Blocks whose products are all zero say nothing: they keep the factor 1 and no certainty.
  std::vector<double> scale(n, 1.0);
  for (std::size_t a = 0; a < n; ++a) {
    const double d = matrix[a * n + a];
    scale[a] = d > 0.0 ? 1.0 / std::sqrt(d) : 1.0;
  }
  for (std::size_t a = 0; a < n; ++a) {
    right[a] *= scale[a];
    for (std::size_t b = 0; b <= a; ++b) matrix[a * n + b] *= scale[a] * scale[b];
    matrix[a * n + a] = matrix[a * n + a] > 0.0 ? matrix[a * n + a] + 1e-12 : 1.0;
  }
  std::vector<double> inverse;
  if (!solve(matrix, right, inverse)) return e;
  e.ratio.resize(n);
  e.sigma.resize(n);
  for (std::size_t a = 0; a < n; ++a) e.ratio[a] = right[a] * scale[a];
  double left = 0.0;
  double weighted = 0.0;
  for (std::size_t i = 0; i < m; ++i) {
    double r = y[i];
    for (std::size_t a = 0; a < n; ++a) r -= rows[i * n + a] * e.ratio[a];
    left += r * r;
    weighted += r * r * weight[i] * weight[i];
  }
  e.misfit = std::sqrt(left / square);
  const double spread = std::sqrt(weighted / static_cast<double>(m - n));
  for (std::size_t a = 0; a < n; ++a) {
    e.sigma[a] =
        scale[a] == 1.0 && e.ratio[a] == 0.0 ? 1e300 : std::sqrt(inverse[a]) * scale[a] * spread;
  }
  return e;
}

}  // namespace

bool Effective::known(Index block) const {
  const auto b = static_cast<std::size_t>(block);
  return b < ratio.size() && sigma[b] < 1e200 &&
         sigma[b] < std::max(0.08 * std::abs(ratio[b]), 0.02);
}

bool solve(std::vector<double>& matrix, std::vector<double>& x,
           std::vector<double>& inverse_diagonal) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = matrix[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= matrix[i * n + k] * matrix[j * n + k];
      if (i == j) {
        if (!(sum > 0.0)) return false;
        matrix[i * n + i] = std::sqrt(sum);
      } else {
        matrix[i * n + j] = sum / matrix[j * n + j];
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) x[i] -= matrix[i * n + k] * x[k];
    x[i] /= matrix[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) x[i] -= matrix[k * n + i] * x[k];
    x[i] /= matrix[i * n + i];
  }
  // Columns of the inverse of the factor; their squares add up to the diagonal wanted.
  inverse_diagonal.assign(n, 0.0);
  std::vector<double> column(n);
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = j; i < n; ++i) {
      double sum = i == j ? 1.0 : 0.0;
      for (std::size_t k = j; k < i; ++k) sum -= matrix[i * n + k] * column[k];
      column[i] = sum / matrix[i * n + i];
      inverse_diagonal[j] += column[i] * column[i];
    }
  }
  return true;
}

std::vector<Effective> measure(const Product& product, const Output& output, Side side,
                               Index most) {
  struct At {
    Index group;
    Index line;
  };
  std::vector<At> failing;
  for (Index g = 0; g < product.groups(); ++g) {
    const Index first = side == Side::a ? product.first_line(g) : 0;
    const Index last = side == Side::a ? product.last_line(g) : product.n;
    const Index from = side == Side::a ? 0 : product.first_line(g);
    const Index to = side == Side::a ? product.n : product.last_line(g);
    for (Index line = first; line < last; ++line) {
      for (Index other = from; other < to; ++other) {
        const Mark mark = side == Side::a ? output.mark(product.output_row(g, line), other)
                                          : output.mark(product.output_row(g, other), line);
        if (mark != Mark::differs) continue;
        failing.push_back({g, line});
        break;
      }
    }
  }
  std::vector<Effective> found;
  Lines others(product, side == Side::a ? Side::b : Side::a);
  const auto n = static_cast<Index>(failing.size());
  const Index count = std::min(n, most);
  Index group = -1;
  std::vector<std::uint8_t> live;
  for (Index i = 0; i < count; ++i) {
    const At& at = failing[static_cast<std::size_t>(count > 1 ? i * (n - 1) / (count - 1) : 0)];
    if (at.group != group) {
      others.forget();
      live = live_others(product, output, side, at.group);
    }
    group = at.group;
    Effective e = measure_line(product, output, side, at.group, at.line, live, others);
    if (!e.ratio.empty()) found.push_back(std::move(e));
  }
  return found;
}

}  // namespace mxo

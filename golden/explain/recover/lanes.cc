// Codes of one side that lie in another order along K, the same in every run of so many: measured.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "golden/explain/name/places.h"
#include "golden/explain/find/product/finders.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr std::size_t kLanesOfARun = 16;
constexpr Index kLaneUnits[] = {1, 2, 4, 8};  ///< elements that stay together
constexpr std::size_t kLaneLines = 32;        ///< of each side, that are looked at
constexpr std::size_t kLaneEquations = 384;   ///< at least, for 256 unknowns
constexpr double kTaken = 0.8;                ///< of a lane, from here on it was taken
constexpr double kNotTaken = 0.2;

/// An element of the output that differs, by its place among the lines that are looked at.
struct LaneSum {
  std::size_t a;
  std::size_t b;
  double came;
  double gain;  ///< 1 over how finely it is stored
};

/// Lines of one group, and elements of the output between them.
struct Crossing {
  Index group = 0;
  std::vector<Index> a;
  std::vector<Index> b;
  std::vector<LaneSum> seen;
};

/// Up to kLaneLines of `lines`, evenly spread.
std::vector<Index> some_of(const std::vector<Index>& lines) {
  std::vector<Index> kept;
  const std::size_t most = std::min(lines.size(), kLaneLines);
  for (std::size_t i = 0; i < most; ++i) kept.push_back(lines[i * lines.size() / most]);
  return kept;
}

std::optional<Crossing> crossing_of(const Product& p, const Output& y) {
  Crossing best;
  std::size_t most = 0;
  for (Index g = 0; g < p.groups(); ++g) {
    std::vector<Index> rows;
    std::vector<std::uint8_t> columns(static_cast<std::size_t>(p.n));
    for (Index i = p.first_line(g); i < p.last_line(g); ++i) {
      bool any = false;
      for (Index j = 0; j < p.n; ++j) {
        if (y.mark(i, j) != Mark::differs) continue;
        any = true;
        columns[static_cast<std::size_t>(j)] = 1;
      }
      if (any) rows.push_back(i);
    }
    const std::vector<Index> b = marked(columns);
    if (rows.size() * b.size() <= most) continue;
    most = rows.size() * b.size();
    best = {g, some_of(rows), some_of(b), {}};
  }
  const ElementReader read(y.expected->dtype());
  double square = 0.0;
  for (std::size_t a = 0; a < best.a.size(); ++a) {
    for (std::size_t b = 0; b < best.b.size(); ++b) {
      if (y.mark(best.a[a], best.b[b]) != Mark::differs) continue;
      const Element came = read(y.came(best.a[a] * y.columns + best.b[b]));
      if (came.nan || came.infinite) continue;
      square += came.value * came.value;
      best.seen.push_back({a, b, came.value, 0.0});
    }
  }
  if (best.seen.size() < kLaneEquations || square == 0.0) return std::nullopt;
  const double least = std::sqrt(square / static_cast<double>(best.seen.size())) / 8.0;
  for (LaneSum& s : best.seen) s.gain = 1.0 / std::max(std::abs(s.came), least);
  return best;
}

/// Of one side: codes of its lines, the other side's values, and its own scales at their places.
struct LaneOperands {
  std::vector<std::vector<double>> codes;
  std::vector<std::vector<double>> scales;  ///< empty: none
  std::vector<std::vector<double>> others;
};

LaneOperands operands_of(const Product& p, const Crossing& c, bool is_a) {
  const ProductSide& f = is_a ? p.a : p.b;
  Product plain = p;
  (is_a ? plain.a : plain.b).scales = nullptr;
  LaneOperands made;
  for (const Index line : is_a ? c.a : c.b) {
    made.codes.push_back(is_a ? plain.line_a(c.group, line) : plain.line_b(c.group, line));
    if (f.scales == nullptr) continue;
    std::vector<double> scales;
    for (Index d = 0; d < p.k; ++d) {
      const Index s = is_a ? p.scale_a(c.group, line, d) : p.scale_b(c.group, line, d);
      scales.push_back(scale_value(*f.scales, s));
    }
    made.scales.push_back(std::move(scales));
  }
  for (const Index line : is_a ? c.b : c.a) {
    made.others.push_back(is_a ? p.line_b(c.group, line) : p.line_a(c.group, line));
  }
  return made;
}

/// Which lane each lane took: least squares of what came over the sums of every lane's codes at
/// every lane's place; empty if one took none, or several.
std::vector<std::size_t> lanes_taken(const LaneOperands& o, const Crossing& c, bool is_a, Index k,
                                     Index unit) {
  constexpr std::size_t n = kLanesOfARun;
  std::vector<double> matrix(n * n * n * n);
  std::vector<double> x(n * n);
  const auto run = static_cast<std::size_t>(unit) * n;
  const std::size_t whole = static_cast<std::size_t>(k) / run * run;
  std::vector<double> sums(n * n);
  for (const LaneSum& s : c.seen) {
    const std::size_t own = is_a ? s.a : s.b;
    const std::vector<double>& codes = o.codes[own];
    const std::vector<double>& other = o.others[is_a ? s.b : s.a];
    std::fill(sums.begin(), sums.end(), 0.0);
    double came = s.came;
    for (std::size_t d = 0; d < static_cast<std::size_t>(k); ++d) {
      const double met = other[d] * (o.scales.empty() ? 1.0 : o.scales[own][d]);
      if (d >= whole) {
        came -= codes[d] * met;
        continue;
      }
      const std::size_t first = d / run * run + d % static_cast<std::size_t>(unit);
      double* to = sums.data() + d % run / static_cast<std::size_t>(unit) * n;
      for (std::size_t j = 0; j < n; ++j) {
        to[j] += codes[first + j * static_cast<std::size_t>(unit)] * met;
      }
    }
    const double weight = s.gain * s.gain;
    for (std::size_t u = 0; u < n * n; ++u) {
      const double by = sums[u] * weight;
      for (std::size_t v = 0; v <= u; ++v) matrix[u * n * n + v] += by * sums[v];
      x[u] += by * came;
    }
  }
  for (std::size_t u = 0; u < n * n; ++u) {
    double& own = matrix[u * n * n + u];
    own = own > 0.0 ? own * (1.0 + 1e-9) : 1.0;
  }
  std::vector<double> inverse;
  if (!solve(matrix, x, inverse)) return {};
  std::vector<std::size_t> taken;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double share = x[i * n + j];
      if (share > kTaken) taken.push_back(j);
      if (share <= kTaken && std::abs(share) > kNotTaken) return {};
    }
    if (taken.size() != i + 1) return {};
  }
  return taken;
}

/// The shortest run that says the same.
std::vector<std::size_t> shortest(const std::vector<std::size_t>& taken) {
  for (std::size_t run = 1; run < taken.size(); run *= 2) {
    bool same = true;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      same = same && taken[i] == taken[i % run] + i / run * run && taken[i % run] < run;
    }
    if (same) return {taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(run)};
  }
  return taken;
}

/// Pairs of lanes that stay together become one, of twice the elements, as often as all do.
void join_pairs(std::vector<std::size_t>& lanes, Index& unit) {
  const auto together = [&] {
    for (std::size_t i = 0; i + 1 < lanes.size(); i += 2) {
      if (lanes[i] % 2 != 0 || lanes[i + 1] != lanes[i] + 1) return false;
    }
    return lanes.size() > 2;
  };
  while (together()) {
    for (std::size_t i = 0; i < lanes.size() / 2; ++i) lanes[i] = lanes[2 * i] / 2;
    lanes.resize(lanes.size() / 2);
    unit *= 2;
  }
}

}  // namespace

void add_measured_lanes(const Call& call, const Output& y, std::vector<Hypothesis>& list) {
  const std::optional<Product> product = product_of(call);
  if (!product || product->wgrad || y.name != product->output || y.left == 0) return;
  const Product& p = *product;
  const std::optional<Crossing> crossing = crossing_of(p, y);
  if (!crossing) return;
  for (const bool is_a : {true, false}) {
    const ProductSide& f = is_a ? p.a : p.b;
    const LaneOperands operands = operands_of(p, *crossing, is_a);
    for (Index unit : kLaneUnits) {
      if (p.k < unit * static_cast<Index>(kLanesOfARun)) continue;
      std::vector<std::size_t> lanes = shortest(lanes_taken(operands, *crossing, is_a, p.k, unit));
      if (lanes.size() < 2) continue;  // none, or each its own
      join_pairs(lanes, unit);
      std::string order;
      for (const std::size_t from : lanes) {
        order += (order.empty() ? "" : ", ") + std::to_string(from);
      }
      const Index run = unit * static_cast<Index>(lanes.size());
      const std::string what =
          f.scales == nullptr ? f.name + " is" : "the codes of " + f.name + " are";
      list.push_back({f.codes_name + "=lanes",
                      what + " taken in runs of " + std::to_string(run) + " along K in the order " +
                          order + (unit == 1 ? "" : ", " + std::to_string(unit) + " at a time"),
                      Stage::input, [name = f.codes_name, lanes, unit, run](Call& c) {
                        const Tensor& given = c.input(name);
                        Tensor made = given;
                        const Index k = given.shape().back();
                        const std::size_t size = size_of(given.dtype());
                        for (Index i = 0; i < given.elements(); ++i) {
                          const Index d = i % k;
                          if (d >= k / run * run) continue;
                          const auto lane = static_cast<std::size_t>(d % run / unit);
                          const Index from =
                              i - d % run + static_cast<Index>(lanes[lane]) * unit + d % unit;
                          std::memcpy(made.data() + static_cast<std::size_t>(i) * size,
                                      given.data() + static_cast<std::size_t>(from) * size, size);
                        }
                        c.replace(name, std::move(made));
                        return true;
                      }});
      return;
    }
  }
}

}  // namespace mxo

// Codes of one side that lie in another order along K, the same in every run of so many: measured.
#include <algorithm>
#include <cmath>
#include <optional>

#include "golden/explain/case/indices.h"
#include "golden/explain/find/least_squares.h"
#include "golden/explain/find/product/finders.h"
#include "golden/explain/words/places.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr std::size_t kLanes = 16;        ///< of a run
constexpr Index kUnits[] = {1, 2, 4, 8};  ///< elements that stay together
constexpr Index kMostLines = 32;          ///< of each side, that are looked at
constexpr std::size_t kLeastSums = 384;   ///< for 256 unknowns
constexpr double kRidge = 1e-9;
constexpr double kTaken = 0.8;  ///< of a lane, from here on it was taken
constexpr double kNotTaken = 0.2;

/// Lines of one group, and elements of the output between them that differ.
struct Crossing {
  struct Sum {
    std::size_t a;  ///< places among the lines
    std::size_t b;
    double came;
    double weight;  ///< 1 over how finely it is stored
  };
  Index group = 0;
  std::vector<Index> a;
  std::vector<Index> b;
  std::vector<Sum> sums = {};
};

/// That of the group with the most lines that differ; none with too few elements.
std::optional<Crossing> crossing_of(const Product& p, const Output& y) {
  Crossing best;
  std::size_t most = 0;
  for (Index g = 0; g < p.groups(); ++g) {
    std::vector<std::uint8_t> rows(static_cast<std::size_t>(y.rows));
    std::vector<std::uint8_t> columns(static_cast<std::size_t>(p.n));
    for (Index i = p.first_line(g); i < p.last_line(g); ++i) {
      for (Index j = 0; j < p.n; ++j) {
        if (y.mark(i, j) != Mark::differs) continue;
        rows[static_cast<std::size_t>(i)] = columns[static_cast<std::size_t>(j)] = 1;
      }
    }
    const std::vector<Index> a = marked(rows);
    const std::vector<Index> b = marked(columns);
    if (a.size() * b.size() <= most) continue;
    most = a.size() * b.size();
    best = {g, evenly_spread(a, kMostLines), evenly_spread(b, kMostLines)};
  }
  const ElementReader read(y.expected->dtype());
  double square = 0.0;
  for (std::size_t a = 0; a < best.a.size(); ++a) {
    for (std::size_t b = 0; b < best.b.size(); ++b) {
      if (y.mark(best.a[a], best.b[b]) != Mark::differs) continue;
      const Element came = read(y.came(best.a[a] * y.columns + best.b[b]));
      if (came.nan || came.infinite) continue;
      square += came.value * came.value;
      best.sums.push_back({a, b, came.value, 0.0});
    }
  }
  if (best.sums.size() < kLeastSums || square == 0.0) return std::nullopt;
  const double least = std::sqrt(square / static_cast<double>(best.sums.size())) / 8.0;
  for (Crossing::Sum& s : best.sums) s.weight = 1.0 / std::max(std::abs(s.came), least);
  return best;
}

/// Of one side: codes of its lines, and what each of them meets: the other side's values, times
/// its own scales at their places.
struct LaneOperands {
  std::vector<std::vector<double>> codes;
  std::vector<std::vector<double>> scales;  ///< 1 without
  std::vector<std::vector<double>> others;
};

LaneOperands operands_of(const Product& p, const Crossing& c, bool is_a) {
  const ProductSide& side = is_a ? p.a : p.b;
  Product plain = p;
  (is_a ? plain.a : plain.b).scales = nullptr;
  LaneOperands made;
  for (const Index line : is_a ? c.a : c.b) {
    made.codes.push_back(is_a ? plain.line_a(c.group, line) : plain.line_b(c.group, line));
    std::vector<double>& scales = made.scales.emplace_back();
    for (Index d = 0; d < p.k; ++d) {
      const Index s = is_a ? p.scale_a(c.group, line, d) : p.scale_b(c.group, line, d);
      scales.push_back(side.scales == nullptr ? 1.0 : scale_value(*side.scales, s));
    }
  }
  for (const Index line : is_a ? c.b : c.a) {
    made.others.push_back(is_a ? p.line_b(c.group, line) : p.line_a(c.group, line));
  }
  return made;
}

/// Which lane each lane took: least squares of what came over the sums of every lane's codes at
/// every lane's place; empty if one took none, or several.
std::vector<std::size_t> lanes_taken(const LaneOperands& o, const Crossing& c, bool is_a,
                                     std::size_t k, std::size_t unit) {
  LeastSquares equations(kLanes * kLanes);
  const std::size_t run = unit * kLanes;
  for (const Crossing::Sum& s : c.sums) {
    const std::size_t own = is_a ? s.a : s.b;
    const std::vector<double>& codes = o.codes[own];
    std::vector<double> sums(kLanes * kLanes);
    double came = s.came;
    for (std::size_t d = 0; d < k; ++d) {
      const double met = o.others[is_a ? s.b : s.a][d] * o.scales[own][d];
      if (d >= k / run * run) {
        came -= codes[d] * met;
        continue;
      }
      const std::size_t first = d / run * run + d % unit;
      double* to = sums.data() + d % run / unit * kLanes;
      for (std::size_t j = 0; j < kLanes; ++j) to[j] += codes[first + j * unit] * met;
    }
    equations.add(sums, came, s.weight);
  }
  const auto fit = equations.solved(kRidge);
  if (!fit) return {};
  std::vector<std::size_t> taken;
  for (std::size_t i = 0; i < kLanes * kLanes; ++i) {
    const double share = fit->x[i];
    if (share > kTaken) taken.push_back(i % kLanes);
    if (share <= kTaken && std::abs(share) > kNotTaken) return {};
    if (i % kLanes == kLanes - 1 && taken.size() != i / kLanes + 1) return {};
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

Hypothesis lanes_of(const ProductSide& side, Index k, const std::vector<std::size_t>& lanes,
                    Index unit) {
  const Index run = unit * static_cast<Index>(lanes.size());
  std::string phrase =
      (side.scales == nullptr ? side.name + " is" : "the codes of " + side.name + " are") +
      " taken in runs of " + std::to_string(run) + " along K in the order ";
  for (const std::size_t from : lanes) phrase += std::to_string(from) + ", ";
  if (unit == 1) {
    phrase.resize(phrase.size() - 2);
  } else {
    phrase += std::to_string(unit) + " at a time";
  }
  return read_elsewhere(
      side.codes_name + "=lanes", phrase, {read_lines(side.codes_name, -1, [=](Index d) {
        const auto lane = static_cast<std::size_t>(d % run / unit);
        return d >= k / run * run
                   ? d
                   : d / run * run + static_cast<Index>(lanes[lane]) * unit + d % unit;
      })});
}

}  // namespace

void add_measured_lanes(const Call& call, const Output& y, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad || y.name != p->output || y.left == 0) return;
  const std::optional<Crossing> crossing = crossing_of(*p, y);
  if (!crossing) return;
  for (const bool is_a : {true, false}) {
    const LaneOperands operands = operands_of(*p, *crossing, is_a);
    for (Index unit : kUnits) {
      if (p->k < unit * static_cast<Index>(kLanes)) continue;
      std::vector<std::size_t> lanes =
          shortest(lanes_taken(operands, *crossing, is_a, static_cast<std::size_t>(p->k),
                               static_cast<std::size_t>(unit)));
      if (lanes.size() < 2) continue;  // none, or each its own
      join_pairs(lanes, unit);
      list.push_back(lanes_of(is_a ? p->a : p->b, p->k, lanes, unit));
      return;
    }
  }
}

}  // namespace mxo

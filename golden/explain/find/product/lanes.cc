// Codes of one side that lie in another order along K, the same in every run of so many: measured.
#include <optional>

#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"

namespace mxo {
namespace {

constexpr Index kLanes = 16;              ///< of a run
constexpr Index kUnits[] = {1, 2, 4, 8};  ///< elements that stay together
constexpr Index kMostLines = 32;          ///< of each side, that are looked at
constexpr std::size_t kLeastSums = 384;   ///< for 256 unknowns
constexpr double kRidge = 1e-9;
constexpr double kTaken = 0.8;  ///< of a lane, from here on it was taken
constexpr double kNotTaken = 0.2;

/// Lines of one group, and elements of the output between them that differ.
struct Crossing {
  Index group = 0;
  std::vector<Index> a;
  std::vector<Index> b;
  std::vector<std::pair<std::size_t, std::size_t>> sums = {};  ///< places among the lines
  CameNumbers got = {};
};

/// That of the group with the most lines that differ; none with too few elements.
std::optional<Crossing> crossing_of(const Product& p, const Output& y) {
  const ProductSides rows{p, Side::a};
  Crossing best;
  std::size_t most = 0;
  for (Index g = 0; g < p.groups(); ++g) {
    const std::vector<Index> a = rows.failing(y, g);
    const std::vector<Index> b = rows.other().failing(y, g);
    if (a.size() * b.size() <= most) continue;
    most = a.size() * b.size();
    best = {g, evenly_spread(a, kMostLines), evenly_spread(b, kMostLines)};
  }
  const ElementReader read(y.expected->dtype());
  std::vector<Index> elements;
  for (std::size_t a = 0; a < best.a.size(); ++a) {
    for (std::size_t b = 0; b < best.b.size(); ++b) {
      const Index at = best.a[a] * y.columns + best.b[b];
      if (!y.differs(at) || !std::isfinite(read(y.actual_bits(at)).value)) continue;
      elements.push_back(at);
      best.sums.emplace_back(a, b);
    }
  }
  best.got = came_numbers(y, elements);
  return elements.size() < kLeastSums || !best.got.tell() ? std::nullopt : std::optional(best);
}

/// Of one side: codes of its lines, its scales at their places, and the lines that they meet.
struct LaneOperands {
  LaneOperands(const ProductSides& s, const Crossing& c) {
    const bool is_a = s.side == Side::a;
    for (const Index line : is_a ? c.a : c.b) {
      codes.push_back(s.codes_of(c.group, line));
      ProductSides::Line& own = scales.emplace_back();
      for (Index d = 0; d < s.p.k; ++d) own.push_back(s.scale_of(c.group, line, d));
    }
    for (const Index line : is_a ? c.b : c.a) others.push_back(s.other().line(c.group, line));
  }
  std::vector<ProductSides::Line> codes;
  std::vector<ProductSides::Line> scales;
  std::vector<ProductSides::Line> others;
};

/// Which lane each lane took: least squares of the actual output over the sums of every lane's
/// codes at every lane's place; empty if one took none, or several.
std::vector<Index> lanes_taken(const LaneOperands& o, const Crossing& c, bool is_a, Index k,
                               Index unit) {
  constexpr Index kUnknowns = kLanes * kLanes;
  LeastSquares equations(kUnknowns);
  const Index run = unit * kLanes;
  for (std::size_t e = 0; e < c.sums.size(); ++e) {
    const std::size_t own = is_a ? c.sums[e].first : c.sums[e].second;
    const std::size_t other = is_a ? c.sums[e].second : c.sums[e].first;
    std::vector<double> sums(kUnknowns);
    double got = c.got.values[e];
    for (Index d = 0; d < k; ++d) {
      const double met = nth(o.others[other], d) * nth(o.scales[own], d);
      if (d >= k / run * run) {
        got -= nth(o.codes[own], d) * met;
        continue;
      }
      const Index first = d / run * run + d % unit;
      for (Index j = 0; j < kLanes; ++j)
        nth(sums, d % run / unit * kLanes + j) += nth(o.codes[own], first + j * unit) * met;
    }
    equations.add(sums, got, c.got.weight(e));
  }
  const auto fit = equations.solved(kRidge);
  std::vector<Index> taken;
  for (Index i = 0; fit && i < kUnknowns; ++i) {
    const double share = nth(fit->x, i);
    if (share > kTaken) taken.push_back(i % kLanes);
    if (share <= kTaken && std::abs(share) > kNotTaken) return {};
    if (i % kLanes == kLanes - 1 && static_cast<Index>(taken.size()) != i / kLanes + 1) return {};
  }
  return taken;
}

/// The shortest run that says the same.
std::vector<Index> shortest(const std::vector<Index>& taken) {
  const auto lanes = static_cast<Index>(taken.size());
  for (Index run = 1; run < lanes; run *= 2) {
    bool same = true;
    for (Index i = 0; i < lanes; ++i) {
      same =
          same && nth(taken, i % run) < run && nth(taken, i) == nth(taken, i % run) + i / run * run;
    }
    if (same) return {taken.begin(), taken.begin() + run};
  }
  return taken;
}

/// Pairs of lanes that stay together become one, of twice the elements, as often as all do.
void join_pairs(std::vector<Index>& lanes, Index& unit) {
  while (lanes.size() > 2) {
    std::vector<Index> joined;
    for (std::size_t i = 0; i + 1 < lanes.size(); i += 2) {
      if (lanes[i] % 2 != 0 || lanes[i + 1] != lanes[i] + 1) return;
      joined.push_back(lanes[i] / 2);
    }
    lanes = joined;
    unit *= 2;
  }
}

Hypothesis lanes_of(const ProductSide& side, Index k, const std::vector<Index>& lanes, Index unit) {
  const Index run = unit * static_cast<Index>(lanes.size());
  std::string order;
  for (const Index from : lanes) list_words(order, std::to_string(from));
  if (unit > 1) list_words(order, std::to_string(unit) + " at a time");
  return read_elsewhere(
      side.codes_name + "=lanes",
      (side.scales == nullptr ? side.name + " is" : "the codes of " + side.name + " are") +
          " taken in runs of " + std::to_string(run) + " along K in the order " + order,
      {read_lines(side.codes_name, -1, [=](Index d) {
        if (d >= k / run * run) return d;
        return d / run * run + nth(lanes, d % run / unit) * unit + d % unit;
      })});
}

}  // namespace

void add_measured_lanes(const Call& call, const Output& y, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad || y.name != p->output || y.left == 0) return;
  const std::optional<Crossing> crossing = crossing_of(*p, y);
  if (!crossing) return;
  for (const Side side : kSides) {
    const ProductSides s{*p, side};
    const LaneOperands operands(s, *crossing);
    for (Index unit : kUnits) {
      if (p->k < unit * kLanes) continue;
      std::vector<Index> lanes =
          shortest(lanes_taken(operands, *crossing, side == Side::a, p->k, unit));
      if (lanes.size() < 2) continue;  // none, or each its own
      join_pairs(lanes, unit);
      list.push_back(lanes_of(s.factor(), p->k, lanes, unit));
      return;
    }
  }
}

}  // namespace mxo

// Orders along K: which block's scale each block was multiplied by, simple maps first, then orders
// that come again every few, then block by block; which code each lane of a run took.
#include <optional>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"
#include "golden/explain/words/permutation.h"

namespace mxo {
namespace {

constexpr std::size_t kLeast = 3;   ///< measured scales that are not their own, for a map
constexpr std::size_t kListed = 4;  ///< blocks that a sentence names one by one
constexpr std::size_t kMostMaps = 4;

struct NamedMap {
  std::string phrase;
  std::function<Index(Index)> map;
};
using Maps = std::vector<NamedMap>;

/// The blocks of one line: what each was given, and what it may have been taken with.
struct Line {
  std::vector<double> given;
  std::vector<std::optional<Observation::Range>> taken;
  Index blocks() const { return static_cast<Index>(given.size()); }
  /// Whether block b may have been taken with the scale of block `from`.
  bool is_candidate(Index b, Index from) const {
    return std::max(b, from) >= blocks() || !nth(taken, b) ||
           nth(taken, b)->holds(nth(given, from));
  }
};

struct Lines {
  explicit Lines(const Observation& seen) {
    for (const Effective& e : seen.lines) {
      Line& line = list.emplace_back();
      for (Index b = 0; b < e.blocks(); ++b) {
        line.given.push_back(scale_value(*seen.factor().scales, seen.at(e, b)));
        line.taken.push_back(seen.range(e, b));
      }
      blocks = std::max(blocks, line.blocks());
    }
  }
  bool all_may(Index b, Index from) const {
    return std::all_of(list.begin(), list.end(),
                       [&](const Line& line) { return line.is_candidate(b, from); });
  }
  std::vector<Line> list;
  Index blocks = 0;  ///< of the longest
};

/// Whether a map gives the measured scales, of which some are not those of their own blocks.  A
/// line or two may be measured wrongly; what is confirmed is the output.
bool tells(const Lines& lines, const NamedMap& map) {
  std::size_t wrong = 0;
  std::size_t telling = 0;
  for (const Line& line : lines.list) {
    for (Index b = 0; b < line.blocks(); ++b) {
      const Index to = map.map(b);
      if (!line.is_candidate(b, to >= 0 && to < line.blocks() ? to : b)) {
        ++wrong;
      } else if (!line.is_candidate(b, b)) {
        ++telling;
      }
    }
  }
  return telling >= kLeast && wrong * 10 <= telling;
}

/// A map of blocks by a number n; its words have a gap for the name of a side and for the number.
struct MapRow {
  const char* words;
  bool number_first;
  Index (*map)(Index b, Index n);
};

/// By a number of blocks from 2 on, each twice the one before.
constexpr MapRow kMapsOfRuns[] = {
    {"every {} K blocks of {} take the scale of their first", true,
     [](Index b, Index n) { return b / n * n; }},
    {"every {} K blocks of {} take the scale of their last", true,
     [](Index b, Index n) { return b / n * n + n - 1; }},
    {"the scales of {} start again every {} K blocks", false,
     [](Index b, Index n) { return b % n; }},
    {"the scales of every {} K blocks of {} are reversed", true,
     [](Index b, Index n) { return b / n * n + n - 1 - b % n; }},
    {"the halves of the scales of every {} K blocks of {} are exchanged", true,
     [](Index b, Index n) { return b / n * n + (b % n + n / 2) % n; }},
    {"block b of {} takes the scale of block b / {}", false,
     [](Index b, Index n) { return b / n; }},
    {"block b of {} takes the scale of block {} b", false, [](Index b, Index n) { return b * n; }},
};

/// By the number of all blocks.
constexpr MapRow kMapsOfAll[] = {
    {"the scales of {} are reversed along K", false, [](Index b, Index n) { return n - 1 - b; }},
    {"the scales of {} are rolled by one block along K", false,
     [](Index b, Index n) { return (b + n - 1) % n; }},
    {"the scales of {} are rolled back by one block along K", false,
     [](Index b, Index n) { return (b + 1) % n; }},
};

Maps simple_maps(const std::string& side, Index blocks) {
  Maps list;
  for (Index c = blocks - 2; c >= 0; --c) {
    list.push_back(
        {c == 0 ? filled("every K block of {} takes the scale of block 0", side)
                : filled("scales of {} are stuck at block {} from block {} on", side, c, c + 1),
         [c](Index b) { return std::min(b, c); }});
  }
  for (Index c = 1; c < blocks; ++c) {
    list.push_back({filled("blocks 0 to {} of {} take the scale of block {}", c - 1, side, c),
                    [c](Index b) { return std::max(b, c); }});
  }
  for (const Index by : {-1, 1, -2, 2, -4, 4}) {
    const std::string far = std::abs(by) == 1 ? by < 0 ? "before" : "after" : away(by);
    list.push_back({filled("K blocks of {} take the scale of the block {}", side, far),
                    [by](Index b) { return b + by; }});
  }
  const auto add = [&](const MapRow& row, Index n) {
    list.push_back({row.number_first ? filled(row.words, n, side) : filled(row.words, side, n),
                    [map = row.map, n](Index b) { return map(b, n); }});
  };
  for (Index n = 2; n < blocks; n *= 2) {
    for (const MapRow& row : kMapsOfRuns) add(row, n);
  }
  for (const MapRow& row : kMapsOfAll) add(row, blocks);
  return list;
}

/// Maps that come again every few blocks.
void add_periodic_maps(const Lines& lines, const std::string& side, Maps& list) {
  const auto fits = [&](Index period, Index i, Index j) {
    for (Index b = i; b < lines.blocks; b += period) {
      if (!lines.all_may(b, b - i + j)) return false;
    }
    return period <= lines.blocks;
  };
  for (const Permutation& p : permutations_of(fits)) {
    if (2 * p.period() > lines.blocks && !p.has_name()) continue;
    list.push_back({filled("the scales of the K blocks of {} are taken ", side) + p.words(),
                    [p](Index b) { return p.from(b); }});
  }
}

/// Each block's own source, where one and only one block's scales are those that were measured.
void add_free_map(const Lines& lines, const std::string& side, Maps& list) {
  std::vector<Index> source;
  std::string text;
  std::size_t moved = 0;
  for (Index b = 0; b < lines.blocks; ++b) {
    std::vector<Index> fits = range_of(lines.blocks);
    std::erase_if(fits, [&](Index from) { return !lines.all_may(b, from); });
    const bool stays = std::find(fits.begin(), fits.end(), b) != fits.end();
    if (!stays && fits.size() != 1) return;
    source.push_back(stays ? b : fits.front());
    if (!stays && ++moved <= kListed)
      list_words(text, filled("K block {} of {} takes the scale of block {}", b, side, fits[0]));
  }
  if (moved > kListed) text += filled(" and {} more take others'", moved - kListed);
  list.push_back({text, [source](Index b) {
                    return b < static_cast<Index>(source.size()) ? nth(source, b) : b;
                  }});
}

/// The scales of a side with every block's replaced by its source's.
Reading read_blocks(const ProductSides& s, const std::function<Index(Index)>& map) {
  std::vector<Index> from = range_of(s.factor().scales->elements());
  for (Index g = 0; g < s.p.groups(); ++g) {
    const Index blocks = ceil_div(s.p.depth(g), s.p.block);
    for (Index b = 0; b < blocks; ++b) {
      const Index to = map(b);
      if (to < 0 || to >= blocks) continue;
      for (Index line = s.first(g); line < s.last(g); ++line)
        nth(from, s.scale(g, line, b * s.p.block)) = s.scale(g, line, to * s.p.block);
    }
  }
  return read_elements(s.factor().scales_name, [from](Index i) { return nth(from, i); });
}

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
  ActualNumbers got = {};
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
  best.got = actual_numbers(y, elements);
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

void add_block_map(const Observation& seen, std::vector<Hypothesis>& list) {
  const Lines lines(seen);
  const std::string& side = seen.factor().name;
  Maps maps = simple_maps(side, lines.blocks);
  add_periodic_maps(lines, side, maps);
  add_free_map(lines, side, maps);
  std::erase_if(maps, [&](const NamedMap& m) { return !tells(lines, m); });
  maps.resize(std::min(maps.size(), kMostMaps));
  for (const NamedMap& m : maps) {
    add_altered_locally(list, seen.factor().scales_name + "=blocks", m.phrase,
                        [side = seen.side, map = m.map](Call& c) {
                          const std::optional<Product> p = product_of(c);
                          return p && read_whole(c, read_blocks({*p, side}, map));
                        });
  }
}

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

// Which piece of one side each piece of the other was multiplied with, along the depth: blocks of
// it, or lanes of every run of 16.
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"

namespace mxo {
namespace {

using Line = ProductSides::Line;
using Lines = std::vector<Line>;

constexpr Index kSums = 2048;   ///< that are looked at
constexpr Index kOthers = 256;  ///< of a line
constexpr Index kMostBlocks = 64;
constexpr Index kLanes = 16;              ///< of a run
constexpr Index kUnits[] = {1, 2, 4, 8};  ///< elements of a lane
constexpr double kFits = 0.003;  ///< of the root mean square that may be left: bf16 and its sums

/// The depth up to `end` in pieces of `unit` neighbours each; after `count` of them the first goes
/// on.
struct Pieces {
  Index unit;
  Index count;
  Index end;
  Index of(Index d) const { return d / unit % count; }
  /// The place in another piece that is that of d in its own.
  Index in(Index piece, Index d) const { return d + (piece - of(d)) * unit; }
};

/// Lines of one group, and lines of the other side.
struct Crossing {
  Index group = 0;
  std::vector<Index> own;
  std::vector<Index> others;
};

/// Those with the most elements between them: lines half of which differ.
Crossing crossing_of(const ProductSides& s, const Output& y, Index least_depth) {
  Crossing best;
  for (Index g = 0; g < s.p.groups(); ++g) {
    if (s.p.depth(g) < least_depth) continue;
    const std::vector<Index> others = s.other().failing(y, g);
    std::vector<Index> own = s.failing(y, g);
    std::erase_if(own, [&](Index i) { return s.differing(y, g, i).size() * 2 <= others.size(); });
    if (own.size() * others.size() > best.own.size() * best.others.size())
      best = {g, std::move(own), others};
  }
  best.others = evenly_spread(best.others, kOthers);
  best.own = evenly_spread(best.own, kSums / std::max<Index>(1, std::ssize(best.others)));
  return best;
}

double dot(const Line& x, const Line& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

/// What came of a line, and what its pieces give.
struct PairedLine {
  Line got = {};
  Line left = {};       ///< when the chosen pairs take all they can
  Lines products = {};  ///< of each pair of pieces, with every line of the other side
};

/// Products of every piece of some lines with every piece of those they meet, and what came.
class Pairing {
 public:
  /// One of each kind of pieces.  `stay`: the scales of these lines stay where they are, their
  /// codes move.
  static std::vector<Pairing> of(const ProductSides& s, const Output& y, const Crossing& c,
                                 const std::vector<Pieces>& kinds, bool stay) {
    std::vector<Pairing> list;
    for (const Pieces& pieces : kinds) list.push_back({pieces, stay});
    DecodedLines others(s.other());
    for (const Index i : c.own) {
      const Line own = stay ? s.codes_of(c.group, i) : s.line(c.group, i);
      const Line scales = stay ? s.scales_of(c.group, i) : Line(own.size(), 1.0);
      for (Pairing& pairing : list) {
        pairing.lines_.push_back({.products = Lines(pairing.pairs())});
        for (Line& products : pairing.lines_.back().products) products.reserve(c.others.size());
      }
      for (const Index j : c.others) {
        Line met = others(c.group, j);
        std::ranges::transform(met, scales, met.begin(), std::multiplies{});
        const double got = y.came(s.element(y, c.group, i, j)).value;
        for (Pairing& pairing : list) pairing.add(own, met, got);
      }
    }
    for (Pairing& pairing : list) pairing.level(c.others.size());
    return list;
  }

  const Pieces& pieces() const { return pieces_; }

  /// The piece of these lines that each piece of the others met, -1 for none: pairs that give what
  /// came, greedily; empty if they do not.
  std::vector<Index> met() {
    std::vector<Index> found(static_cast<std::size_t>(pieces_.count), -1);
    std::vector<std::size_t> chosen;
    const double all = left();
    while (left() > kFits * kFits * all) {
      double most = 0.0;
      std::size_t best = 0;
      for (std::size_t pair = 0; pair < pairs(); ++pair) {
        const double gain = gain_of(pair);
        if (gain > most) best = pair;
        most = std::max(most, gain);
      }
      Index& own = found[best % found.size()];
      if (most == 0.0 || own >= 0) return {};
      own = static_cast<Index>(best / found.size());
      chosen.push_back(best);
      if (!std::ranges::all_of(lines_, [&](PairedLine& line) { return refit(line, chosen); }))
        return {};
    }
    return chosen.empty() ? std::vector<Index>{} : found;
  }

 private:
  Pairing(const Pieces& pieces, bool stay) : pieces_(pieces), stay_(stay) {}

  std::size_t pairs() const { return static_cast<std::size_t>(pieces_.count * pieces_.count); }

  /// Of each pair; last of what lies beyond whole runs of pieces.
  Line sums_of(const Line& own, const Line& met) const {
    Line sums(pairs() + 1);
    Line at(static_cast<std::size_t>(pieces_.count));  // one place of each piece
    const auto depth = static_cast<Index>(own.size());
    const Index end = std::min(pieces_.end, depth);
    for (Index first = 0; first < end; first += pieces_.unit * pieces_.count) {
      for (Index d = first; d < std::min(first + pieces_.unit, end); ++d) {
        const Index n = std::min(pieces_.count, ceil_div(end - d, pieces_.unit));
        for (Index piece = 0; piece < n; ++piece)
          nth(at, piece) = nth(met, d + piece * pieces_.unit);
        double* sum = sums.data();
        for (Index from = 0; from < n; ++from, sum += pieces_.count) {
          const double v = nth(own, d + from * pieces_.unit);
          for (Index piece = 0; piece < n; ++piece) sum[piece] += v * nth(at, piece);
        }
      }
    }
    for (Index d = end; d < depth; ++d) sums.back() += nth(own, d) * nth(met, d);
    return sums;
  }

  /// One more sum of the last line.
  void add(const Line& own, const Line& met, double got) {
    const Line sums = sums_of(own, met);
    for (std::size_t pair = 0; pair < pairs(); ++pair)
      lines_.back().products[pair].push_back(std::isfinite(sums[pair]) ? sums[pair] : 0.0);
    lines_.back().got.push_back(got - sums.back());  // less what no piece has
  }

  /// Loud lines count no more than others, of either side.
  void level(std::size_t others) {
    std::erase_if(lines_, [](const PairedLine& line) {
      const double square = dot(line.got, line.got);
      return !std::isfinite(square) || square <= 0.0;
    });
    for (PairedLine& line : lines_) {
      const double by = std::sqrt(static_cast<double>(others) / dot(line.got, line.got));
      for (double& v : line.got) v *= by;
      for (Line& products : line.products)
        for (double& v : products) v *= by;
    }
    for (std::size_t at = 0; at < others; ++at) level_at(at);
    for (PairedLine& line : lines_) line.left = line.got;
  }

  void level_at(std::size_t at) {
    double square = 0.0;
    for (const PairedLine& line : lines_) square += line.got[at] * line.got[at];
    if (square == 0.0) return;
    for (PairedLine& line : lines_) {
      line.got[at] /= std::sqrt(square);
      for (Line& products : line.products) products[at] /= std::sqrt(square);
    }
  }

  double left() const {
    double sum = 0.0;
    for (const PairedLine& line : lines_) sum += dot(line.left, line.left);
    return sum;
  }

  double gain_of(std::size_t pair) const {
    double gain = 0.0;
    for (const PairedLine& line : lines_) {
      const double own = dot(line.products[pair], line.products[pair]);
      const double with = dot(line.products[pair], line.left);
      if (own > 0.0) gain += stay_ ? 2.0 * with - own : with * with / own;
    }
    return gain;
  }

  /// Each pair with a factor of its own: its scales may have moved, or not.
  bool refit(PairedLine& line, const std::vector<std::size_t>& chosen) const {
    if (stay_) {
      std::ranges::transform(line.left, line.products[chosen.back()], line.left.begin(),
                             std::minus{});
      return true;
    }
    LeastSquares equations(chosen.size());
    Line features(chosen.size());
    for (std::size_t at = 0; at < line.got.size(); ++at) {
      for (std::size_t i = 0; i < chosen.size(); ++i) features[i] = line.products[chosen[i]][at];
      equations.add(features, line.got[at]);
    }
    const std::optional<LeastSquaresFit> fit = equations.solved();
    line.left = line.got;
    for (std::size_t i = 0; fit && i < chosen.size(); ++i)
      for (std::size_t at = 0; at < line.got.size(); ++at)
        line.left[at] -= fit->x[i] * line.products[chosen[i]][at];
    return fit.has_value();
  }

  Pieces pieces_;
  bool stay_;
  std::vector<PairedLine> lines_;
};

/// Pieces of each stretch of the depth between two bounds, taken from others, as far as both reach;
/// -1: zero.
Reading read_pieces(const Product& p, const std::string& name, const std::vector<Index>& bounds,
                    const Pieces& pieces, const std::vector<Index>& taken) {
  return read_depth(p, name, [bounds, pieces, taken](Index d) {
    const auto end = std::upper_bound(bounds.begin(), bounds.end(), d);
    if (end == bounds.end()) return d;  // a row of no group
    const Index first = *std::prev(end);
    if (d - first >= pieces.end) return d;
    const Index from = nth(taken, pieces.of(d - first));
    const Index at = first + pieces.in(from, d - first);
    return from < 0 ? from : at < *end ? at : d;
  });
}

// ---- Blocks.

/// "k = 96 to 127 of x meet k = 160 to 191 of w, ...": block b of w met block source[b] of x.
std::string words_of(const Product& p, const std::vector<Index>& source, Index block) {
  constexpr Index kListed = 4;
  const auto run_of = [&](Index b, const ProductSide& f) {
    return (p.wgrad ? "rows " : "k = ") +
           filled("{} to {} of {}", b * block, (b + 1) * block - 1, f.name);
  };
  std::string text;
  Index moved = 0;
  for (Index b = 0; b < std::ssize(source); ++b) {
    const Index from = nth(source, b);
    if (from == b || ++moved > kListed) continue;
    list_words(text, from < 0 ? run_of(b, p.b) + " meet nothing"
                              : run_of(from, p.a) + " meet " + run_of(b, p.b));
  }
  if (moved > kListed) text += filled(", and so on for {} blocks", moved);
  return p.wgrad ? text + " (rows of each group)" : text;
}

/// Blocks of depth that one scale of a factor covers, where a block has scales of its own.
std::optional<Index> scale_run(const Product& p, const ProductSide& f) {
  if (f.scales == nullptr) return std::nullopt;
  const bool whole = std::ranges::all_of(p.ends, [](Index end) { return end % 32 == 0; });
  const bool bytes = size_of(f.scales->dtype()) == 1;
  const Index run = p.wgrad ? 32 : p.depth_of_scale(f);
  return (p.wgrad ? whole && bytes : run < p.k) ? std::optional(run) : std::nullopt;
}

// ---- Lanes.

/// The shortest run that says the same.
std::vector<Index> shortest(const std::vector<Index>& taken) {
  for (std::size_t run = 1; run < taken.size(); run *= 2) {
    bool same = true;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const auto first = static_cast<Index>(i - i % run);
      same = same && taken[i % run] < static_cast<Index>(run) && taken[i] == taken[i % run] + first;
    }
    if (same) return {taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(run)};
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

}  // namespace

void add_measured_pairing(const Product& p, const Output& y, const std::vector<Effective>& lines,
                          List& list) {
  if (std::ranges::all_of(lines, [](const Effective& e) { return e.misfit < kFits; })) return;
  const Crossing c = crossing_of({p, Side::a}, y, p.block + 1);  // one block has no other to meet
  if (c.own.size() < 2) return;
  Index block = p.block;
  while (ceil_div(p.depth(c.group), block) > kMostBlocks) block *= 2;
  const Index count = ceil_div(p.depth(c.group), block);
  const Pieces blocks{block, count, block * count};
  // Of each block of w the block of x.
  const std::vector<Index> x_of = Pairing::of({p, Side::a}, y, c, {blocks}, false).front().met();
  std::vector<Index> w_of(x_of.size(), -1);
  bool moved = false;
  for (Index b = 0; b < std::ssize(x_of); ++b) {
    const Index from = nth(x_of, b);
    if (from >= 0) nth(w_of, from) = b;
    moved = moved || (from >= 0 && from != b);
  }
  if (!moved) return;
  const std::string words = words_of(p, x_of, block);
  for (const Side side : kSides) {
    const ProductSide& f = ProductSides{p, side}.factor();
    const std::vector<Index>& taken = side == Side::a ? x_of : w_of;
    const std::optional<Index> run = scale_run(p, f);
    if (run && block % *run != 0) continue;
    const std::vector<Index> stretch = p.wgrad ? bounds_of(p) : std::vector<Index>{0, p.k};
    std::vector<Index> of_scales = stretch;
    for (Index& bound : of_scales) bound = ceil_div(bound, run.value_or(1));
    const Index wide = block / run.value_or(1);
    const Pieces scales{wide, count, wide * count};
    for (const bool with : {true, false}) {
      if (with && !run) continue;
      std::vector<Reading> readings{read_pieces(p, f.codes_name, stretch, blocks, taken)};
      if (with) readings.push_back(read_pieces(p, f.scales_name, of_scales, scales, taken));
      const char* how = !run ? "" : with ? ", with their scales" : ", without their scales";
      add_read_in_slices(list, f.name + "=blocks", words + how, std::move(readings));
    }
  }
}

void add_measured_lanes(const Call& call, const Output& y, List& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad || y.name != p->output || y.left == 0) return;
  for (const Side side : kSides) {
    const ProductSides s{*p, side};
    const Crossing c = crossing_of(s, y, kLanes);
    if (c.own.size() < 2) continue;
    std::vector<Pieces> kinds;
    for (const Index unit : kUnits)
      if (p->k >= unit * kLanes) kinds.push_back({unit, kLanes, p->k - p->k % (unit * kLanes)});
    for (Pairing& pairing : Pairing::of(s, y, c, kinds, true)) {
      auto [unit, _, end] = pairing.pieces();
      std::vector<Index> lanes = pairing.met();
      if (std::ranges::count(lanes, -1) > 0) continue;
      lanes = shortest(lanes);
      if (lanes.size() < 2) continue;  // none, or each its own
      join_pairs(lanes, unit);
      const ProductSide& f = s.factor();
      const Pieces pieces{unit, std::ssize(lanes), end};
      std::string order;
      for (const Index from : lanes) list_words(order, std::to_string(from));
      if (unit > 1) list_words(order, std::to_string(unit) + " at a time");
      add_read(list, f.codes_name + "=lanes",
               (f.scales == nullptr ? f.name + " is" : "the codes of " + f.name + " are") +
                   filled(" taken in runs of {} along K in the order ", unit * pieces.count) +
                   order,
               {read_pieces(*p, f.codes_name, {0, p->k}, pieces, lanes)});
      return;
    }
  }
}

}  // namespace mxo

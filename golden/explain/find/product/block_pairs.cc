// Which block of one side each block of the other was multiplied with, along the depth.
#include <algorithm>
#include <cmath>

#include "golden/explain/find/product/finders.h"
#include "golden/explain/words/places.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kRows = 6;
constexpr Index kColumns = 256;
constexpr Index kMostBlocks = 64;
constexpr double kFits = 0.003;  ///< of the root mean square that may be left: bf16 and its sums

/// Products of every block of some rows of x with every block of some lines of w, and what came.
class Pairing {
 public:
  /// Block `a` of x with block `b` of w.
  struct Pair {
    std::size_t a;
    std::size_t b;
  };

  Pairing(const Product& p, const Output& y, Index g, const std::vector<Index>& rows, Index block)
      : blocks_(static_cast<std::size_t>(ceil_div(p.depth(g), block))) {
    const ElementReader read(y.expected->dtype());
    const Index step = std::max<Index>(1, p.n / kColumns);
    std::vector<Index> columns;
    std::vector<Sides::Line> lines;
    for (Index j = 0; j < p.n; j += step) {
      columns.push_back(j);
      lines.push_back(p.line_b(g, j));
    }
    columns_ = columns.size();
    for (const Index r : rows) {
      const Sides::Line x = p.line_a(g, r);
      Sides::Line came;
      Sides::Line products(blocks_ * blocks_ * columns_);
      bool finite = true;
      for (std::size_t c = 0; c < columns_; ++c) {
        const Element e = read(y.came(p.output_row(g, r) * y.columns + columns[c]));
        finite = finite && !e.nan && !e.infinite;
        came.push_back(e.value);
        for (std::size_t a = 0; a < blocks_; ++a) {
          for (std::size_t b = 0; b < blocks_; ++b) {
            products[(a * blocks_ + b) * columns_ + c] =
                dot(x, lines[c], a, b, static_cast<std::size_t>(block));
          }
        }
      }
      const double square = squares({came});
      if (!finite || square == 0.0) continue;
      // Loud rows count no more than others.
      const double gain = std::sqrt(static_cast<double>(columns_) / square);
      for (double& v : came) v *= gain;
      came_.push_back(std::move(came));
      products_.push_back(std::move(products));
    }
    level_columns();
    left_ = came_;
  }

  /// Pairs that give what came, greedily, one for each block of w at most; empty if they do not.
  std::vector<Pair> pairs() {
    std::vector<Pair> chosen;
    const double all = squares(came_);
    while (squares(left_) > kFits * kFits * all) {
      double most = 0.0;
      Pair best{};
      for (std::size_t a = 0; a < blocks_; ++a) {
        for (std::size_t b = 0; b < blocks_; ++b) {
          const double gain = gain_of({a, b});
          if (gain > most) {
            most = gain;
            best = {a, b};
          }
        }
      }
      const bool again =
          std::any_of(chosen.begin(), chosen.end(), [&](const Pair& p) { return p.b == best.b; });
      if (most == 0.0 || again) return {};
      chosen.push_back(best);
      for (std::size_t r = 0; r < came_.size(); ++r) {
        if (!refit(r, chosen)) return {};
      }
    }
    return chosen;
  }

  std::size_t blocks() const { return blocks_; }

 private:
  /// Loud columns count no more than others, either.
  void level_columns() {
    for (std::size_t c = 0; c < columns_; ++c) {
      double square = 0.0;
      for (const auto& row : came_) square += row[c] * row[c];
      if (square == 0.0) continue;
      const double gain = 1.0 / std::sqrt(square);
      for (auto& row : came_) row[c] *= gain;
      for (auto& row : products_) {
        for (std::size_t at = c; at < row.size(); at += columns_) row[at] *= gain;
      }
    }
  }

  static double dot(const Sides::Line& x, const Sides::Line& w, std::size_t a, std::size_t b,
                    std::size_t run) {
    double sum = 0.0;
    const std::size_t end = std::min({run, x.size() - a * run, w.size() - b * run});
    for (std::size_t d = 0; d < end; ++d) sum += x[a * run + d] * w[b * run + d];
    return std::isfinite(sum) ? sum : 0.0;
  }

  static double squares(const std::vector<Sides::Line>& rows) {
    double sum = 0.0;
    for (const auto& row : rows) {
      for (const double v : row) sum += v * v;
    }
    return sum;
  }

  const double* of(std::size_t row, const Pair& p) const {
    return &products_[row][(p.a * blocks_ + p.b) * columns_];
  }

  double gain_of(const Pair& p) const {
    double gain = 0.0;
    for (std::size_t r = 0; r < came_.size(); ++r) {
      const double* v = of(r, p);
      double with = 0.0;
      double own = 0.0;
      for (std::size_t c = 0; c < columns_; ++c) {
        with += v[c] * left_[r][c];
        own += v[c] * v[c];
      }
      if (own > 0.0) gain += with * with / own;
    }
    return gain;
  }

  /// What is left of a row when the chosen pairs take all they can.
  bool refit(std::size_t row, const std::vector<Pair>& chosen) {
    const std::size_t n = chosen.size();
    LeastSquares equations(n);
    Sides::Line features(n);
    for (std::size_t c = 0; c < columns_; ++c) {
      for (std::size_t i = 0; i < n; ++i) features[i] = of(row, chosen[i])[c];
      equations.add(features, came_[row][c]);
    }
    const std::optional<LeastSquaresFit> fit = equations.solved();
    if (!fit) return false;
    left_[row] = came_[row];
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t c = 0; c < columns_; ++c) left_[row][c] -= fit->x[i] * of(row, chosen[i])[c];
    }
    return true;
  }

  std::size_t blocks_;
  std::size_t columns_ = 0;
  std::vector<Sides::Line> came_;
  std::vector<Sides::Line> left_;
  std::vector<Sides::Line> products_;
};

/// Runs of the depth taken from elsewhere: run b of each stretch of it between two bounds from
/// source[b], as far as both reach; -1: zero.
Reading read_runs(const Product& p, const std::string& name, const Tensor& given,
                  const std::vector<Index>& bounds, const std::vector<Index>& source, Index run) {
  return read_depth(p, name, given, [bounds, source, run](Index d) {
    const auto end = std::upper_bound(bounds.begin(), bounds.end(), d);
    if (end == bounds.end()) return d;  // a row of no group
    const Index b = (d - *std::prev(end)) / run;
    if (b >= static_cast<Index>(source.size())) return d;
    const Index from = source[static_cast<std::size_t>(b)];
    const Index at = d + (from - b) * run;
    return from < 0 ? from : at < *end ? at : d;
  });
}

/// "k = 96 to 127 of x meet k = 160 to 191 of w, ...": block b of w met block source[b] of x.
std::string words_of(const Product& p, const std::vector<Index>& source, Index block) {
  constexpr std::size_t kListed = 4;
  const auto run_of = [&](Index b, const ProductSide& f) {
    return (p.wgrad ? "rows " : "k = ") + std::to_string(b * block) + " to " +
           std::to_string((b + 1) * block - 1) + " of " + f.name;
  };
  std::string text;
  std::size_t moved = 0;
  for (std::size_t b = 0; b < source.size(); ++b) {
    const auto own = static_cast<Index>(b);
    if (source[b] == own || ++moved > kListed) continue;
    text += (text.empty() ? "" : ", ") +
            (source[b] < 0 ? run_of(own, p.b) + " meet nothing"
                           : run_of(source[b], p.a) + " meet " + run_of(own, p.b));
  }
  if (moved > kListed) text += ", and so on for " + std::to_string(moved) + " blocks";
  return p.wgrad ? text + " (rows of each group)" : text;
}

/// Blocks of depth that one scale of a factor covers, where a block has scales of its own.
std::optional<Index> scale_run(const Product& p, const ProductSide& f) {
  if (f.scales == nullptr) return std::nullopt;
  if (!p.wgrad) {
    const bool along_k = f.scales->rank() == f.codes->rank() && f.scales->shape().back() > 1;
    return along_k ? std::optional(block_of(p.k, f.scales->shape().back())) : std::nullopt;
  }
  const bool whole =
      std::all_of(p.ends.begin(), p.ends.end(), [](Index end) { return end % 32 == 0; });
  return whole && size_of(f.scales->dtype()) == 1 ? std::optional<Index>(32) : std::nullopt;
}

}  // namespace

void add_measured_pairing(const Product& p, const Output& y, const std::vector<Effective>& lines,
                          std::vector<Hypothesis>& list) {
  const bool all_fit =
      std::all_of(lines.begin(), lines.end(), [](const Effective& e) { return e.misfit < kFits; });
  if (all_fit) return;
  // Rows of one group: the group with the most that fail.
  std::vector<Index> rows;
  Index group = 0;
  const Sides s{p, Side::a};
  for (Index g = 0; g < p.groups(); ++g) {
    if (p.depth(g) <= p.block) continue;  // one block has no other to meet
    std::vector<Index> failing = s.failing(y, g);
    std::erase_if(failing, [&](Index r) {
      return static_cast<Index>(s.differing(y, g, r).size()) * 2 <= y.columns;
    });
    if (failing.size() <= rows.size()) continue;
    rows = std::move(failing);
    group = g;
  }
  if (rows.size() < 2) return;
  Index block = p.block;
  while (ceil_div(p.depth(group), block) > kMostBlocks) block *= 2;
  Pairing pairing(p, y, group, evenly_spread(rows, kRows), block);
  std::vector<Index> x_of(pairing.blocks(), -1);  // of block b of w: the block of x
  std::vector<Index> w_of(pairing.blocks(), -1);
  bool moved = false;
  for (const Pairing::Pair& pair : pairing.pairs()) {
    x_of[pair.b] = static_cast<Index>(pair.a);
    w_of[pair.a] = static_cast<Index>(pair.b);
    moved = moved || pair.a != pair.b;
  }
  if (!moved) return;
  const std::string words = words_of(p, x_of, block);
  for (const Side side : kSides) {
    const ProductSide& f = Sides{p, side}.factor();
    const std::vector<Index>& source = side == Side::a ? x_of : w_of;
    const std::optional<Index> run = scale_run(p, f);
    if (run && block % *run != 0) continue;
    const std::vector<Index> stretch = p.wgrad ? bounds_of(p) : std::vector<Index>{0, p.k};
    std::vector<Index> of_scales = stretch;
    for (Index& bound : of_scales) bound = ceil_div(bound, run.value_or(1));
    for (const bool with : {true, false}) {
      if (with && !run) continue;
      const char* scales = !run ? "" : with ? ", with their scales" : ", without their scales";
      list.push_back({f.name + "=blocks",
                      words + scales,
                      Stage::input,
                      [side, with, stretch, of_scales, source, block, run](Call& c) {
                        const std::optional<Product> now = product_of(c);
                        if (!now) return false;
                        const ProductSide& own = Sides{*now, side}.factor();
                        return read_whole(c, read_runs(*now, own.codes_name, *own.codes, stretch,
                                                       source, block)) &&
                               (!with || read_whole(c, read_runs(*now, own.scales_name, *own.scales,
                                                                 of_scales, source, block / *run)));
                      },
                      {},
                      true});
    }
  }
}

}  // namespace mxo

// Which block of one side each block of the other was multiplied with, along the depth.
#include <numeric>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"

namespace mxo {
namespace {

constexpr Index kRows = 6;
constexpr Index kColumns = 256;
constexpr Index kMostBlocks = 64;
constexpr double kFits = 0.003;  ///< of the root mean square that may be left: bf16 and its sums

/// Block `a` of x with block `b` of w.
struct Pair {
  std::size_t a;
  std::size_t b;
};

double dot(const ProductSides::Line& x, const ProductSides::Line& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

/// What came of a row of x, and what its blocks give.
struct PairRow {
  ProductSides::Line got;
  ProductSides::Line left;                   ///< when the chosen pairs take all they can
  std::vector<ProductSides::Line> products;  ///< of each pair
};

/// Products of every block of some rows of x with every block of some lines of w, and the actual
/// output.
class Pairing {
 public:
  Pairing(const Product& p, const Output& y, Index g, const std::vector<Index>& rows, Index block)
      : blocks_(static_cast<std::size_t>(ceil_div(p.depth(g), block))) {
    const ElementReader read(y.expected->dtype());
    const Index step = std::max<Index>(1, p.n / kColumns);
    std::vector<ProductSides::Line> lines;
    for (Index j = 0; j < p.n; j += step) lines.push_back(p.line_b(g, j));
    for (const Index r : rows) {
      const ProductSides::Line x = p.line_a(g, r);
      PairRow row;
      for (Index j = 0; j < p.n; j += step)
        row.got.push_back(read(y.actual_bits(p.output_row(g, r) * y.columns + j)).value);
      const double square = dot(row.got, row.got);
      if (!std::isfinite(square) || square == 0.0) continue;
      for (std::size_t at = 0; at < blocks_ * blocks_; ++at) {
        ProductSides::Line& products = row.products.emplace_back();
        for (const ProductSides::Line& w : lines)
          products.push_back(of_blocks(x, w, pair(at), static_cast<std::size_t>(block)));
      }
      // Loud rows count no more than others.
      const double gain = std::sqrt(static_cast<double>(lines.size()) / square);
      for (double& v : row.got) v *= gain;
      rows_.push_back(std::move(row));
    }
    for (std::size_t c = 0; c < lines.size(); ++c) level_column(c);
    for (PairRow& row : rows_) row.left = row.got;
  }

  std::size_t blocks() const { return blocks_; }

  /// Pairs that give the actual output, greedily, one for each block of w at most; empty if they do
  /// not.
  std::vector<Pair> pairs() {
    std::vector<std::size_t> chosen;
    std::vector<Pair> found;
    double all = 0.0;
    for (const PairRow& row : rows_) all += dot(row.got, row.got);
    while (left() > kFits * kFits * all) {
      double most = 0.0;
      std::size_t best = 0;
      for (std::size_t at = 0; at < blocks_ * blocks_; ++at) {
        const double gain = gain_of(at);
        if (gain <= most) continue;
        most = gain;
        best = at;
      }
      const bool again = std::any_of(found.begin(), found.end(),
                                     [&](const Pair& p) { return p.b == pair(best).b; });
      if (most == 0.0 || again) return {};
      chosen.push_back(best);
      found.push_back(pair(best));
      for (PairRow& row : rows_) {
        if (!refit(row, chosen)) return {};
      }
    }
    return found;
  }

 private:
  Pair pair(std::size_t at) const { return {at / blocks_, at % blocks_}; }

  static double of_blocks(const ProductSides::Line& x, const ProductSides::Line& w, const Pair& p,
                          std::size_t run) {
    double sum = 0.0;
    const std::size_t end = std::min({run, x.size() - p.a * run, w.size() - p.b * run});
    for (std::size_t d = 0; d < end; ++d) sum += x[p.a * run + d] * w[p.b * run + d];
    return std::isfinite(sum) ? sum : 0.0;
  }

  /// Loud columns count no more than others, either.
  void level_column(std::size_t c) {
    double square = 0.0;
    for (const PairRow& row : rows_) square += row.got[c] * row.got[c];
    if (square == 0.0) return;
    for (PairRow& row : rows_) {
      row.got[c] /= std::sqrt(square);
      for (ProductSides::Line& products : row.products) products[c] /= std::sqrt(square);
    }
  }

  double left() const {
    double sum = 0.0;
    for (const PairRow& row : rows_) sum += dot(row.left, row.left);
    return sum;
  }

  double gain_of(std::size_t at) const {
    double gain = 0.0;
    for (const PairRow& row : rows_) {
      const double own = dot(row.products[at], row.products[at]);
      const double with = dot(row.products[at], row.left);
      if (own > 0.0) gain += with * with / own;
    }
    return gain;
  }

  static bool refit(PairRow& row, const std::vector<std::size_t>& chosen) {
    LeastSquares equations(chosen.size());
    ProductSides::Line features(chosen.size());
    for (std::size_t c = 0; c < row.got.size(); ++c) {
      for (std::size_t i = 0; i < chosen.size(); ++i) features[i] = row.products[chosen[i]][c];
      equations.add(features, row.got[c]);
    }
    const std::optional<LeastSquaresFit> fit = equations.solved();
    row.left = row.got;
    for (std::size_t i = 0; fit && i < chosen.size(); ++i) {
      for (std::size_t c = 0; c < row.got.size(); ++c)
        row.left[c] -= fit->x[i] * row.products[chosen[i]][c];
    }
    return fit.has_value();
  }

  std::size_t blocks_;
  std::vector<PairRow> rows_;
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
    const Index from = nth(source, b);
    const Index at = d + (from - b) * run;
    return from < 0 ? from : at < *end ? at : d;
  });
}

/// "k = 96 to 127 of x meet k = 160 to 191 of w, ...": block b of w met block source[b] of x.
std::string words_of(const Product& p, const std::vector<Index>& source, Index block) {
  constexpr Index kListed = 4;
  const auto run_of = [&](Index b, const ProductSide& f) {
    return (p.wgrad ? "rows " : "k = ") +
           filled("{} to {} of {}", b * block, (b + 1) * block - 1, f.name);
  };
  std::string text;
  Index moved = 0;
  for (Index b = 0; b < static_cast<Index>(source.size()); ++b) {
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
  const ProductSides s{p, Side::a};
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
  for (const Pair& pair : pairing.pairs()) {
    x_of[pair.b] = static_cast<Index>(pair.a);
    w_of[pair.a] = static_cast<Index>(pair.b);
    moved = moved || pair.a != pair.b;
  }
  if (!moved) return;
  const std::string words = words_of(p, x_of, block);
  for (const Side side : kSides) {
    const ProductSide& f = ProductSides{p, side}.factor();
    const std::vector<Index> source = side == Side::a ? x_of : w_of;
    const std::optional<Index> run = scale_run(p, f);
    if (run && block % *run != 0) continue;
    const std::vector<Index> stretch = p.wgrad ? bounds_of(p) : std::vector<Index>{0, p.k};
    std::vector<Index> of_scales = stretch;
    for (Index& bound : of_scales) bound = ceil_div(bound, run.value_or(1));
    for (const bool with : {true, false}) {
      if (with && !run) continue;
      const char* scales = !run ? "" : with ? ", with their scales" : ", without their scales";
      const auto alter = [=](Call& c) {
        const std::optional<Product> now = product_of(c);
        if (!now) return false;
        const ProductSide& own = ProductSides{*now, side}.factor();
        return read_whole(c, read_runs(*now, own.codes_name, *own.codes, stretch, source, block)) &&
               (!with || read_whole(c, read_runs(*now, own.scales_name, *own.scales, of_scales,
                                                 source, block / *run)));
      };
      add_altered_locally(list, f.name + "=blocks", words + scales, alter);
    }
  }
}

}  // namespace mxo

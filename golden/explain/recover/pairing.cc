// Which block of one side each block of the other was multiplied with, along K.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "golden/explain/name/places.h"
#include "golden/explain/recover/scales.h"
#include "golden/judge/elements.h"

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

/// Products of every block of some rows of x with every block of some lines of w, and what came.
class Pairing {
 public:
  Pairing(const Product& p, const Output& y, Index g, const std::vector<Index>& rows, Index block)
      : blocks_(static_cast<std::size_t>(ceil_div(p.depth(g), block))) {
    const ElementReader read(y.expected->dtype());
    std::vector<std::vector<double>> lines;
    std::vector<Index> columns;
    const Index step = std::max<Index>(1, p.n / kColumns);
    for (Index j = 0; j < p.n; j += step) {
      columns.push_back(j);
      lines.push_back(p.line_b(g, j));
    }
    columns_ = columns.size();
    for (const Index r : rows) {
      const std::vector<double> x = p.line_a(g, r);
      std::vector<double> came;
      std::vector<double> products(blocks_ * blocks_ * columns_);
      bool finite = true;
      for (std::size_t c = 0; c < columns_; ++c) {
        const Element e = read(y.came(p.output_row(g, r) * y.columns + columns[c]));
        finite = finite && std::isfinite(e.value) && !e.nan && !e.infinite;
        came.push_back(e.value);
        for (std::size_t a = 0; a < blocks_; ++a) {
          for (std::size_t b = 0; b < blocks_; ++b) {
            products[(a * blocks_ + b) * columns_ + c] = dot(x, lines[c], a, b, block);
          }
        }
      }
      double square = 0.0;
      for (const double v : came) square += v * v;
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

  static double dot(const std::vector<double>& x, const std::vector<double>& w, std::size_t a,
                    std::size_t b, Index block) {
    const auto run = static_cast<std::size_t>(block);
    double sum = 0.0;
    for (std::size_t d = 0; d < run; ++d) {
      if (a * run + d < x.size() && b * run + d < w.size()) sum += x[a * run + d] * w[b * run + d];
    }
    return std::isfinite(sum) ? sum : 0.0;
  }

  static double squares(const std::vector<std::vector<double>>& rows) {
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
    std::vector<double> matrix(n * n);
    std::vector<double> x(n);
    for (std::size_t i = 0; i < n; ++i) {
      const double* a = of(row, chosen[i]);
      for (std::size_t c = 0; c < columns_; ++c) x[i] += a[c] * came_[row][c];
      for (std::size_t j = 0; j <= i; ++j) {
        const double* b = of(row, chosen[j]);
        for (std::size_t c = 0; c < columns_; ++c) matrix[i * n + j] += a[c] * b[c];
      }
      matrix[i * n + i] = matrix[i * n + i] > 0.0 ? matrix[i * n + i] * (1.0 + 1e-12) : 1.0;
    }
    std::vector<double> inverse;
    if (!solve(matrix, x, inverse)) return false;
    for (std::size_t c = 0; c < columns_; ++c) {
      double v = came_[row][c];
      for (std::size_t i = 0; i < n; ++i) v -= x[i] * of(row, chosen[i])[c];
      left_[row][c] = v;
    }
    return true;
  }

  std::size_t blocks_;
  std::size_t columns_ = 0;
  std::vector<std::vector<double>> came_;
  std::vector<std::vector<double>> left_;
  std::vector<std::vector<double>> products_;
};

/// Runs of K of a tensor taken from elsewhere: run b from source[b]; -1: zero.
bool take_runs(Call& call, const std::string& name, const std::vector<Index>& source, Index run) {
  const Tensor& given = call.input(name);
  const Index columns = given.shape().back();
  Tensor taken = given;
  const std::size_t size = size_of(given.dtype());
  for (Index r = 0; r < given.elements() / columns; ++r) {
    for (Index b = 0; b < static_cast<Index>(source.size()); ++b) {
      const Index from = source[static_cast<std::size_t>(b)];
      const Index n = std::min(run, columns - std::max(b, from) * run);
      std::byte* to = taken.data() + static_cast<std::size_t>(r * columns + b * run) * size;
      if (from < 0) {
        std::memset(to, 0, static_cast<std::size_t>(std::min(run, columns - b * run)) * size);
      } else if (n > 0) {
        std::memcpy(to, given.data() + static_cast<std::size_t>(r * columns + from * run) * size,
                    static_cast<std::size_t>(n) * size);
      }
    }
  }
  call.replace(name, std::move(taken));
  return true;
}

/// The same of rows of a gradient's operand, in every group that has these runs.
bool take_rows(Call& call, const std::string& name, const std::vector<Index>& source, Index run,
               const std::vector<Index>& begins) {
  const Tensor& given = call.input(name);
  const Index rows = given.extent(0);
  if (rows == 0) return false;
  Tensor taken = given;
  const std::size_t row = given.bytes() / static_cast<std::size_t>(rows);
  for (std::size_t g = 0; g + 1 < begins.size(); ++g) {
    for (Index b = 0; b < static_cast<Index>(source.size()); ++b) {
      const Index from = source[static_cast<std::size_t>(b)];
      const Index n = std::min(run, begins[g + 1] - begins[g] - std::max(b, from) * run);
      if (n <= 0) continue;
      std::byte* to = taken.data() + static_cast<std::size_t>(begins[g] + b * run) * row;
      if (from < 0) {
        std::memset(to, 0, static_cast<std::size_t>(n) * row);
      } else {
        std::memcpy(to, given.data() + static_cast<std::size_t>(begins[g] + from * run) * row,
                    static_cast<std::size_t>(n) * row);
      }
    }
  }
  call.replace(name, std::move(taken));
  return true;
}

std::string run_words(Index b, Index block) {
  return std::to_string(b * block) + " to " + std::to_string((b + 1) * block - 1);
}

/// "k = 96 to 127 of x meet k = 160 to 191 of w, ...": block b of w met block source[b] of x.
std::string words_of(const Product& p, const std::vector<Index>& source, Index block) {
  const std::string depth = p.wgrad ? "rows " : "k = ";
  const std::string a = " of " + p.a.name;
  const std::string b_side = " of " + p.b.name;
  std::string text;
  std::size_t told = 0;
  std::size_t moved = 0;
  for (std::size_t b = 0; b < source.size(); ++b) {
    const auto own = static_cast<Index>(b);
    if (source[b] == own) continue;
    ++moved;
    if (told == 4) continue;
    ++told;
    text += (text.empty() ? "" : ", ") + depth;
    text += source[b] < 0 ? run_words(own, block) + b_side + " meet nothing"
                          : run_words(source[b], block) + a + " meet " + depth +
                                run_words(own, block) + b_side;
  }
  if (moved > told) text += ", and so on for " + std::to_string(moved) + " blocks";
  return p.wgrad ? text + " (rows of each group)" : text;
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
  for (Index g = 0; g < p.groups(); ++g) {
    if (p.depth(g) <= p.block) continue;  // one block has no other to meet
    std::vector<Index> failing;
    for (Index r = p.first_line(g); r < p.last_line(g); ++r) {
      Index left = 0;
      for (Index c = 0; c < y.columns; ++c) {
        left += y.mark(p.output_row(g, r), c) == Mark::differs;
      }
      if (left * 2 > y.columns) failing.push_back(r);
    }
    if (failing.size() <= rows.size()) continue;
    rows = std::move(failing);
    group = g;
  }
  if (rows.size() < 2) return;
  std::vector<Index> kept;
  const auto n = static_cast<Index>(rows.size());
  const Index most = std::min(n, kRows);
  for (Index i = 0; i < most; ++i) kept.push_back(rows[static_cast<std::size_t>(i * n / most)]);
  Index block = p.block;
  while (ceil_div(p.depth(group), block) > kMostBlocks) block *= 2;
  Pairing pairing(p, y, group, kept, block);
  const std::vector<Pair> pairs = pairing.pairs();
  std::vector<Index> x_of(pairing.blocks(), -1);  // of block b of w: the block of x
  std::vector<Index> w_of(pairing.blocks(), -1);
  bool moved = false;
  for (const Pair& pair : pairs) {
    x_of[pair.b] = static_cast<Index>(pair.a);
    w_of[pair.a] = static_cast<Index>(pair.b);
    moved = moved || pair.a != pair.b;
  }
  if (!moved) return;
  const std::string words = words_of(p, x_of, block);
  struct Moved {
    const ProductSide& factor;
    const std::vector<Index>& source;
    const std::string& id;
  };
  const std::string a_id = p.a.name + "=blocks";
  const std::string b_id = p.b.name + "=blocks";
  std::vector<Index> begins{0};
  begins.insert(begins.end(), p.ends.begin(), p.ends.end());
  for (const Moved& m : {Moved{p.a, x_of, a_id}, Moved{p.b, w_of, b_id}}) {
    const ProductSide& f = m.factor;
    const bool bytes = f.scales != nullptr && size_of(f.scales->dtype()) == 1;
    const bool whole =
        std::all_of(begins.begin(), begins.end(), [](Index begin) { return begin % 32 == 0; });
    const bool scaled = p.wgrad ? bytes && whole
                                : f.scales != nullptr && f.scales->rank() == f.codes->rank() &&
                                      f.scales->shape().back() > 1;
    Index run = !scaled ? 0 : p.wgrad ? 32 : block_of(p.k, f.scales->shape().back());
    if (scaled && block % run != 0) continue;
    if (scaled) run = block / run;
    for (const bool with : {true, false}) {
      if (with && !scaled) continue;
      list.push_back({m.id,
                      words + (!scaled ? ""
                               : with  ? ", with their scales"
                                       : ", without their scales"),
                      Stage::input,
                      [codes = f.codes_name, scales = f.scales_name, source = m.source, block, run,
                       with, begins, wgrad = p.wgrad](Call& c) {
                        if (wgrad) {
                          std::vector<Index> of_scales = begins;
                          for (Index& begin : of_scales) begin /= 32;
                          return take_rows(c, codes, source, block, begins) &&
                                 (!with || take_rows(c, scales, source, run, of_scales));
                        }
                        return take_runs(c, codes, source, block) &&
                               (!with || take_runs(c, scales, source, run));
                      },
                      {},
                      true});
    }
  }
}

}  // namespace mxo

// One side of a product: its lines, those of the other side that they meet, what came of both, and
// the scales that this shows, measured by least squares.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/case/output.h"
#include "golden/explain/case/product.h"

namespace mxo {

enum class Side : std::uint8_t { a, b };
inline constexpr Side kSides[] = {Side::a, Side::b};

/// A line of a group.
struct LineAt {
  Index group;
  Index line;
};

struct ProductSides {
  using Line = std::vector<double>;

  const Product& p;
  Side side;
  const ProductSide& factor() const { return side == Side::a ? p.a : p.b; }
  ProductSides other() const { return {p, side == Side::a ? Side::b : Side::a}; }
  /// Lines of the whole operand, and the axis of its tensors along which they lie.
  Index lines() const { return side == Side::a ? p.a_lines : p.n; }
  int axis() const { return p.wgrad || side == Side::b ? 1 : 0; }
  /// Whether each line belongs to one group: rows of x do.
  bool by_groups() const { return side == Side::a && !p.wgrad; }
  /// Lines of group g: [first, last).
  Index first(Index g) const { return side == Side::a ? p.first_line(g) : 0; }
  Index last(Index g) const { return side == Side::a ? p.last_line(g) : p.n; }

  /// The values of line i of group g.
  Line line(Index g, Index i) const { return side == Side::a ? p.line_a(g, i) : p.line_b(g, i); }
  /// The same without scales.
  Line codes_of(Index g, Index i) const;
  /// The scale of each value; 1 where there is none.
  Line scales_of(Index g, Index i) const;
  /// Where code d of a line lies, and its scale; -1: none.
  Index code(Index g, Index i, Index d) const {
    if (p.wgrad) return (p.begin(g) + d) * lines() + i;
    return (side == Side::a ? i : g * p.n + i) * p.k + d;
  }
  Index scale(Index g, Index i, Index d) const {
    return side == Side::a ? p.scale_a(g, i, d) : p.scale_b(g, i, d);
  }
  /// The scale itself; 1 where there is none.
  double scale_of(Index g, Index i, Index d) const {
    const Index at = scale(g, i, d);
    return at < 0 ? 1.0 : scale_value(*factor().scales, at);
  }

  /// The element of the output that line i of this side and line j of the other make.
  Index element(const Output& y, Index g, Index i, Index j) const {
    return side == Side::a ? p.output_row(g, i) * y.columns + j
                           : p.output_row(g, j) * y.columns + i;
  }
  Mark mark(const Output& y, Index g, Index i, Index j) const {
    return nth(y.marks, element(y, g, i, j));
  }
  /// Lines of the other side with which line i made elements that differ.
  std::vector<Index> differing(const Output& y, Index g, Index i) const;
  /// Lines in which elements differ: of group g, and of all.
  std::vector<Index> failing(const Output& y, Index g) const;
  std::vector<LineAt> failing(const Output& y) const;
};

/// The group that a row of x belongs to; the last one for rows of none.
Index group_of_row(const Product& p, Index row);

/// Lines of a side, decoded once.
class DecodedLines {
 public:
  explicit DecodedLines(const ProductSides& s) : s_(s) {}
  const ProductSides::Line& operator()(Index g, Index i) {
    const auto [at, fresh] = kept_.try_emplace({g, i});
    if (fresh) at->second = s_.line(g, i);
    return at->second;
  }
  void forget() { kept_.clear(); }

 private:
  ProductSides s_;
  std::map<std::pair<Index, Index>, ProductSides::Line> kept_;
};

/// Adds of(n, d) over the depth to sum n, several at a time: additions of one wait for one another.
inline constexpr Index kChains = 8;
template <typename Of>
void add_up(std::span<double> sums, Index depth, const Of& of) {
  const Index most = std::ssize(sums) / kChains * kChains;
  for (Index n = 0; n < most; n += kChains) {
    double part[kChains];
    std::copy_n(sums.begin() + n, kChains, part);
    for (Index d = 0; d < depth; ++d)
      for (Index i = 0; i < kChains; ++i) part[i] += of(n + i, d);
    std::ranges::copy(part, sums.begin() + n);
  }
  for (Index n = most; n < std::ssize(sums); ++n)
    for (Index d = 0; d < depth; ++d) nth(sums, n) += of(n, d);
}

/// The sums of products over every `run` of the depth.
std::vector<double> run_sums(const ProductSides::Line& a, const ProductSides::Line& b, Index run);

/// A line, and what it made with some lines of the other side: numbers, of numbers.
struct SampledLine {
  struct With {
    const ProductSides::Line* other;
    double got;
    double rest;    ///< of it, less what is expected
    double weight;  ///< by how finely it is stored
  };
  LineAt at;
  ProductSides::Line values;
  std::vector<With> outputs = {};
};

/// `decoded` outlives it.
SampledLine sampled(const ProductSides& s, const Output& y, const LineAt& at,
                    const std::vector<Index>& others, DecodedLines& decoded);

/// Begins of the groups, and the last end.
std::vector<Index> bounds_of(const Product& p);

/// An operand read from source(d) along the depth, columns of a forward product or rows of a
/// gradient; beyond it are zeros.
inline Reading read_depth(const Product& p, const std::string& operand,
                          std::function<Index(Index)> source) {
  return read_lines(operand, p.wgrad ? 0 : -1, std::move(source));
}

/// What each block of depth of one line was multiplied by, as a multiple of what it should have
/// been: the least-squares solution of y[i, j] = sum over blocks of c[block] P[block, i, j] with
/// every partial product P known.
struct Effective {
  Index group = 0;
  Index line = 0;             ///< row of x, column of w, dy or x
  std::vector<double> ratio;  ///< c of each block
  std::vector<double> sigma;  ///< its standard error
  double misfit = 1.0;        ///< what is left of y over y, root mean square
  Index blocks() const { return static_cast<Index>(ratio.size()); }
  /// The block is known well enough to tell a power of two from the next.
  bool known(Index block) const;
  /// The output is one of these operands, whatever the scales.
  bool fits() const { return misfit < 0.02; }
};

/// Lines of `side` in which elements are left, spread over the output, at most `most`.
std::vector<Effective> measure(const Product& product, const Output& output, Side side, Index most);

/// The scales of one factor, as they were measured on some lines.
struct Observation {
  ProductSides s;
  std::vector<Effective> lines;

  const ProductSide& factor() const { return s.factor(); }
  /// Where the scale of a block of a line lies in the tensor of scales, or -1.
  Index at(const Effective& e, Index block) const {
    return s.scale(e.group, e.line, block * s.p.block);
  }
  /// Whether one scale covers the whole depth of a line.
  bool one_scale() const {
    return std::ranges::all_of(
        lines, [this](const Effective& e) { return at(e, 0) == at(e, e.blocks() - 1); });
  }
  /// Scales of a line, where they lie together.
  Index width() const { return one_scale() ? 1 : factor().scales->shape().back(); }
  /// The scale of a block as measured, on the grid of its type; NaN where it is unknown.
  double value(const Effective& e, Index block) const;
  /// Scales that a block may have been taken with.
  struct Range {
    double from;
    double to;
    bool holds(double given) const { return given >= from && given <= to; }
  };
  /// None where nothing is known of the block.
  std::optional<Range> range(const Effective& e, Index block) const;
  /// Whether a block may have been taken with the scale of block `from`: not known to be another.
  bool may(const Effective& e, Index block, Index from) const;
  /// Of the one scale of a line, by all of its blocks.
  Range range(const Effective& e) const;
};

}  // namespace mxo

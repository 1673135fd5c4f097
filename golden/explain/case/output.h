// One output as a matrix: what is expected, the actual output, and which elements part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "formats/tensor.h"
#include "golden/explain/case/call.h"
#include "golden/judge/elements.h"

namespace mxo {

/// 0 to n - 1.
inline std::vector<Index> range_of(Index n) {
  std::vector<Index> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), Index{0});
  return all;
}

/// At most `most` of a list, evenly spread over it, the first among them.
template <typename T>
std::vector<T> evenly_spread(std::vector<T> all, Index most) {
  const auto n = static_cast<Index>(all.size());
  if (n <= most) return all;
  for (Index i = 0; i < most; ++i) nth(all, i) = nth(all, i * n / most);
  all.resize(static_cast<std::size_t>(std::max<Index>(most, 0)));
  return all;
}

/// The same of first to last - 1.
inline std::vector<Index> evenly_spread(Index first, Index last, Index most) {
  const Index n = std::max<Index>(last - first, 0);
  std::vector<Index> kept = range_of(std::min(n, std::max<Index>(most, 0)));
  const auto count = static_cast<Index>(kept.size());
  for (Index& i : kept) i = first + i * n / count;
  return kept;
}

/// What is known of one element of an output.
enum class Mark : std::uint8_t {
  same,       ///< the expected bits (NaN is one value), or not compared
  differs,    ///< others, and nothing explains them yet
  explained,  ///< others, and a cause that was accepted explains them
};

/// Rows and columns of an output in which something differs that nothing explains, where they are a
/// place: whole tiles, every second column.  What is done there need not be done elsewhere.
struct UnexplainedRegion {
  std::vector<std::uint8_t> rows;  ///< empty: they are all of the output, or no place
  std::vector<std::uint8_t> columns;
  bool is_part() const { return !rows.empty(); }
  bool holds(Index row, Index column) const {
    return !is_part() || (nth(rows, row) != 0 && nth(columns, column) != 0);
  }
};

/// Neighbours that one scale made, of a dequantised output.
struct Tile {
  Index rows = 1;
  Index columns = 1;
};

/// An output of a call, rows and columns of the last axis.  A tensor that came flat, or in two
/// dimensions, is read in the expected shape.  Views: both tensors outlive it.
struct Output {
  std::string name;
  const Tensor* expected = nullptr;
  const Tensor* actual = nullptr;
  Index rows = 0;
  Index columns = 0;
  Index compared_rows = 0;           ///< rows from here on belong to no group
  std::vector<Index> ends;           ///< last row of each group, exclusive; empty without groups
  std::string_view group = "group";  ///< what `ends` are ends of: "group" or "expert"
  std::vector<Mark> marks;           ///< of each element
  Index differing = 0;               ///< not the same, explained or not
  Index left = 0;                    ///< not the same and not explained
  UnexplainedRegion live;            ///< as it was when find_live() was called
  Tile tile;
  /// From another output: codes that are right for the actual scales, weights of other choices.
  bool follows = false;
  bool without_rule = false;  ///< no rule of a quantiser gives any part of what differs

  Mark& mark(Index r, Index c) { return nth(marks, r * columns + c); }
  Mark mark(Index r, Index c) const { return nth(marks, r * columns + c); }
  void mark_explained(Index i) {
    Mark& m = nth(marks, i);
    left -= m == Mark::differs;
    if (m == Mark::differs) m = Mark::explained;
  }
  /// Whether one of `n` neighbours differs and is not explained.
  bool differs_in(Index first, Index n) const;
  /// The next element from `i` on that differs and is not explained, or `end`.
  Index next_difference(Index i, Index end) const;
  bool differs(Index i) const { return nth(marks, i) == Mark::differs; }
  void mark_all() {
    for (std::size_t i = 0; i < marks.size(); ++i) mark_explained(static_cast<Index>(i));
  }
  std::uint64_t expected_bits(Index i) const { return bits_at(*expected, i); }
  std::uint64_t actual_bits(Index i) const { return bits_at(*actual, i); }
  /// What is expected as element `i`, and what came as it.
  Element wanted(Index i) const { return ElementReader(expected->dtype())(expected_bits(i)); }
  Element came(Index i) const { return ElementReader(expected->dtype())(actual_bits(i)); }
};

/// Output `name`.  Throws Error(shape) if the tensors cannot be held against each other.
Output make_output(const Call& call, const std::string& name, const Tensor& expected,
                   const Tensor& actual);

/// Elements that differ and are not explained yet.
Index left_of(const std::vector<Output>& outputs);

/// The marks of outputs, to come back to.
class Snapshot {
 public:
  explicit Snapshot(const std::vector<Output>& outputs);
  void restore(std::vector<Output>& outputs) const;
  /// Elements of output `n` that differed then.
  Index left(std::size_t n) const { return left_[n]; }
  /// Those of them that are explained now.
  std::vector<Index> explained_since(const std::vector<Output>& outputs, std::size_t n) const;

 private:
  std::vector<std::vector<Mark>> marks_;  ///< of an output of which something was explained
  std::vector<Index> left_;
};
/// As if nothing had been explained yet.
void forget_explained(Output& output);
void forget_explained(std::vector<Output>& outputs);

/// Looks where something is left.
void find_live(Output& output);

/// A model of part of an output: element (i, j) is that of rows[i], columns[j].
struct Variant {
  std::vector<Index> rows;
  std::vector<Index> columns;
  Tensor model;  ///< the type of the output; of a trial that was judged, nothing
};

/// What a model gets right of the elements that still differ.
struct VariantMatch {
  Index seen = 0;     ///< elements of the patch that differ from what is expected, not explained
  Index fixed = 0;    ///< of these, those that the model gives, in units it gives altogether
  Index broken = 0;   ///< elements of the patch, outside of those units too, that it does not give
  Index hits = 0;     ///< units that the model alters and gives
  Index misses = 0;   ///< units that it alters, and of which it gives not all
  Index spoiled = 0;  ///< units of which it gives some, and alters what is right
  Index beside = 0;   ///< units of which it gives nothing, and alters what is right
  Index astray = 0;   ///< elements beside the live part that the model does not give
  std::vector<std::uint8_t> mask;    ///< of the patch: 1 where fixed
  std::vector<std::uint8_t> nearly;  ///< 1 where given in units of which it gives nearly all
  bool by_columns = false;           ///< units are whole columns: rows say nothing
  double gain_db = 0;                ///< signal to noise of the model less that of the expected
  bool whole() const { return broken == 0; }
};

/// How small a unit may be in which a model has to give every element.
enum class Unit : std::uint8_t { whole, row, segment, line };

/// Holds `patch` against the actual output.  Where it fails somewhere, it is credited with the
/// units (rows, or 32 columns of a row; of `line` whole columns, too) in which every element fits
/// and that it alters at all.
VariantMatch credit(const Output& output, const Variant& patch, Unit least);

/// The output named, or null.
template <typename Outputs>
auto* output_named(Outputs& outputs, std::string_view name) {
  for (auto& o : outputs)
    if (o.name == name) return &o;
  return decltype(outputs.data()){};
}

// ---- The outputs of a call beside those that were expected.

struct Outputs {
  std::vector<Output> list;
  std::vector<std::string> missing;
  std::vector<std::vector<Output>> later_steps;  ///< that differ after the first step that does
  std::string later;  ///< the first step that differs, and how many outputs differ after it
};

/// `actual` beside `expected`.
Outputs outputs_of(const Call& call, const NamedTensors& expected, const NamedTensors& actual);

/// Of an operator of many steps only those outputs stay that belong to its first wrong step.
void keep_first_step(const Call& call, Outputs& outputs);

/// Signal to noise of all outputs, in dB; -infinity where one has a NaN or an infinity of its own.
double sqnr_of(const std::vector<Output>& outputs);

}  // namespace mxo

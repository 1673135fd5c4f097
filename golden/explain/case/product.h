// The operands of a product, whichever operator it is: lines of a and b, groups, scales, and their
// elements.  The one place that knows how grouped products spell them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "golden/explain/case/call.h"

namespace mxo {

/// One factor: lines that are contracted, [lines, depth], codes with or without scales.
struct ProductSide {
  std::string name;  ///< "x", "w" or "dy"
  const Tensor* codes = nullptr;
  const Tensor* scales = nullptr;  ///< null: none
  Dtype format = Dtype::bf16;
  std::string codes_name;
  std::string scales_name;
};

/// y[i, j] = sum over d of a[i, d] b[j, d] within group g.
/// Forward: a = x (rows of group g), b = w[g]; depth K.
/// Weight gradient: a = columns of dy, b = columns of x; depth: the rows of group g.
struct Product {
  bool wgrad = false;
  ProductSide a;
  ProductSide b;
  std::vector<Index> ends;
  Index groups() const { return static_cast<Index>(ends.size()); }
  Index begin(Index g) const { return g == 0 ? 0 : ends[static_cast<std::size_t>(g) - 1]; }
  Index end(Index g) const { return nth(ends, g); }
  Index k = 0;        ///< K of a forward product, rows of a weight gradient
  Index n = 0;        ///< columns of the output
  Index a_lines = 0;  ///< rows of x, or columns of dy
  /// Depth that one scale covers (of a), or the depth of one step where there are none.
  Index block = 32;
  std::string output;  ///< "y" or "dw"

  Index depth(Index g) const { return wgrad ? end(g) - begin(g) : k; }
  /// Where the element of the output lies, row-major: row of the output matrix.
  Index output_row(Index g, Index i) const { return wgrad ? g * a_lines + i : i; }
  /// Lines of a in group g: [first, last).
  Index first_line(Index g) const { return wgrad ? 0 : begin(g); }
  Index last_line(Index g) const { return wgrad ? a_lines : end(g); }

  /// Values of one line: decoded codes, times scales where they are given.
  std::vector<double> line_a(Index g, Index i) const;
  std::vector<double> line_b(Index g, Index j) const;
  /// Flat index in the tensor of scales of the scale of block `d / block` of a line; -1: none.
  Index scale_a(Index g, Index i, Index d) const;
  Index scale_b(Index g, Index j, Index d) const;
  /// Neighbours of depth, from each multiple of it on, that surely have one scale.
  Index depth_of_scale(const ProductSide& f) const;
};

/// The product that `call` is, if it is one with sensible operands.
std::optional<Product> product_of(const Call& call);

/// What no operator is, but a step of a layer: a product, rounded, whose rows then get the bias
/// [N], or that of their group [E, N], and are rounded again.
inline bool is_biased_product(const Call& call) {
  return call.op == "grouped_matmul" && call.has("bias");
}
/// Adds the bias of such a call to what its product gave.
void add_bias(const Call& call, Tensor& y);

/// Rows and columns of the output that a slice keeps, ascending.  Of a weight gradient rows are
/// columns of dy, the same in every group.
struct Window {
  std::vector<Index> rows;
  std::vector<Index> columns;
};

/// The bytes of `t` in another shape: what is missing is zeros.
Tensor resized(const Tensor& t, std::vector<Index> shape);
/// `tensor` with the indices `kept` of axis `axis` only.
Tensor gathered(const Tensor& tensor, int axis, const std::vector<Index>& kept);
/// The product of the kept lines only, with operands read as `readings` say; group_ends follow.
Call sliced(const Call& call, const Product& product, const Window& window,
            const std::vector<const Reading*>& readings = {});
/// The kept part of the output of a forward product.
Tensor sliced_result(const Tensor& y, const Window& window);
/// Rows of the output matrix that a window keeps.
std::vector<Index> output_rows(const Product& product, const Window& window);
/// Columns widened to whole runs where several share a scale of b.
std::vector<Index> whole_columns(const Product& product, const std::vector<Index>& columns,
                                 Index most);

/// Depth or lines that one scale covers: the power of two that so many scales belong to.
Index block_of(Index extent, Index scales);
/// An element of an f32, bf16 or f16 tensor; integers hold the bits of f32 or bf16.
inline float wide_value(const Tensor& t, Index i) {
  if (size_of(t.dtype()) == 4) return t.as<float>()[i];
  return t.dtype() == Dtype::f16 ? decode(t.as<F16>()[i]) : decode(t.as<BF16>()[i]);
}
/// t[i] = v, rounded to nearest even.
inline void store_wide(Tensor& t, Index i, float v) {
  if (size_of(t.dtype()) == 4) {
    t.as<float>()[i] = v;
  } else if (t.dtype() == Dtype::f16) {
    t.as<F16>()[i] = encode<kF16>(v);
  } else {
    t.as<BF16>()[i] = encode<kBF16>(v);
  }
}
/// A scale of any type as a number; NaN where it is one.
double scale_value(const Tensor& scales, Index i);
std::vector<double> scale_values(const Tensor& scales);

}  // namespace mxo

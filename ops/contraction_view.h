// A product as its operands lie in memory: groups of K-vectors, and which scale a K index has.
// Thread safety: values; what they point to is as its owner says.
#pragma once

#include <span>
#include <vector>

#include "formats/any_view.h"
#include "ops/sums.h"

namespace mxo {

struct GroupedMatmul;
struct GroupedMatmulWgrad;
struct FusedDot;

/// The value of one stored element of a float type, exactly.
MXO_HD inline float element_at(const void* data, Dtype dtype, Index offset) {
  switch (dtype) {
    case Dtype::f32: return static_cast<const float*>(data)[offset];
    case Dtype::bf16: return decode(static_cast<const BF16*>(data)[offset]);
    case Dtype::f16: return decode(static_cast<const F16*>(data)[offset]);
    case Dtype::e4m3: return decode(static_cast<const E4M3*>(data)[offset]);
    case Dtype::e4m3fnuz: return decode(static_cast<const E4M3Fnuz*>(data)[offset]);
    case Dtype::e5m2: return decode(static_cast<const E5M2*>(data)[offset]);
    case Dtype::e5m2fnuz: return decode(static_cast<const E5M2Fnuz*>(data)[offset]);
    default: return decode(static_cast<const E8M0*>(data)[offset]);
  }
}

/// Where a group lies among all.
struct GroupPlace {
  Index group = 0;
  Index start = 0;   ///< its first row
  Index blocks = 0;  ///< scale blocks of the groups before, where rows are contracted
};

/// One K-vector: element c is code(c) * scale(c).
struct KVector {
  const void* codes = nullptr;
  const void* scales = nullptr;  ///< null: every scale is 1
  Dtype codes_dtype = Dtype::bf16;
  Dtype scales_dtype = Dtype::f32;
  Index codes_start = 0;
  Index codes_step = 0;
  Index scales_start = 0;
  Index scales_step = 0;
  Index block = 1;  ///< neighbours that share a scale

  MXO_HD float code(Index c) const {
    return element_at(codes, codes_dtype, codes_start + c * codes_step);
  }
  MXO_HD float scale(Index c) const {
    if (scales == nullptr) return 1.0f;
    return element_at(scales, scales_dtype, scales_start + c / block * scales_step);
  }
};

/// One side of a product: `rows` K-vectors in each group.  Steps count elements.
struct Factor {
  Operand codes;
  Index start = 0;       ///< of element (0, 0) of group 0
  Index group_step = 0;  ///< from a group to the next
  Index row_step = 0;    ///< from a K-vector to the next
  Index step = 0;        ///< along K
  Index rows = 0;
  Operand scales;  ///< not given: every scale is 1
  Index scales_start = 0;
  Index scales_group_step = 0;
  Index scales_row_step = 0;
  Index scales_step = 0;
  Index first_row = 0;         ///< rows before row 0 in its tile of scales
  Index row_tile = 1;          ///< K-vectors that share a scale
  Index block = kWholeK;       ///< K indices that share a scale; kWholeK: all
  bool rows_are_rows = false;  ///< K-vectors are counted from row 0, not from the group's first
  bool k_is_rows = false;      ///< so are K indices; blocks of scales restart at each group

  static constexpr Index kWholeK = Index{1} << 62;

  MXO_HD bool scaled() const { return scales.rank > 0; }
  /// True if the scale changes along K.
  MXO_HD bool blocked() const { return scaled() && block != kWholeK; }
  /// Where element (i, c) of a group and its scale lie.
  MXO_HD Index code_at(const GroupPlace& g, Index i, Index c) const {
    return start + g.group * group_step + (i + (rows_are_rows ? g.start : 0)) * row_step +
           (c + (k_is_rows ? g.start : 0)) * step;
  }
  MXO_HD Index scale_at(const GroupPlace& g, Index i, Index c) const {
    const Index row = first_row + i + (rows_are_rows ? g.start : 0);
    const Index before = k_is_rows && block != kWholeK ? g.blocks : 0;
    return scales_start + g.group * scales_group_step + row / row_tile * scales_row_step +
           (before + c / block) * scales_step;
  }
  MXO_HD float scale(const GroupPlace& g, Index i, Index c) const {
    return scaled() ? element_at(scales.data, scales.dtype, scale_at(g, i, c)) : 1.0f;
  }
  MXO_HD KVector vector(const GroupPlace& g, Index i) const {
    KVector v;
    v.codes = codes.data;
    v.codes_dtype = codes.dtype;
    v.codes_start = code_at(g, i, 0);
    v.codes_step = step;
    if (!scaled()) return v;
    v.scales = scales.data;
    v.scales_dtype = scales.dtype;
    v.scales_start = scale_at(g, i, 0);
    v.scales_step = scales_step;
    v.block = block;
    return v;
  }
  /// K-vector i of a factor that is one group's.
  KVector k_vector(Index i) const { return vector({}, i); }
};

/// K indices that share a scale under ScaleForm::blockwise.
inline constexpr Index kScaleTile = 128;

/// Where the scales of a product are: the forms that fast kernels know.
enum class ScaleForm : std::uint8_t {
  none,       ///< bf16 operands
  mx,         ///< 8-bit codes, an e8m0 scale for 32 K indices, both inside the term
  rowwise,    ///< 8-bit codes, an f32 scale for the whole of K, after the sum
  blockwise,  ///< 8-bit codes, an f32 scale for 128 K indices; sums restart there, x then w
  other,      ///< anything else: the definition computes it
};

/// out[g, i, j] = sum over k of a[g, i, k] * b[g, j, k], summed as `sum` says.
struct ContractionView {
  Accumulation sum;  ///< fold and block are settled: resolved_sum
  ScaleForm form = ScaleForm::none;
  Factor a;
  Factor b;
  Index groups = 1;
  Index depth = 0;  ///< K; where rows are contracted, rows of all groups
  Operand c;        ///< f32, what the sums start from; not given: zero
  Index c_start = 0;
  Index c_group_step = 0;
  Index c_row_step = 0;
  Index c_column_step = 0;
  Result out;  ///< f32 or bf16
  Index out_start = 0;
  Index out_group_step = 0;
  Index out_row_step = 0;
  Index out_column_step = 0;

  MXO_HD bool contracts_rows() const { return a.k_is_rows; }
  MXO_HD Index out_at(const GroupPlace& g, Index i, Index j) const {
    return out_start + g.group * out_group_step +
           (i + (a.rows_are_rows ? g.start : 0)) * out_row_step + j * out_column_step;
  }
  MXO_HD Index c_at(const GroupPlace& g, Index i, Index j) const {
    return c_start + g.group * c_group_step + i * c_row_step + j * c_column_step;
  }
};

/// The product of all groups; its rows are those of all.  The operators have been checked.
ContractionView contraction_of(const GroupedMatmul& op);
ContractionView contraction_of(const GroupedMatmulWgrad& op);
ContractionView contraction_of(const FusedDot& op);

/// The products of the groups one by one, those without rows among them.  Host memory only.
std::vector<ContractionView> products_of(const GroupedMatmul& op);
std::vector<ContractionView> products_of(const GroupedMatmulWgrad& op);
std::vector<ContractionView> products_of(const FusedDot& op);

/// The form that a product's operands, their blocks of scales and its settled sum make.
ScaleForm form_of(const ContractionView& v);

/// K indices that share their scales on both sides, wherever blocks begin; 0 if no scale changes
/// along K.
Index shared_block(const Factor& a, const Factor& b);

/// Whether scales of these extents stand for `needed`, one a block: axes of extent 1 may be left
/// out at the end, and those before may be 1 where a scale holds for all.
bool scales_fit(const Operand& scales, std::span<const Index> needed);

}  // namespace mxo

// Grouped products that are hard to get right: shapes, memory, and numbers.
#pragma once

#include <array>
#include <utility>

#include "ops/grouped_matmul.h"
#include "tests/support/strided.h"

namespace mxo::test {

enum class Pass : std::uint8_t { forward, wgrad };

/// What the two sides of a product are.
enum class Scales : std::uint8_t {
  mx,         ///< codes, an e8m0 scale for 32 of K
  none,       ///< bf16
  rowwise,    ///< codes, an f32 scale for all of K
  blockwise,  ///< codes, an f32 scale for 128 of K; w of a forward product: for 128x128
  // Sides that differ, and blocks that no fast path has.
  half,               ///< plain f16
  single,             ///< plain f32
  half_by_rows,       ///< plain f16; codes, f32 for all of K
  rows_by_tensor,     ///< codes, f32 for all of K; codes, one f32 a tensor
  rows_by_squares,    ///< codes, f32 for all of K; codes, f32 for 128x128
  blocks_by_blocks,   ///< codes, f32 for 1x128 on both sides
  squares,            ///< codes, f32 for 128x128 on both sides
  squares_by_blocks,  ///< codes, f32 for 128x128; codes, f32 for 1x64
  mx_by_rows,         ///< codes, e8m0 for 1x32; codes, f32 for all of K
  mx_squares,         ///< codes, e8m0 for 32x32 on both sides
  mx_by_64,           ///< codes, e8m0 for 1x32; codes, e8m0 for 1x64
};
inline constexpr Scales kUsualScales[] = {Scales::mx, Scales::none, Scales::rowwise,
                                          Scales::blockwise};
inline constexpr auto kMixedScales = [] {
  using enum Scales;
  return std::to_array({half, single, half_by_rows, rows_by_tensor, rows_by_squares,
                        blocks_by_blocks, squares, squares_by_blocks, mx_by_rows, mx_squares,
                        mx_by_64});
}();
std::string_view name_of(Scales scales);

/// One side: codes with scales of `type`, one for `block.rows` lines x `block.columns` of K; or
/// plain elements of `type`.
struct SideScales {
  Dtype type;
  BlockExtents block;

  bool scaled() const { return block.rows >= 0; }
};
/// The sides of a product: x and w, or dy and x.
std::pair<SideScales, SideScales> sides_of(Scales scales, Pass pass);

/// What the numbers of a case are.
enum class CaseFill : std::uint8_t {
  moderate,    ///< any finite code, scales near 1: what training has
  wide,        ///< any finite code, scales of the whole range: bytes 0, 1, 254; f32 subnormals
  cancelling,  ///< every term meets its negative, near by or far away, but for a few
  giant,       ///< one term outweighs all others, often against its negative
  special,     ///< NaN, infinity, zero and -0 in some lines' codes and scales
  ties,        ///< results on the midpoint of two floats, or one quantum beside; also subnormal
               ///< ones and ones at the edge of overflow
};
inline constexpr CaseFill kFills[] = {CaseFill::moderate, CaseFill::wide,    CaseFill::cancelling,
                                      CaseFill::giant,    CaseFill::special, CaseFill::ties};

/// How the elements of operands lie in memory.
enum class Layout : std::uint8_t { packed, padded, exchanged, reversed };

struct GemmSpec {
  Scales scales = Scales::mx;
  Pass pass = Pass::forward;
  Dtype a = Dtype::e4m3;  ///< codes of x, in wgrad of dy; ignored without scales
  Dtype b = Dtype::e4m3;  ///< codes of w, in wgrad of x
  Dtype out = Dtype::bf16;
  std::vector<Index> groups = {32, 64};  ///< rows of each
  Index spare_rows = 0;                  ///< rows beyond the last group
  Index n = 32;
  Index k = 64;
  CaseFill fill = CaseFill::moderate;
  Layout layout = Layout::packed;
  std::uint64_t seed = 1;
};

inline GemmSpec spec_of(Scales scales, Pass pass, Dtype out, std::vector<Index> groups, Index n,
                        Index k) {
  GemmSpec spec;
  spec.scales = scales;
  spec.pass = pass;
  spec.out = out;
  spec.groups = std::move(groups);
  spec.n = n;
  spec.k = k;
  return spec;
}

std::string describe(const GemmSpec& spec);

/// One product with operands of its own.
class GemmCase {
 public:
  explicit GemmCase(const GemmSpec& spec);

  const GemmSpec& spec() const { return spec_; }
  /// Runs it and returns every byte of the result's memory: what is not compared keeps the pattern.
  std::vector<std::byte> run(Backend& backend, const Accumulation& sum = kExact);

  // Output (g, i, j) contracts line i of a with line j of b, `length(g)` elements each.
  Index lines_a(Index g) const;
  Index lines_b() const { return spec_.pass == Pass::forward ? spec_.n : spec_.k; }
  Index length(Index g) const;
  /// Where element c of a line and its scale lie in their memory; a scale of -1: there is none.
  struct Place {
    Index code;
    Index scale;
  };
  Place place_a(Index g, Index i, Index c) const;
  Place place_b(Index g, Index j, Index c) const;
  Index place_out(Index g, Index i, Index j) const;
  Index outputs() const;
  /// K indices that share their scales on both sides; 0: all.
  Index shared_block() const;

  Strided a, a_scales, b, b_scales, ends, out;
  Dtype a_dtype, b_dtype;
  SideScales a_side, b_side;
  bool prepared = false;  ///< b is; the product runs twice

 private:
  Index start(Index g) const;
  /// Blocks of `height` rows in the groups before g.
  Index first_block(Index g, Index height) const;
  std::vector<Index> scales_of_rows(const SideScales& side, Index lines) const;
  Index scale_of_rows(const Strided& scales, const SideScales& side, Index g, Index line,
                      Index c) const;
  Index rows() const;
  GemmSpec spec_;
};

/// Shapes no blocking likes, in all usual scales, every pass and layout: empty groups, one row, K =
/// 32, all rows in one group, rows beyond the last group, ragged edges, many small groups. Every
/// turn meets them with other formats, outputs, numbers and memory.
std::vector<GemmSpec> hostile_specs(int turns);

}  // namespace mxo::test

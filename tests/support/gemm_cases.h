// Grouped products that are hard to get right: shapes, memory, and numbers.
#pragma once

#include <string>
#include <vector>

#include "ops/backend.h"
#include "ops/grouped_matmul.h"
#include "tests/support/guarded_tensor.h"

namespace mxo::test {

enum class Pass : std::uint8_t { forward, wgrad };

/// What the numbers of a case are.
enum class Fill : std::uint8_t {
  moderate,    ///< any finite code, scales near 1: what training has
  wide,        ///< any finite code, scales of the whole range: bytes 0, 1, 254; f32 subnormals
  cancelling,  ///< every term meets its negative, near by or far away, but for a few
  giant,       ///< one term outweighs all others, often against its negative
  special,     ///< NaN, infinity, zero and -0 in some lines' codes and scales
  ties,        ///< results on the midpoint of two floats, or one quantum beside; also subnormal
               ///< ones and ones at the edge of overflow
};
inline constexpr Fill kFills[] = {Fill::moderate, Fill::wide,    Fill::cancelling,
                                  Fill::giant,    Fill::special, Fill::ties};

struct GemmSpec {
  Scaling scaling = Scaling::mx;
  Pass pass = Pass::forward;
  Dtype a = Dtype::e4m3;  ///< of x, in wgrad of dy; ignored without scales
  Dtype b = Dtype::e4m3;  ///< of w, in wgrad of x
  Dtype out = Dtype::bf16;
  std::vector<Index> groups = {32, 64};  ///< rows of each
  Index spare_rows = 0;                  ///< rows beyond the last group
  Index n = 32;
  Index k = 64;
  Fill fill = Fill::moderate;
  Layout layout = Layout::packed;
  std::uint64_t seed = 1;
};

std::string describe(const GemmSpec& spec);

/// One product with operands of its own.
class GemmCase {
 public:
  explicit GemmCase(const GemmSpec& spec);

  const GemmSpec& spec() const { return spec_; }
  /// Runs it and returns every byte of the result's memory: what is not owed keeps the pattern.
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

  GuardedTensor a, a_scales, b, b_scales, ends, out;
  Dtype a_dtype, b_dtype, scale_dtype;

 private:
  Index start(Index g) const;
  Index first_tile(Index g) const;
  Index rows() const;
  GemmSpec spec_;
};

/// Shapes no blocking likes, in every scaling, pass and layout: empty groups, one row, K = 32,
/// all rows in one group, rows beyond the last group, ragged edges, many small groups.
/// Every turn meets them with other formats, outputs, numbers and memory.
std::vector<GemmSpec> hostile_specs(int turns);

}  // namespace mxo::test

// Codes with the scales of their blocks: what quantisers write and products read.
// Thread safety: values; what they point to is as its owner says.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "formats/any_view.h"
#include "formats/mx_block.h"

namespace mxo {

class Backend;

/// In BlockExtents: the whole extent of that axis.  Rows are then those of a group, where groups
/// are given.
inline constexpr Index kWhole = 0;

/// Rows and columns of the elements that share a scale.
struct BlockExtents {
  Index rows = 1;
  Index columns = kMxBlock;
  friend constexpr bool operator==(const BlockExtents&, const BlockExtents&) = default;
};

/// Elements that share a scale along an axis in the block-wise recipes.
inline constexpr Index kScaledBlock = 128;

inline constexpr BlockExtents kMxColumns{1, kMxBlock};  ///< 32 neighbours of a row
inline constexpr BlockExtents kMxRows{kMxBlock, 1};     ///< 32 neighbours of a column
inline constexpr BlockExtents kRowBlock{1, kScaledBlock};
inline constexpr BlockExtents kColumnBlock{kScaledBlock, 1};
inline constexpr BlockExtents kSquareBlock{kScaledBlock, kScaledBlock};
inline constexpr BlockExtents kWholeRow{1, kWhole};
inline constexpr BlockExtents kWholeColumn{kWhole, 1};
inline constexpr BlockExtents kWholeTensor{kWhole, kWhole};

/// "1x32", "128x128", "1xK", "Rx1", "RxK".
std::string name_of(const BlockExtents& block);

/// How the scales of a tensor lie in memory.
enum class ScaleStorage : std::uint8_t {
  row_major,  ///< through the view of the scales
  blocked,    ///< 128x4 tiles (formats/scale_layout.h), padding 0
};

/// A view of codes and of the scales of their blocks; owns nothing.
///
///   codes   [.., R, K]   any element type; without scales, a plain bf16, f16 or f32 tensor
///   scales  e8m0 or f32: one a block, as shape_of_scales says; what a code is multiplied by
///
/// Blocks start at row 0 and column 0 of each matrix, and again at the first row of each group
/// where an operator is given groups.
template <typename Void>
struct ScaledView {
  AnyView<Void> codes;
  AnyView<Void> scales;
  BlockExtents block = {};
  ScaleStorage storage = ScaleStorage::row_major;

  constexpr bool given() const { return codes.given(); }
  constexpr bool scaled() const { return scales.given(); }
};

using ScaledTensor = ScaledView<const void>;
using ScaledResult = ScaledView<void>;

/// A plain tensor: no scales.
constexpr ScaledTensor unscaled(const Operand& tensor) { return {tensor, {}}; }

/// The same memory, to be read.
constexpr ScaledTensor to_read(const ScaledResult& result) {
  return {to_read(result.codes), to_read(result.scales), result.block, result.storage};
}

/// The same memory with its last two axes exchanged.
template <typename Void>
AnyView<Void> transposed(AnyView<Void> view) {
  const int r = view.rank - 2;
  const int k = view.rank - 1;
  const Index extent = view.extent[r];
  const Index stride = view.stride[r];
  view.extent[r] = view.extent[k];
  view.stride[r] = view.stride[k];
  view.extent[k] = extent;
  view.stride[k] = stride;
  return view;
}

/// The same of codes and scales.
template <typename Void>
ScaledView<Void> transposed(const ScaledView<Void>& tensor) {
  return {transposed(tensor.codes), tensor.scaled() ? transposed(tensor.scales) : tensor.scales,
          BlockExtents{tensor.block.columns, tensor.block.rows}, tensor.storage};
}

/// A view over memory that is not ours, row-major where `stride` is empty; strides count elements.
/// The memory must be one that the backend it is handed to can read, and outlive the call.
/// Throws Error(shape) for more than kMaxRank axes, a negative extent, or as many strides as axes
/// are not.
Operand view_of(const void* data, Dtype dtype, std::span<const Index> shape,
                std::span<const Index> stride = {});
Result view_of(void* data, Dtype dtype, std::span<const Index> shape,
               std::span<const Index> stride = {});
inline Operand view_of(const void* data, Dtype dtype, std::initializer_list<Index> shape,
                       std::initializer_list<Index> stride = {}) {
  return view_of(data, dtype, std::span(shape.begin(), shape.size()),
                 std::span(stride.begin(), stride.size()));
}
inline Result view_of(void* data, Dtype dtype, std::initializer_list<Index> shape,
                      std::initializer_list<Index> stride = {}) {
  return view_of(data, dtype, std::span(shape.begin(), shape.size()),
                 std::span(stride.begin(), stride.size()));
}

/// Shape of the scales of codes [.., R, K]: [.., ceil(R/r), ceil(K/c)] for blocks of r x c, a whole
/// axis counting as one block; [K] codes have scales [ceil(K/c)].  Blocked, [.., bytes].
std::vector<Index> shape_of_scales(std::span<const Index> shape, const BlockExtents& block,
                                   ScaleStorage storage = ScaleStorage::row_major);

/// The same for codes [R, K] whose blocks start again at each group: [G, ceil(K/c)], G as
/// row_blocks says.
std::vector<Index> shape_of_scales(std::span<const Index> shape, const BlockExtents& block,
                                   Index row_blocks);

/// Sum over groups of ceil(rows / `rows`), or the number of groups where `rows` is kWhole, for ends
/// that lie in host memory.
Index row_blocks(const Operand& group_ends, Index rows);

/// The same; where the backend's memory is not the host's, the most there can be for `height` rows.
Index most_row_blocks(const Backend& backend, const Operand& group_ends, Index rows, Index height);

/// The extents of a view.
template <typename Void>
std::span<const Index> shape_of(const AnyView<Void>& view) {
  return {view.extent, static_cast<std::size_t>(view.rank)};
}

}  // namespace mxo

// Views over anyone's memory, and the shapes of scales.
#include "ops/scaled_tensor.h"

#include "formats/scale_layout.h"
#include "ops/backend.h"

namespace mxo {
namespace {

template <typename Void>
AnyView<Void> view_over(Void* data, Dtype dtype, std::span<const Index> shape,
                        std::span<const Index> stride) {
  if (shape.size() > kMaxRank) {
    throw Error(Fault::shape, "view: found rank " + std::to_string(shape.size()) +
                                  ", needs at most " + std::to_string(kMaxRank));
  }
  if (!stride.empty() && stride.size() != shape.size()) {
    throw Error(Fault::shape, "view: found " + std::to_string(stride.size()) +
                                  " strides, needs one for each of " +
                                  std::to_string(shape.size()) + " axes");
  }
  AnyView<Void> view;
  view.data = data;
  view.dtype = dtype;
  view.rank = static_cast<int>(shape.size());
  Index adjacent = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    const auto axis = static_cast<std::size_t>(i);
    if (shape[axis] < 0) {
      throw Error(Fault::shape,
                  "view: found extent " + std::to_string(shape[axis]) + ", needs 0 or more");
    }
    view.extent[i] = shape[axis];
    view.stride[i] = stride.empty() ? adjacent : stride[axis];
    adjacent *= shape[axis];
  }
  return view;
}

std::string extent_name(Index extent, char whole) {
  return extent == kWhole ? std::string(1, whole) : std::to_string(extent);
}

Index blocks_of(Index extent, Index block) { return block == kWhole ? 1 : ceil_div(extent, block); }

}  // namespace

std::string name_of(const BlockExtents& block) {
  return extent_name(block.rows, 'R') + "x" + extent_name(block.columns, 'K');
}

Operand view_of(const void* data, Dtype dtype, std::span<const Index> shape,
                std::span<const Index> stride) {
  return view_over(data, dtype, shape, stride);
}

Result view_of(void* data, Dtype dtype, std::span<const Index> shape,
               std::span<const Index> stride) {
  return view_over(data, dtype, shape, stride);
}

std::vector<Index> shape_of_scales(std::span<const Index> shape, const BlockExtents& block,
                                   ScaleStorage storage) {
  std::vector<Index> scales(shape.begin(), shape.end());
  if (scales.empty()) return scales;
  scales.back() = blocks_of(scales.back(), block.columns);
  if (scales.size() > 1) {
    Index& rows = scales[scales.size() - 2];
    rows = blocks_of(rows, block.rows);
  }
  if (storage == ScaleStorage::blocked && scales.size() > 1) {
    const Index columns = scales.back();
    scales.pop_back();
    scales.back() = blocked_bytes(scales.back(), columns);
  }
  return scales;
}

std::vector<Index> shape_of_scales(std::span<const Index> shape, const BlockExtents& block,
                                   Index row_blocks) {
  return {row_blocks, blocks_of(shape.back(), block.columns)};
}

Index row_blocks(const Operand& group_ends, Index rows) {
  const auto ends = group_ends.as<const std::int32_t, 1>();
  if (rows == kWhole) return ends.extent[0];
  Index blocks = 0;
  Index start = 0;
  for (Index g = 0; g < ends.extent[0]; ++g) {
    blocks += ceil_div(ends(g) - start, rows);
    start = ends(g);
  }
  return blocks;
}

Index most_row_blocks(const Backend& backend, const Operand& group_ends, Index rows, Index height) {
  if (rows == kWhole) return group_ends.extent[0];
  if (backend.reads_host_memory()) return row_blocks(group_ends, rows);
  return height / rows + group_ends.extent[0];
}

}  // namespace mxo

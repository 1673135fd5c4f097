// Operand memory that notices: odd offsets, gaps between rows, margins, all under a pattern.
#include "tests/support/guarded_tensor.h"

#include <algorithm>
#include <cstring>

namespace mxo::test {
namespace {
constexpr Index kMargin = 65;  // elements before and behind
}

GuardedTensor::GuardedTensor(Dtype dtype, std::vector<Index> extent, Layout layout) {
  shape_.dtype = dtype;
  shape_.rank = static_cast<int>(extent.size());
  std::copy(extent.begin(), extent.end(), shape_.extent);
  std::vector<int> order;  // axes from the innermost in memory outwards
  for (int axis = shape_.rank - 1; axis >= 0; --axis) order.push_back(axis);
  if (layout == Layout::exchanged && shape_.rank >= 2) std::swap(order[0], order[1]);
  Index stride = layout == Layout::reversed ? 3 : 1;
  for (const int axis : order) {
    shape_.stride[axis] = stride;
    stride *= shape_.extent[axis];
    if (axis == order[0] && layout != Layout::packed) stride += stride % 2 == 0 ? 3 : 4;
  }
  base_ = layout == Layout::packed ? 64 : kMargin;
  const Index last = shape_.rank - 1;
  if (layout == Layout::reversed && shape_.rank > 0 && shape_.extent[last] > 0) {
    base_ += (shape_.extent[last] - 1) * shape_.stride[last];
    shape_.stride[last] = -shape_.stride[last];
  }
  memory_.resize(static_cast<std::size_t>(stride + 2 * kMargin) * size_of(dtype));
  wipe();
}

void GuardedTensor::wipe() { std::fill(memory_.begin(), memory_.end(), std::byte{0xA5}); }

Result GuardedTensor::place(std::byte* memory) const {
  Result view = shape_;
  view.data = memory + static_cast<std::size_t>(base_) * size_of(shape_.dtype);
  return view;
}

Index GuardedTensor::offset(std::initializer_list<Index> index) const {
  Index at = base_;
  int axis = 0;
  for (const Index i : index) at += i * shape_.stride[axis++];
  return at;
}

void GuardedTensor::set_bits(Index offset, std::uint32_t bits) {
  const std::size_t bytes = size_of(shape_.dtype);
  std::memcpy(memory_.data() + static_cast<std::size_t>(offset) * bytes, &bits, bytes);
}

std::uint32_t GuardedTensor::bits(Index offset) const {
  const std::size_t bytes = size_of(shape_.dtype);
  std::uint32_t value = 0;
  std::memcpy(&value, memory_.data() + static_cast<std::size_t>(offset) * bytes, bytes);
  return value;
}

}  // namespace mxo::test

// The maps between rows and groups, one row at a time.
#include "ops/row_maps.h"

#include <cstring>

#include "emu/reference/reference_backend.h"

namespace mxo {
namespace {

/// One row of bytes at any strides: `from` may be null, for zeros.
void copy_row(std::byte* to, Index to_stride, const std::byte* from, Index from_stride,
              Index elements, Index size) {
  for (Index d = 0; d < elements; ++d) {
    std::byte* at = to + d * to_stride * size;
    if (from == nullptr) {
      std::memset(at, 0, static_cast<std::size_t>(size));
    } else {
      std::memcpy(at, from + d * from_stride * size, static_cast<std::size_t>(size));
    }
  }
}

/// The bytes of row (i), or of row (i, j) of a tensor of rank 3.
template <typename View>
auto* row_of(const View& view, Index i, Index j = 0) {
  const auto size = static_cast<Index>(size_of(view.dtype));
  const Index at = i * view.stride[0] + (view.rank == 3 ? j * view.stride[1] : 0);
  using Byte = std::conditional_t<std::is_same_v<View, Operand>, const std::byte, std::byte>;
  return static_cast<Byte*>(view.data) + at * size;
}

}  // namespace

void ReferenceBackend::run(const RowsToGroups& op) {
  const auto group = op.m_indices.as<const std::int32_t, 1>();
  const auto ends = op.group_ends.as<std::int32_t, 1>();
  Index e = 0;
  std::int32_t end = 0;  // of the rows that name a group
  for (Index r = 0; r < group.extent[0]; ++r) {
    if (group(r) < 0) continue;
    for (; e < group(r); ++e) ends(e) = static_cast<std::int32_t>(r);
    end = static_cast<std::int32_t>(r + 1);
  }
  for (; e < ends.extent[0]; ++e) ends(e) = end;
}

void ReferenceBackend::run(const GroupsToRows& op) {
  const auto ends = op.group_ends.as<const std::int32_t, 1>();
  const auto counts = op.counts.as<const std::int32_t, 1>();
  const auto group = op.m_indices.as<std::int32_t, 1>();
  for (Index r = 0; r < group.extent[0]; ++r) group(r) = -1;
  Index first = 0;
  for (Index e = 0; e < ends.extent[0]; ++e) {
    const Index end = op.counts.given() ? first + counts(e) : ends(e);
    for (Index r = first; r < end; ++r) group(r) = static_cast<std::int32_t>(e);
    first = ends(e);
  }
}

void ReferenceBackend::run(const GroupsToMasked& op) {
  const auto ends = op.group_ends.as<const std::int32_t, 1>();
  const auto counts = op.counts.as<std::int32_t, 1>();
  const auto size = static_cast<Index>(size_of(op.x.dtype));
  Index first = 0;
  for (Index e = 0; e < ends.extent[0]; ++e) {
    const Index rows = ends(e) - first;
    for (Index i = 0; i < op.y.extent[1]; ++i) {
      const std::byte* from = i < rows ? row_of(op.x, first + i) : nullptr;
      copy_row(row_of(op.y, e, i), op.y.stride[2], from, op.x.stride[1], op.x.extent[1], size);
    }
    counts(e) = static_cast<std::int32_t>(rows);
    first = ends(e);
  }
}

void ReferenceBackend::run(const MaskedToGroups& op) {
  const auto counts = op.counts.as<const std::int32_t, 1>();
  const auto ends = op.group_ends.as<std::int32_t, 1>();
  const auto size = static_cast<Index>(size_of(op.y.dtype));
  Index row = 0;
  for (Index e = 0; e < counts.extent[0]; ++e) {
    for (Index i = 0; i < counts(e); ++i, ++row) {
      copy_row(row_of(op.x, row), op.x.stride[1], row_of(op.y, e, i), op.y.stride[2],
               op.x.extent[1], size);
    }
    ends(e) = static_cast<std::int32_t>(row);
  }
  for (; row < op.x.extent[0]; ++row) {
    copy_row(row_of(op.x, row), op.x.stride[1], nullptr, 0, op.x.extent[1], size);
  }
}

}  // namespace mxo

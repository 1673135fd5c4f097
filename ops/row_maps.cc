// The maps between rows and groups: their checks, and loops over rows.
#include "ops/row_maps.h"

#include <cstring>
#include <string>

#include "ops/checked.h"

namespace mxo {
namespace {

std::string entry(std::string_view operand, Index at, Index value) {
  return std::string(operand) + ": entry " + std::to_string(at) + " is " + std::to_string(value);
}

template <typename Void>
void check_vector(const Check& check, std::string_view name, const AnyView<Void>& view) {
  check.rank(name, view, 1);
  check.dtype(name, view, {Dtype::i32});
}

/// The groups that rows name.
void check_rows(const Check& check, const Operand& m_indices, Index groups) {
  const auto group = m_indices.as<const std::int32_t, 1>();
  Index last = 0;
  for (Index r = 0; r < group.extent[0]; ++r) {
    if (group(r) == -1) continue;
    const bool fits = group(r) >= last && group(r) < groups;
    check.that(fits, fits ? ""
                          : entry("m_indices", r, group(r)) + ", needs -1 or a group from " +
                                std::to_string(last) + " to " + std::to_string(groups - 1));
    last = group(r);
  }
}

/// Counts from 0 to what `most` says of each; returns their sum.
template <typename Most>
Index check_counts(const Check& check, const Operand& counts, const Most& most) {
  const auto count = counts.as<const std::int32_t, 1>();
  Index sum = 0;
  for (Index e = 0; e < count.extent[0]; ++e) {
    const bool fits = count(e) >= 0 && count(e) <= most(e);
    check.that(
        fits, fits ? "" : entry("counts", e, count(e)) + ", needs 0 to " + std::to_string(most(e)));
    sum += count(e);
  }
  return sum;
}

/// Rows of group e.
Index rows_of(const TensorView<const std::int32_t, 1>& ends, Index e) {
  return ends(e) - (e > 0 ? ends(e - 1) : 0);
}

/// Ends from 0 to at most `rows` that never decrease.
void check_ends(const Check& check, const Operand& group_ends, Index rows) {
  const auto ends = group_ends.as<const std::int32_t, 1>();
  Index last = 0;
  for (Index e = 0; e < ends.extent[0]; ++e) {
    const bool fits = ends(e) >= last && ends(e) <= rows;
    check.that(fits, fits ? ""
                          : entry("group_ends", e, ends(e)) + ", needs " + std::to_string(last) +
                                " to " + std::to_string(rows));
    last = ends(e);
  }
}

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

void write_ends(const RowsToGroups& op) {
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

void write_rows(const GroupsToRows& op) {
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

void spread(const GroupsToMasked& op) {
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

void gather(const MaskedToGroups& op) {
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

}  // namespace

void rows_to_groups(const RowsToGroups& op) {
  const Check check("rows_to_groups");
  check_vector(check, "m_indices", op.m_indices);
  check_vector(check, "group_ends", op.group_ends);
  check_rows(check, op.m_indices, op.group_ends.extent[0]);
  check.apart("group_ends", op.group_ends, "m_indices", op.m_indices);
  write_ends(op);
}

void groups_to_rows(const GroupsToRows& op) {
  const Check check("groups_to_rows");
  check_vector(check, "group_ends", op.group_ends);
  check_vector(check, "m_indices", op.m_indices);
  check_ends(check, op.group_ends, op.m_indices.extent[0]);
  if (op.counts.given()) {
    check.dtype("counts", op.counts, {Dtype::i32});
    check.shape("counts", op.counts, {op.group_ends.extent[0]});
    const auto ends = op.group_ends.as<const std::int32_t, 1>();
    check_counts(check, op.counts, [&](Index e) { return rows_of(ends, e); });
    check.apart("m_indices", op.m_indices, "counts", op.counts);
  }
  check.apart("m_indices", op.m_indices, "group_ends", op.group_ends);
  write_rows(op);
}

void groups_to_masked(const GroupsToMasked& op) {
  const Check check("groups_to_masked");
  check.rank("x", op.x, 2);
  check_vector(check, "group_ends", op.group_ends);
  const Index groups = op.group_ends.extent[0];
  check.rank("y", op.y, 3);
  check.dtype("y", op.y, {op.x.dtype});
  check.shape("y", op.y, {groups, op.y.extent[1], op.x.extent[1]});
  check.dtype("counts", op.counts, {Dtype::i32});
  check.shape("counts", op.counts, {groups});
  check_ends(check, op.group_ends, op.x.extent[0]);
  const auto ends = op.group_ends.as<const std::int32_t, 1>();
  for (Index e = 0; e < groups; ++e) {
    const Index rows = rows_of(ends, e);
    check.that(rows <= op.y.extent[1], "max_rows: found " + std::to_string(op.y.extent[1]) +
                                           ", needs the " + std::to_string(rows) +
                                           " rows of group " + std::to_string(e));
  }
  for (const auto& [name, result] : {std::pair{"y", op.y}, std::pair{"counts", op.counts}}) {
    check.apart(name, result, "x", op.x);
    check.apart(name, result, "group_ends", op.group_ends);
  }
  check.apart("y", op.y, "counts", op.counts);
  spread(op);
}

void masked_to_groups(const MaskedToGroups& op) {
  const Check check("masked_to_groups");
  check.rank("y", op.y, 3);
  check.dtype("counts", op.counts, {Dtype::i32});
  check.shape("counts", op.counts, {op.y.extent[0]});
  check.rank("x", op.x, 2);
  check.dtype("x", op.x, {op.y.dtype});
  check.shape("x", op.x, {op.x.extent[0], op.y.extent[2]});
  check.dtype("group_ends", op.group_ends, {Dtype::i32});
  check.shape("group_ends", op.group_ends, {op.y.extent[0]});
  const Index counted = check_counts(check, op.counts, [&](Index) { return op.y.extent[1]; });
  check.that(counted <= op.x.extent[0], "rows: found " + std::to_string(op.x.extent[0]) +
                                            ", needs at least the " + std::to_string(counted) +
                                            " that are counted");
  for (const auto& [name, result] :
       {std::pair{"x", op.x}, std::pair{"group_ends", op.group_ends}}) {
    check.apart(name, result, "y", op.y);
    check.apart(name, result, "counts", op.counts);
  }
  check.apart("x", op.x, "group_ends", op.group_ends);
  gather(op);
}

}  // namespace mxo

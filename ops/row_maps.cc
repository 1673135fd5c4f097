// Checks of the maps between rows and groups.
#include "ops/row_maps.h"

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

}  // namespace

void rows_to_groups(Backend& backend, const RowsToGroups& op) {
  const Check check("rows_to_groups");
  check_vector(check, "m_indices", op.m_indices);
  check_vector(check, "group_ends", op.group_ends);
  if (backend.reads_host_memory()) check_rows(check, op.m_indices, op.group_ends.extent[0]);
  check.apart("group_ends", op.group_ends, "m_indices", op.m_indices);
  Checked::run(backend, op);
}

void groups_to_rows(Backend& backend, const GroupsToRows& op) {
  const Check check("groups_to_rows");
  check_vector(check, "m_indices", op.m_indices);
  check.group_ends(backend, op.group_ends, op.m_indices.extent[0]);
  if (op.counts.given()) {
    check.dtype("counts", op.counts, {Dtype::i32});
    check.shape("counts", op.counts, {op.group_ends.extent[0]});
    const auto ends = op.group_ends.as<const std::int32_t, 1>();
    if (backend.reads_host_memory()) {
      check_counts(check, op.counts, [&](Index e) { return rows_of(ends, e); });
    }
    check.apart("m_indices", op.m_indices, "counts", op.counts);
  }
  check.apart("m_indices", op.m_indices, "group_ends", op.group_ends);
  Checked::run(backend, op);
}

void groups_to_masked(Backend& backend, const GroupsToMasked& op) {
  const Check check("groups_to_masked");
  check.rank("x", op.x, 2);
  check.rank("group_ends", op.group_ends, 1);
  const Index groups = op.group_ends.extent[0];
  check.rank("y", op.y, 3);
  check.dtype("y", op.y, {op.x.dtype});
  check.shape("y", op.y, {groups, op.y.extent[1], op.x.extent[1]});
  check.dtype("counts", op.counts, {Dtype::i32});
  check.shape("counts", op.counts, {groups});
  check.group_ends(backend, op.group_ends, op.x.extent[0]);
  const auto ends = op.group_ends.as<const std::int32_t, 1>();
  for (Index e = 0; e < groups && backend.reads_host_memory(); ++e) {
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
  Checked::run(backend, op);
}

void masked_to_groups(Backend& backend, const MaskedToGroups& op) {
  const Check check("masked_to_groups");
  check.rank("y", op.y, 3);
  check.dtype("counts", op.counts, {Dtype::i32});
  check.shape("counts", op.counts, {op.y.extent[0]});
  check.rank("x", op.x, 2);
  check.dtype("x", op.x, {op.y.dtype});
  check.shape("x", op.x, {op.x.extent[0], op.y.extent[2]});
  check.dtype("group_ends", op.group_ends, {Dtype::i32});
  check.shape("group_ends", op.group_ends, {op.y.extent[0]});
  if (backend.reads_host_memory()) {
    const Index counted = check_counts(check, op.counts, [&](Index) { return op.y.extent[1]; });
    check.that(counted <= op.x.extent[0], "rows: found " + std::to_string(op.x.extent[0]) +
                                              ", needs at least the " + std::to_string(counted) +
                                              " that are counted");
  }
  for (const auto& [name, result] :
       {std::pair{"x", op.x}, std::pair{"group_ends", op.group_ends}}) {
    check.apart(name, result, "y", op.y);
    check.apart(name, result, "counts", op.counts);
  }
  check.apart("x", op.x, "group_ends", op.group_ends);
  Checked::run(backend, op);
}

}  // namespace mxo

// Groups padded and rows permuted, as runs of neighbouring rows.
#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/row_moves.h"
#include "ops/pad_groups.h"
#include "ops/permute.h"

namespace mxo::cpu {

void CpuBackend::run(const PadGroups& op) {
  const auto group_ends = op.group_ends.as<const std::int32_t, 1>();
  const auto starts = op.padded_starts.as<std::int32_t, 1>();
  const auto ends = op.padded_ends.as<std::int32_t, 1>();
  RowRuns runs(2 * group_ends.extent[0] + 1);
  Index at = 0;
  Index row = 0;
  for (Index g = 0; g < group_ends.extent[0]; ++g) {
    const Index size = group_ends(g) - row;
    const Index taken = round_up(size, op.alignment);
    starts(g) = static_cast<std::int32_t>(at);
    ends(g) = static_cast<std::int32_t>(at + taken);
    runs.add(at, row, size);
    runs.add(at + size, -1, taken - size);
    row += size;
    at += taken;
  }
  runs.add(at, -1, op.y.extent[0] - at);
  move_rows(op.y, op.x, runs, threads());
}

void CpuBackend::run(const UnpadGroups& op) {
  const auto group_ends = op.group_ends.as<const std::int32_t, 1>();
  const auto starts = op.padded_starts.as<const std::int32_t, 1>();
  RowRuns runs(group_ends.extent[0]);
  Index row = 0;
  for (Index g = 0; g < group_ends.extent[0]; ++g) {
    runs.add(row, starts(g), group_ends(g) - row);
    row = group_ends(g);
  }
  move_rows(op.x, op.y, runs, threads());
}

void CpuBackend::run(const PermuteIndices& op) {
  const auto counts = op.tokens_per_expert.as<const std::int32_t, 1>();
  const auto indices = op.indices.as<std::int32_t, 1>();
  const auto sizes = op.sizes.as<std::int32_t, 1>();
  const auto ends = op.ends.as<std::int32_t, 1>();
  std::vector<std::int32_t> first(static_cast<std::size_t>(counts.extent[0]));
  std::int32_t before = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    first[i] = before;
    before += counts(static_cast<Index>(i));
  }
  Index at = 0;
  for (Index e = 0; e < op.experts; ++e) {
    const Index start = at;
    for (Index p = 0; p < op.ranks; ++p) {
      const Index i = p * op.experts + e;
      const std::int32_t from = first[static_cast<std::size_t>(i)];
      for (std::int32_t n = 0; n < counts(i); ++n) indices(at++) = from + n;
    }
    const Index total = at - start;
    const Index size = round_up(total > 0 ? total : 1, op.alignment);
    for (; at < start + size; ++at) indices(at) = -1;
    sizes(e) = static_cast<std::int32_t>(size);
    ends(e) = static_cast<std::int32_t>(at);
  }
  for (; at < indices.extent[0]; ++at) indices(at) = -1;
}

void CpuBackend::run(const Permute& op) {
  const auto indices = op.indices.as<const std::int32_t, 1>();
  RowRuns runs(indices.extent[0]);
  for (Index i = 0; i < indices.extent[0]; ++i) runs.add(i, indices(i));
  move_rows(op.y, op.x, runs, threads());
}

void CpuBackend::run(const Unpermute& op) {
  const auto indices = op.indices.as<const std::int32_t, 1>();
  std::vector<std::int32_t> source(static_cast<std::size_t>(op.x.extent[0]), -1);
  for (Index i = 0; i < indices.extent[0]; ++i) {
    if (indices(i) >= 0)
      source[static_cast<std::size_t>(indices(i))] = static_cast<std::int32_t>(i);
  }
  RowRuns runs(op.x.extent[0]);
  for (std::size_t t = 0; t < source.size(); ++t) runs.add(static_cast<Index>(t), source[t]);
  move_rows(op.x, op.y, runs, threads());
}

}  // namespace mxo::cpu

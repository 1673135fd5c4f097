// Rows between groups and one matrix a group: counts and ends by the host, elements by a thread
// each.
#include "emu/cuda/group_ends.cuh"
#include "emu/cuda/host_copies.cuh"
#include "ops/row_maps.h"

namespace mxo::cuda {
namespace {

__device__ void move_element(std::byte* to, const std::byte* from, int size) {
  for (int b = 0; b < size; ++b) to[b] = from == nullptr ? std::byte{0} : from[b];
}

/// y[e, i, :] = x[row i of group e, :], zeros below.
__global__ void to_masked_kernel(Operand x, Ends ends, Result y, Index elements, int size) {
  const Index rows = y.extent[1];
  const Index columns = y.extent[2];
  const Index step = grid_threads();
  for (Index at = grid_thread(); at < elements; at += step) {
    const Index e = at / columns / rows;
    const Index r = at / columns % rows + start_of(ends, e);
    const auto* from = static_cast<const std::byte*>(x.data) +
                       (r * x.stride[0] + at % columns * x.stride[1]) * size;
    move_element(static_cast<std::byte*>(y.data) + device_offset(y, at) * size,
                 r < ends(e) ? from : nullptr, size);
  }
}

/// x[row i of group e, :] = y[e, i, :], zeros past the last end.
__global__ void to_groups_kernel(Operand y, Ends ends, Result x, Index elements, int size) {
  const Index columns = x.extent[1];
  const Index step = grid_threads();
  for (Index at = grid_thread(); at < elements; at += step) {
    const Index r = at / columns;
    const Index e = group_of(ends, r);
    const std::byte* from = nullptr;
    if (e < ends.extent[0]) {
      const Index i = r - start_of(ends, e);
      from = static_cast<const std::byte*>(y.data) +
             (e * y.stride[0] + i * y.stride[1] + at % columns * y.stride[2]) * size;
    }
    move_element(static_cast<std::byte*>(x.data) + device_offset(x, at) * size, from, size);
  }
}

/// The same tensor without columns: its rows are counted, and nothing of it is read or written.
template <typename Void>
AnyView<Void> without_columns(AnyView<Void> view) {
  view.extent[view.rank - 1] = 0;
  return view;
}

}  // namespace

void DeviceBackend::run(const GroupsToMasked& op) {
  HostCopies host(*this);
  groups_to_masked(host.reference(), {without_columns(op.x), host.of(op.group_ends),
                                      without_columns(op.y), host.of(op.counts)});
  host.put_back();
  if (op.y.elements() == 0) return;
  to_masked_kernel<<<blocks_for(op.y.elements()), kThreads, 0, stream()>>>(
      op.x, op.group_ends.as<const std::int32_t, 1>(), op.y, op.y.elements(),
      static_cast<int>(size_of(op.y.dtype)));
  check_launch("groups_to_masked");
}

void DeviceBackend::run(const MaskedToGroups& op) {
  HostCopies host(*this);
  masked_to_groups(host.reference(), {without_columns(op.y), host.of(op.counts),
                                      without_columns(op.x), host.of(op.group_ends)});
  host.put_back();
  if (op.x.elements() == 0) return;
  to_groups_kernel<<<blocks_for(op.x.elements()), kThreads, 0, stream()>>>(
      op.y, to_read(op.group_ends).as<const std::int32_t, 1>(), op.x, op.x.elements(),
      static_cast<int>(size_of(op.x.dtype)));
  check_launch("masked_to_groups");
}

}  // namespace mxo::cuda

// Groups padded and unpadded; sizes are read on the device only.
#include "emu/cuda/group_ends.cuh"
#include "emu/cuda/row_moves.cuh"
#include "ops/pad_groups.h"

namespace mxo::cuda {
namespace {

using Starts = TensorView<std::int32_t, 1>;

__global__ void __launch_bounds__(kScanThreads)
    padded_kernel(Ends ends, Index rows, Starts starts, Starts padded_ends, Index alignment,
                  FaultWord faults) {
  Index base = 0;
  for (Index first = 0; first < ends.extent[0]; first += kScanThreads) {
    const Index g = first + threadIdx.x;
    Index taken = 0;
    if (g < ends.extent[0]) {
      const Index size = ends(g) - start_of(ends, g);
      if (size < 0 || ends(g) > rows) faults.report(DeviceFault::group_ends);
      taken = size > 0 ? round_up(size, alignment) : 0;
    }
    const BlockScan sum = scan_block(taken);
    if (g < ends.extent[0]) {
      starts(g) = static_cast<std::int32_t>(base + sum.before);
      padded_ends(g) = static_cast<std::int32_t>(base + sum.before + taken);
    }
    base += sum.all;
  }
}

/// Where a padded row comes from.
struct PaddedSource {
  Ends ends;
  Ends starts;
  Ends padded_ends;
  Index rows;  // of x
  __device__ Index operator()(Index row) const {
    const Index g = group_of(padded_ends, row);
    if (g == padded_ends.extent[0]) return kZeroRow;
    const Index at = start_of(ends, g) + row - starts(g);
    return at >= 0 && at < ends(g) && at < rows ? at : kZeroRow;
  }
};

/// Where a row without padding comes from.
struct UnpaddedSource {
  Ends ends;
  Ends starts;
  Index rows;  // of y
  FaultWord faults;
  __device__ Index operator()(Index row) const {
    const Index g = group_of(ends, row);
    if (g == ends.extent[0]) return kLeaveRow;
    const Index at = starts(g) + row - start_of(ends, g);
    if (at >= 0 && at < rows) return at;
    faults.report(DeviceFault::padded_starts);
    return kLeaveRow;
  }
};

}  // namespace

void DeviceBackend::run(const PadGroups& op) {
  const auto ends = op.group_ends.as<const std::int32_t, 1>();
  if (ends.extent[0] > 0) {
    padded_kernel<<<1, kScanThreads, 0, stream()>>>(
        ends, op.x.extent[0], op.padded_starts.as<std::int32_t, 1>(),
        op.padded_ends.as<std::int32_t, 1>(), op.alignment, faults());
    check_launch("pad_groups");
  }
  move_rows(stream(), op.y, op.x,
            PaddedSource{ends, to_read(op.padded_starts).as<const std::int32_t, 1>(),
                         to_read(op.padded_ends).as<const std::int32_t, 1>(), op.x.extent[0]});
}

void DeviceBackend::run(const UnpadGroups& op) {
  check_group_ends(*this, op.group_ends, op.x.extent[0]);
  move_rows(stream(), op.x, op.y,
            UnpaddedSource{op.group_ends.as<const std::int32_t, 1>(),
                           op.padded_starts.as<const std::int32_t, 1>(), op.y.extent[0], faults()});
}

}  // namespace mxo::cuda

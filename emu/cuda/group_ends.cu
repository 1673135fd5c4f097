// Ends of groups that only the device can read: the kernels.
#include "emu/cuda/group_ends.cuh"

namespace mxo::cuda {
namespace {

__global__ void check_kernel(Ends ends, Index rows, Index multiple_of, FaultWord faults) {
  const Index step = grid_threads();
  for (Index g = grid_thread(); g < ends.extent[0]; g += step) {
    const Index end = ends(g);
    if (end < start_of(ends, g) || end > rows || end % multiple_of != 0) {
      faults.report(DeviceFault::group_ends);
    }
  }
}

__global__ void __launch_bounds__(kScanThreads)
    count_kernel(Ends ends, Index rows, Index unit, std::int64_t* units_before, FaultWord faults) {
  // Kernels that wait for this one may be started.
  asm volatile("griddepcontrol.launch_dependents;");
  Index base = 0;
  for (Index first = 0; first <= ends.extent[0]; first += kScanThreads) {
    const Index g = first + threadIdx.x;
    Index units = 0;
    if (g < ends.extent[0]) {
      const Index size = ends(g) - start_of(ends, g);
      if (size < 0 || ends(g) > rows) faults.report(DeviceFault::group_ends);
      units = size > 0 ? ceil_div(size, unit) : 0;
    }
    const BlockScan sum = scan_block(units);
    if (g <= ends.extent[0]) units_before[g] = base + sum.before;
    base += sum.all;
  }
}

}  // namespace

void check_group_ends(DeviceBackend& backend, const Operand& group_ends, Index rows,
                      Index multiple_of) {
  const Index groups = group_ends.extent[0];
  if (groups == 0) return;
  check_kernel<<<blocks_for(groups), kThreads, 0, backend.stream()>>>(
      group_ends.as<const std::int32_t, 1>(), rows, multiple_of, backend.faults());
  check_launch("check_group_ends");
}

void count_units(DeviceBackend& backend, const Operand& group_ends, Index rows, Index unit,
                 std::int64_t* units_before) {
  count_kernel<<<1, kScanThreads, 0, backend.stream()>>>(
      group_ends.as<const std::int32_t, 1>(), rows, unit, units_before, backend.faults());
  check_launch("count_units");
}

}  // namespace mxo::cuda

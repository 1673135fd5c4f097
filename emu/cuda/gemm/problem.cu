// The spans of groups.
#include "emu/cuda/gemm/problem.cuh"

#include <numeric>

#include "emu/cuda/cuda_check.cuh"

namespace mxo::cuda {
namespace {

constexpr int kScanThreads = 1024;

/// Exclusive prefix sums of one value per thread over the block; `total` gets the whole sum.
__device__ std::int32_t scan(std::int32_t value, std::int32_t* shared, std::int32_t* total) {
  const int t = static_cast<int>(threadIdx.x);
  shared[t] = value;
  __syncthreads();
  for (int step = 1; step < kScanThreads; step *= 2) {
    const std::int32_t before = t >= step ? shared[t - step] : 0;
    __syncthreads();
    shared[t] += before;
    __syncthreads();
  }
  const std::int32_t inclusive = shared[t];
  *total = shared[kScanThreads - 1];
  __syncthreads();
  return inclusive - value;
}

/// What a span counts of a group of `rows` rows.
struct SpanCounts {
  Index multiple_of;  ///< every end is one
  Index block_a;      ///< K of a block of scales where rows are contracted; 0: none
  Index block_b;
  Index scale_rows_a;  ///< blocks there are scales for
  Index scale_rows_b;
};

/// The sum over the groups before of ceil(rows / size), into `member` of the spans; returns the
/// total over all groups.  Every thread calls it.
__device__ std::int32_t count_blocks(Index groups, Index size, GroupSpan* span,
                                     std::int32_t GroupSpan::*member, std::int32_t* shared) {
  std::int32_t blocks = 0;
  if (size == 0) return 0;
  for (Index first = 0; first < groups; first += kScanThreads) {
    const Index g = first + threadIdx.x;
    const Index rows = g < groups ? span[g].rows : 0;
    std::int32_t total = 0;
    const auto own = static_cast<std::int32_t>((rows + size - 1) / size);
    const std::int32_t before = blocks + scan(own, shared, &total);
    blocks += total;
    if (g < groups) span[g].*member = before;
  }
  return blocks;
}

__global__ void __launch_bounds__(kScanThreads)
    plan_kernel(const std::int32_t* ends, Index stride, Index groups, Index rows, SpanCounts counts,
                GroupSpan* span, FaultWord faults) {
  __shared__ std::int32_t shared[kScanThreads];
  const Index t = threadIdx.x;
  bool bad = false;
  for (Index g = t; g < groups; g += kScanThreads) {
    const std::int32_t start = g > 0 ? ends[(g - 1) * stride] : 0;
    const std::int32_t end = ends[g * stride];
    const bool wrong = end < start || end > rows || end % counts.multiple_of != 0;
    bad = bad || wrong;
    span[g] = {start, wrong ? 0 : end - start, 0, 0, 0, 0};
  }
  bad = __syncthreads_or(bad);
  const std::int32_t tiles = count_blocks(groups, 128, span, &GroupSpan::row_tile, shared);
  const std::int32_t blocks_a =
      count_blocks(groups, counts.block_a, span, &GroupSpan::scale_block_a, shared);
  const std::int32_t blocks_b =
      count_blocks(groups, counts.block_b, span, &GroupSpan::scale_block_b, shared);
  const bool scales_short = blocks_a > counts.scale_rows_a || blocks_b > counts.scale_rows_b;
  const bool none = bad || scales_short;
  for (Index g = t; g < groups; g += kScanThreads) {
    if (none) span[g] = {0, 0, 0, 0, 0, 0};
    span[g].packed = span[g].row_tile;
  }
  if (t == 0) {
    if (none) faults.report(bad ? DeviceFault::group_ends : DeviceFault::scale_rows);
    const std::int32_t end = none || groups == 0 ? 0 : ends[(groups - 1) * stride];
    const std::int32_t total = none ? 0 : tiles;
    span[groups] = {end, 0, total, total, 0, 0};
  }
}

__global__ void batch_kernel(Index groups, std::int32_t rows, GroupSpan* span) {
  const Index g = blockIdx.x * Index{blockDim.x} + threadIdx.x;
  if (g > groups) return;
  const auto tiles = static_cast<std::int32_t>(g) * ((rows + 127) / 128);
  span[g] = {0, g < groups ? rows : 0, tiles, 0, 0, 0};
}

}  // namespace

void plan_groups(DeviceBackend& backend, const ContractionView& view, const Operand& ends,
                 GroupSpan* span) {
  SpanCounts counts{1, 0, 0, 0, 0};
  if (view.contracts_rows()) {
    const auto block = [](const Factor& f) { return f.blocked() ? f.block : 0; };
    const auto aligned = [](const Factor& f) {
      return f.blocked() && f.scales.dtype == Dtype::e8m0 ? f.block : 1;
    };
    counts = {std::lcm(aligned(view.a), aligned(view.b)), block(view.a), block(view.b),
              view.a.scales.extent[0], view.b.scales.extent[0]};
  }
  plan_kernel<<<1, kScanThreads, 0, backend.stream()>>>(
      static_cast<const std::int32_t*>(ends.data), ends.stride[0], ends.extent[0],
      view.contracts_rows() ? view.depth : view.a.rows, counts, span, backend.faults());
  check_launch("plan_kernel");
}

void plan_batch(DeviceBackend& backend, Index groups, Index rows, GroupSpan* span) {
  const auto blocks = static_cast<unsigned>(ceil_div(groups + 1, 256));
  batch_kernel<<<blocks, 256, 0, backend.stream()>>>(groups, static_cast<std::int32_t>(rows), span);
  check_launch("batch_kernel");
}

}  // namespace mxo::cuda

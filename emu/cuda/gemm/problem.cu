// Operators as problems, and the spans of their groups.
#include "emu/cuda/gemm/problem.cuh"

#include "emu/cuda/cuda_check.cuh"

namespace mxo::cuda {
namespace {

Factor rows_of_x(const Operand& codes, const Operand& scales) {
  Factor f;
  f.codes = codes.data;
  f.dtype = codes.dtype;
  f.line = codes.stride[0];
  f.k = codes.stride[1];
  f.scales = scales.data;
  f.scale_line = scales.stride[0];
  f.scale_k = scales.stride[1];
  f.lines_are_rows = true;
  return f;
}

Factor lines_of_batch(const Operand& codes, const Operand& scales) {
  Factor f;
  f.codes = codes.data;
  f.dtype = codes.dtype;
  f.group = codes.stride[0];
  f.line = codes.stride[1];
  f.k = codes.stride[2];
  f.scales = scales.data;
  f.scale_group = scales.stride[0];
  f.scale_line = scales.stride[1];
  f.scale_k = scales.stride[2];
  return f;
}

Factor columns(const Operand& codes, const Operand& scales, Scaling scaling) {
  Factor f;
  f.codes = codes.data;
  f.dtype = codes.dtype;
  f.line = codes.stride[1];
  f.k = codes.stride[0];
  f.scales = scales.data;
  f.scale_line = scales.stride[1];
  (scaling == Scaling::rowwise ? f.scale_group : f.scale_k) = scales.stride[0];
  f.k_is_rows = true;
  return f;
}

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

__global__ void __launch_bounds__(kScanThreads)
    plan_kernel(const std::int32_t* ends, Index stride, Index groups, Index rows,
                std::int32_t multiple_of, Index scale_rows, GroupSpan* span, FaultWord faults) {
  __shared__ std::int32_t shared[kScanThreads];
  const Index t = threadIdx.x;
  bool bad = false;
  std::int32_t tiles = 0;  // of 128 rows, in the groups before
  for (Index first = 0; first < groups; first += kScanThreads) {
    const Index g = first + t;
    const std::int32_t start = g > 0 && g < groups ? ends[(g - 1) * stride] : 0;
    const std::int32_t end = g < groups ? ends[g * stride] : start;
    const bool wrong = g < groups && (end < start || end > rows || end % multiple_of != 0);
    bad = bad || wrong;
    std::int32_t total = 0;
    const std::int32_t own = wrong ? 0 : (end - start + 127) / 128;
    const std::int32_t before = tiles + scan(own, shared, &total);
    tiles += total;
    if (g < groups) span[g] = {start, end - start, before, before, before};
  }
  bad = __syncthreads_or(bad);
  const bool scales_short = scale_rows >= 0 && tiles > scale_rows;
  if (bad || scales_short) {
    for (Index g = t; g < groups; g += kScanThreads) span[g] = {0, 0, 0, 0, 0};
    if (t == 0) faults.report(bad ? DeviceFault::group_ends : DeviceFault::scale_rows);
  }
  if (t == 0) {
    const bool none = bad || scales_short || groups == 0;
    const std::int32_t end = none ? 0 : ends[(groups - 1) * stride];
    span[groups] = {end, 0, none ? 0 : tiles, none ? 0 : tiles, none ? 0 : tiles};
  }
}

__global__ void batch_kernel(Index groups, std::int32_t rows, GroupSpan* span) {
  const Index g = blockIdx.x * Index{blockDim.x} + threadIdx.x;
  if (g > groups) return;
  const auto tiles = static_cast<std::int32_t>(g) * ((rows + 127) / 128);
  span[g] = {0, g < groups ? rows : 0, tiles, 0, 0};
}

}  // namespace

Problem problem_of(const GroupedMatmul& op) {
  Problem p;
  p.a = rows_of_x(op.x, op.x_scales);
  p.b = lines_of_batch(op.w, op.w_scales);
  if (op.scaling == Scaling::blockwise) p.b.lines_per_scale = kScaleTile;
  if (op.scaling == Scaling::rowwise) p.a.scale_k = p.b.scale_k = 0;
  p.scaling = op.scaling;
  p.groups = op.w.extent[0];
  p.m = op.x.extent[0];
  p.n = op.w.extent[1];
  p.k = op.x.extent[1];
  p.out = op.y.data;
  p.out_dtype = op.y.dtype;
  p.out_row = op.y.stride[0];
  p.out_column = op.y.stride[1];
  return p;
}

Problem problem_of(const GroupedMatmulWgrad& op) {
  Problem p;
  p.a = columns(op.dy, op.dy_scales, op.scaling);
  p.b = columns(op.x, op.x_scales, op.scaling);
  p.scaling = op.scaling;
  p.wgrad = true;
  p.groups = op.group_ends.extent[0];
  p.m = op.dy.extent[1];
  p.n = op.x.extent[1];
  p.k = op.dy.extent[0];
  p.out = op.dw.data;
  p.out_dtype = op.dw.dtype;
  p.out_group = op.dw.stride[0];
  p.out_row = op.dw.stride[1];
  p.out_column = op.dw.stride[2];
  return p;
}

Problem problem_of(const FusedDot& op) {
  Problem p;
  p.a = lines_of_batch(op.a, op.a_scales);
  p.b = lines_of_batch(op.b, op.b_scales);
  p.scaling = op.a_scales.given() ? Scaling::mx : Scaling::none;
  p.groups = op.a.extent[0];
  p.m = op.a.extent[1];
  p.n = op.b.extent[1];
  p.k = op.a.extent[2];
  p.c = op.c.data;
  p.c_group = op.c.stride[0];
  p.c_row = op.c.stride[1];
  p.c_column = op.c.stride[2];
  p.out = op.d.data;
  p.out_dtype = op.d.dtype;
  p.out_group = op.d.stride[0];
  p.out_row = op.d.stride[1];
  p.out_column = op.d.stride[2];
  return p;
}

void plan_groups(DeviceBackend& backend, const Operand& ends, Index rows, Index multiple_of,
                 Index scale_rows, GroupSpan* span) {
  plan_kernel<<<1, kScanThreads, 0, backend.stream()>>>(
      static_cast<const std::int32_t*>(ends.data), ends.stride[0], ends.extent[0], rows,
      static_cast<std::int32_t>(multiple_of), scale_rows, span, backend.faults());
  check_launch("plan_kernel");
}

void plan_batch(DeviceBackend& backend, Index groups, Index rows, GroupSpan* span) {
  const auto blocks = static_cast<unsigned>(ceil_div(groups + 1, 256));
  batch_kernel<<<blocks, 256, 0, backend.stream()>>>(groups, static_cast<std::int32_t>(rows), span);
  check_launch("batch_kernel");
}

}  // namespace mxo::cuda

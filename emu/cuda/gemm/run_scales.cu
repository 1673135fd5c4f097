// Scales of runs of 128, side by side as tiles of a product read them.
#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/side_by_side.cuh"
#include "emu/cuda/gemm/two_slices.cuh"

namespace mxo::cuda {
namespace {

/// A block brings a run of a tile: a thread a K-vector.
template <bool OfA>
__global__ void __launch_bounds__(kSide)
    run_scales_kernel(Problem p, Factor f, float* to, Index line) {
  const Index run = blockIdx.y;
  const Index tile = blockIdx.x;
  const bool along_rows = p.contracts_rows();
  if (OfA && !along_rows && tile >= p.span[p.groups].row_tile) return;
  const Index across = (p.b.rows + kSide - 1) / kSide;
  Index group = 0;
  Index first = tile * kSide;
  if (along_rows) {
    if (run >= p.span[p.groups].packed) return;
    group = group_at(p, run, &GroupSpan::packed);
  } else if (OfA) {
    group = group_at(p, tile, &GroupSpan::row_tile);
    first = (tile - p.span[group].row_tile) * kSide;
  } else {
    group = tile / across;
    first = tile % across * kSide;
  }
  const Index k_vector = first + threadIdx.x;
  const Index place = (run - (along_rows ? p.span[group].packed : 0)) * kSide;
  const bool there = k_vector < (OfA ? p.rows_of(group) : p.b.rows) && place < p.length_of(group);
  to[run * line + tile * kSide + threadIdx.x] =
      there ? static_cast<const float*>(f.scales.data)[p.scale_at(f, group, k_vector, place)]
            : 0.0f;
}

}  // namespace

RunScales lay_run_scales(DeviceBackend& backend, const Problem& p, const Factor& f,
                         std::optional<Scratch<float>>& scratch) {
  const bool of_a = &f == &p.a;
  const Index tiles = of_a ? sides_a(p) : sides_b(p);
  const Index runs = ceil_div(p.depth, kSide) + (p.contracts_rows() ? p.groups : 0);
  const Index line = tiles * kSide;
  scratch.emplace(backend, runs * line);
  if (runs * line == 0) return {scratch->data(), line};
  const dim3 blocks(static_cast<unsigned>(tiles), static_cast<unsigned>(runs));
  const auto run = [&](auto* kernel) {
    kernel<<<blocks, kSide, 0, backend.stream()>>>(p, f, scratch->data(), line);
  };
  run(of_a ? run_scales_kernel<true> : run_scales_kernel<false>);
  check_launch("run_scales_kernel");
  return {scratch->data(), line};
}

}  // namespace mxo::cuda

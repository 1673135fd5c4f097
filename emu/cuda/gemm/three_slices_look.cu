// A look at a few K-vectors: where three slices serve few of them, taking all apart is no use.
#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/k_vector_elements.cuh"
#include "emu/cuda/gemm/three_slices.cuh"

namespace mxo::cuda {
namespace {

/// K-vectors of a factor that are looked at, a thread each.
constexpr int kLooked = 128;
/// Factors of fewer are taken apart sooner than looked at.
constexpr Index kFew = 4 * kLooked;

/// One K-vector in `step` of a factor.
struct Looked {
  KVectorMemory codes;
  const KVectorWindow* window;
  Index windows;
  Index step;
};

/// Most of them do not serve; all threads.
__device__ bool hopeless(const Problem& p, const Factor& f, const Looked& of) {
  const Index index = threadIdx.x * of.step;
  const bool there = index < of.windows && k_vector_at(p, f, of.codes, index).has_outputs;
  const int all = __syncthreads_count(there);
  const int many = __syncthreads_count(there && of.window[index].slices == kManyResiduals);
  return 2 * many > all;
}

__global__ void __launch_bounds__(kLooked)
    look_kernel(Problem p, Looked a, Looked b, HardTiles of, HardTiles hard, std::int32_t* wanted) {
  const bool none = hopeless(p, p.a, a) || hopeless(p, p.b, b);
  judge(p, of, hard, none, wanted);
}

}  // namespace

HardTiles tiles_of_three_slices(DeviceBackend& backend, const Problem& p, const KVectorMemory& a,
                                const KVectorMemory& b, const HardTiles& of, const HardTiles& hard,
                                std::int32_t* wanted) {
  if (std::min(p.lines_a(), p.lines_b()) < kFew) return of;
  ThreeSliceScratch scratch_a;
  ThreeSliceScratch scratch_b;
  const auto look = [&](const Factor& f, const KVectorMemory& codes, ThreeSliceScratch& scratch) {
    const Index windows = f.rows_are_rows ? f.rows : f.rows * p.groups;
    const Index step = ceil_div(windows, kLooked);
    const ThreeSlices made =
        make_three_slices(backend, p, f, codes, f.rows, of.any, scratch, {1, step});
    return Looked{codes, made.slices.window, windows, step};
  };
  const Looked of_a = look(p.a, a, scratch_a);
  const Looked of_b = look(p.b, b, scratch_b);
  look_kernel<<<static_cast<unsigned>(backend.multiprocessors()), kLooked, 0, backend.stream()>>>(
      p, of_a, of_b, of, hard, wanted);
  check_launch("look_kernel");
  return {of.tile, wanted};
}

}  // namespace mxo::cuda

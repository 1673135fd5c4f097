// Outputs that failed the rounding test on slices: in binary64 with a test of its own, else in
// fixed point.
#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/exact_product.cuh"
#include "emu/cuda/gemm/failed_output.cuh"

namespace mxo::cuda {
namespace {

constexpr int kThreads = 256;

/// A lane looks at a word of marks; all of the warp work on what each has found.  Neighbouring
/// words go to warps far apart: failures come in whole K-vectors.
__global__ void __launch_bounds__(kThreads)
    failed_outputs_kernel(Problem p, Sides sides, FailedOutputs failed,
                          const std::int32_t* wanted) {
  if (wanted != nullptr && *wanted == 0) return;
  const Index lane = threadIdx.x % 32;
  const Index words = lines_with_outputs(p) * failed.words;
  const Index warps = gridDim.x * Index{kThreads / 32};
  const Index warp = blockIdx.x * Index{kThreads / 32} + threadIdx.x / 32;
  for (Index first = 0; first * warps < words; first += 32) {
    const Index word = (first + lane) * warps + warp;
    const std::uint32_t marks = word < words ? failed.bits[word] : 0;
    for (unsigned found = __ballot_sync(~0u, marks != 0); found != 0; found &= found - 1) {
      const int holder = __ffs(static_cast<int>(found)) - 1;
      const Index k_vector_a = ((first + holder) * warps + warp) / failed.words;
      const Index column = ((first + holder) * warps + warp) % failed.words * 32;
      const KVectorOfGroup at = k_vector_number(p, k_vector_a);
      for (std::uint32_t left = __shfl_sync(~0u, marks, holder); left != 0; left &= left - 1) {
        const Index j = column + __ffs(static_cast<int>(left)) - 1;
        failed_output(p, sides, k_vector_a, at, j);
      }
    }
  }
}

}  // namespace

void compute_failed_outputs(DeviceBackend& backend, const Problem& p, const Slices& a,
                            const Slices& b, const FailedOutputs& failed,
                            const std::int32_t* wanted) {
  // A warp has 32 words and more.
  const Index warps = ceil_div(p.lines_a() * failed.words, 32);
  const auto blocks =
      static_cast<unsigned>(std::clamp<Index>(ceil_div(warps, kThreads / 32), 1, Index{1} << 14));
  failed_outputs_kernel<<<blocks, kThreads, 0, backend.stream()>>>(
      p, Sides{a.codes, b.codes, a.window, b.window}, failed, wanted);
  check_launch("failed_outputs_kernel");
}

}  // namespace mxo::cuda

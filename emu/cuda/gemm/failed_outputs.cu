// Outputs that failed the rounding test: in binary64 with a test of its own, else in
// fixed point.
#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/exact_product.cuh"
#include "emu/cuda/gemm/failed_output.cuh"

namespace mxo::cuda {
namespace {

/// Few registers, so that many warps wait for memory at once: few outputs share a K-vector of a.
constexpr int kThreads = 64;
constexpr int kWords = 8;  ///< of marks that a warp looks at together, of one K-vector

/// Neighbouring words go to other warps: failures come in whole K-vectors.
__global__ void __launch_bounds__(kThreads, 16)
    failed_outputs_kernel(Problem p, SlicedSides sides, FailedOutputs failed,
                          const std::int32_t* wanted) {
  if (wanted != nullptr && *wanted == 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Index runs = (failed.words + kWords - 1) / kWords;
  const Index warps = gridDim.x * Index{kThreads / 32};
  for (Index run = blockIdx.x * Index{kThreads / 32} + threadIdx.x / 32;
       run < lines_with_outputs(p) * runs; run += warps) {
    const Index k_vector_a = run / runs;
    const Index word = run % runs * kWords + lane;
    std::uint32_t marks =
        lane < kWords && word < failed.words ? failed.bits[k_vector_a * failed.words + word] : 0;
    if (__all_sync(~0u, marks == 0)) continue;
    const KVectorOfGroup at = k_vector_number(p, k_vector_a);
    for (;;) {
      const unsigned found = __ballot_sync(~0u, marks != 0);
      if (found == 0) break;
      const int holder = __ffs(static_cast<int>(found)) - 1;
      const int bit = __ffs(static_cast<int>(__shfl_sync(~0u, marks, holder))) - 1;
      if (lane == holder) marks &= marks - 1;
      failed_output(p, sides, k_vector_a, at, (word - lane + holder) * 32 + bit);
    }
  }
}

}  // namespace

void compute_failed_outputs(DeviceBackend& backend, const Problem& p, const KnownKVectors& a,
                            const KnownKVectors& b, const FailedOutputs& failed,
                            const std::int32_t* wanted) {
  const Index warps = p.lines_a() * ceil_div(failed.words, kWords);
  const auto blocks =
      static_cast<unsigned>(std::clamp<Index>(ceil_div(warps, kThreads / 32), 1, Index{1} << 17));
  failed_outputs_kernel<<<blocks, kThreads, 0, backend.stream()>>>(
      p, SlicedSides{a.codes, b.codes, a.window, b.window}, failed, wanted);
  check_launch("failed_outputs_kernel");
}

}  // namespace mxo::cuda

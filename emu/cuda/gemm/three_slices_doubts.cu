// Outputs whose rounding three slices' greatest weights leave open: the next weight's products
// added.
#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/failed_output.cuh"
#include "emu/cuda/gemm/three_slices.cuh"

namespace mxo::cuda {
namespace {

constexpr int kThreads = 256;

/// The middle slice of K-vector `index`.
__device__ const std::int8_t* middle_of(const Problem& p, const Factor& f, const Slices& of,
                                        Index index) {
  const KVectorMemory& m = of.memory;
  const Index group = f.k_is_rows ? index / m.k_vectors : 0;
  const Index place = f.k_is_rows ? Index{p.span[group].packed} * 128 : 0;
  return reinterpret_cast<const std::int8_t*>(m.data) + m.group_bytes +
         (f.k_is_rows ? index % m.k_vectors : index) * m.k_vector_bytes + place;
}

/// A lane's share of the lowest slices of one K-vector times the middle ones of another.
__device__ int products(const Lows& lows, int count, const std::int8_t* middle) {
  int sum = 0;
#pragma unroll 4
  for (int n = static_cast<int>(threadIdx.x) % 32; n < count; n += 32) {
    const std::uint32_t item = lows.item[n];
    sum += static_cast<std::int8_t>(item >> 16) * middle[item & 0xFFFF];
  }
  return sum;
}

/// Which output a doubt is of.
struct Place {
  KVectorOfGroup at;
  Index column;
};
__device__ Place place_of(const Problem& p, const Doubt& doubt) {
  const auto rows_b = static_cast<std::uint32_t>(p.b.rows);
  const Index group = doubt.b / rows_b;
  const Index before = p.contracts_rows() ? group * p.a.rows : Index{p.span[group].start};
  return {{group, doubt.a - before}, doubt.b % rows_b};
}

/// Calls each(doubt) for what is on the list, one to a warp.
template <typename Each>
__device__ void each_doubt(const Doubts& doubts, Each each) {
  const auto count = static_cast<Index>(min(*doubts.count, doubts.capacity));
  for (Index i = blockIdx.x * Index{kThreads / 32} + threadIdx.x / 32; i < count;
       i += gridDim.x * Index{kThreads / 32}) {
    if (doubts.list[i].a != kNoDoubt) each(doubts.list[i]);
  }
}

/// What it decides is taken off the list.  The lowest slices' products with each other are at most
/// 128 times the lesser sum of their magnitudes; residuals, each times less than 2^23, are left.
__global__ void __launch_bounds__(kThreads)
    settle_three_slices_kernel(Problem p, ThreeSlices a, ThreeSlices b, Doubts doubts) {
  each_doubt(doubts, [&](Doubt& listed) {
    const Doubt doubt = listed;
    const KVectorWindow of_a = a.slices.window[doubt.a];
    const KVectorWindow of_b = b.slices.window[doubt.b];
    if (of_a.slices >= kBeyond || of_b.slices >= kBeyond) return;
    const Lows& lows_a = a.lows[doubt.a];
    const Lows& lows_b = b.lows[doubt.b];
    const int mine = products(lows_a, lows_a.count, middle_of(p, p.b, b.slices, doubt.b)) +
                     products(lows_b, lows_b.count, middle_of(p, p.a, a.slices, doubt.a));
    const int sum = __reduce_add_sync(~0u, mine);
    if (threadIdx.x % 32 != 0) return;
    const TwoSum all = two_sum(doubt.sum, 256.0 * sum);
    const double off =
        128.0 * min(lows_a.sum, lows_b.sum) +
        0x1p23 * (static_cast<double>(of_a.residual_sum) + static_cast<double>(of_b.residual_sum));
    const RoundingTest rounded =
        test_rounding(all.sum, fabs(all.lost) + off, 1.0, of_a.quantum + of_b.quantum, 7);
    if (!rounded.passed) return;
    const Place place = place_of(p, doubt);
    const Index at = p.out_at(place.at.group, place.at.k_vector, place.column);
    static_cast<BF16*>(p.out.data)[at] = BF16{static_cast<std::uint16_t>(rounded.bits)};
    listed.a = kNoDoubt;
  });
}

/// What is left, in binary64 and in fixed point.
__global__ void __launch_bounds__(kThreads, 2)
    settle_the_rest_kernel(Problem p, SlicedSides sides, Doubts doubts) {
  each_doubt(doubts, [&](const Doubt& doubt) {
    const Place place = place_of(p, doubt);
    const Index columns[1] = {place.column};
    failed_outputs(p, sides, doubt.a, place.at, columns, 1);
  });
}

}  // namespace

void settle_doubts(DeviceBackend& backend, const Problem& p, const ThreeSlices& a,
                   const ThreeSlices& b, const Doubts& doubts) {
  const auto blocks = static_cast<unsigned>(backend.multiprocessors() * 8);
  settle_three_slices_kernel<<<blocks, kThreads, 0, backend.stream()>>>(p, a, b, doubts);
  settle_the_rest_kernel<<<blocks, kThreads, 0, backend.stream()>>>(
      p, SlicedSides{a.slices.codes, b.slices.codes, a.slices.window, b.slices.window}, doubts);
  check_launch("settle_the_rest_kernel");
}

}  // namespace mxo::cuda

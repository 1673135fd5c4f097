// bf16 elements to integers of three slices: a thread block for a K-vector, 16 elements to a thread
// at a time.
#include "emu/cuda/gemm/three_slices.cuh"

#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/k_vector_elements.cuh"

namespace mxo::cuda {
namespace {

constexpr int kThreads = 256;
/// Times 16 elements that a thread keeps between its two looks at them.
constexpr int kKept = 4;
/// Place of the greatest bit of the integers: three signed slices hold 0x7F7F7F, more than 254 *
/// 2^15; one less where the greatest significand is 255.
constexpr int kTopBit = 22;
/// Powers of two of K-vectors whose products and their sums are normal numbers of binary32, of 256
/// quanta.
constexpr int kMaxPower = 60;
constexpr std::uint32_t kInfinity = 0x7F80;

/// Sixteen codes.
struct Codes {
  uint4 words[2];
};
__device__ Codes load(const KVectorAt& at, Index c) {
  if (c >= at.length) return {};
  const auto* from = reinterpret_cast<const uint4*>(at.codes + c * 2);
  return {{from[0], from[1]}};
}
__device__ std::uint32_t pair_of(const Codes& codes, int i) {
  const uint4& w = codes.words[i / 4];
  return i % 4 == 0 ? w.x : i % 4 == 1 ? w.y : i % 4 == 2 ? w.z : w.w;
}
__device__ std::uint32_t greatest(const Codes& codes) {
  std::uint32_t two = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) two = __vmaxu2(two, pair_of(codes, i) & 0x7FFF7FFFu);
  return max(two & 0xFFFF, two >> 16);
}

/// What the threads share of a K-vector.
struct Totals {
  std::uint32_t top;  ///< code of the greatest magnitude
  std::int32_t lows;
  std::int32_t low_sum;
  float rest;     ///< sum of the residuals' magnitudes
  float squares;  ///< of the elements, in quanta
};

/// How a K-vector is taken apart.
struct Split {
  int quantum;
  std::int32_t slices;
};
__device__ Split split_of(std::uint32_t top, Index length) {
  if (top >= kInfinity || length > kMaxK) return {0, kBeyond};
  if (top == 0) return {0, 0};
  const Parts e = parts_of<BF16>(top);
  const int bit = 31 - __clz(static_cast<int>(e.significand));
  const bool full = e.significand == 0xFF;
  const int quantum = e.exponent + bit - kTopBit + (full ? 1 : 0);
  const bool serves = length <= kMaxTripleChunks * 128 && abs(quantum + 8) <= kMaxPower;
  return {quantum, serves ? 3 : kManyResiduals};
}

/// Sixteen elements to slices and to what is known of the K-vector.
struct Sixteen {
  std::uint32_t slice[3][4];
  std::uint32_t lows = 0;  ///< a bit for each lowest slice that is not 0
  float rest = 0;
  float squares = 0;

  __device__ Sixteen(const Codes& codes, float unit) {
#pragma unroll
    for (int i = 0; i < kStep; i += 4) {
      std::uint32_t v[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const std::uint32_t two = pair_of(codes, (i + n) / 2);
        const float x = __uint_as_float(n % 2 == 0 ? two << 16 : two & 0xFFFF0000u) * unit;
        const int integer = __float2int_rn(x);
        rest += fabsf(x - static_cast<float>(integer));
        squares = fmaf(x, x, squares);
        // With 128 added to every slice, they are the bytes.
        v[n] = static_cast<std::uint32_t>(integer) + 0x808080u;
        if ((v[n] & 0xFF) != 0x80) lows |= 1u << (i + n);
      }
      const std::uint32_t two = __byte_perm(v[0], v[1], 0x5140);
      const std::uint32_t others = __byte_perm(v[2], v[3], 0x5140);
      slice[0][i / 4] = __byte_perm(two, others, 0x5410) ^ 0x80808080u;
      slice[1][i / 4] = __byte_perm(two, others, 0x7632) ^ 0x80808080u;
      slice[2][i / 4] =
          __byte_perm(__byte_perm(v[0], v[1], 0x0062), __byte_perm(v[2], v[3], 0x0062), 0x5410) ^
          0x80808080u;
    }
  }
  __device__ int low(int i) const {
    const std::uint32_t word = i < 4    ? slice[0][0]
                               : i < 8  ? slice[0][1]
                               : i < 12 ? slice[0][2]
                                        : slice[0][3];
    return static_cast<std::int8_t>(word >> i % 4 * 8);
  }
};

__global__ void __launch_bounds__(kThreads)
    three_slices_kernel(Problem p, Factor f, KVectorMemory memory, Index k_vectors,
                        KVectorMemory slices, KVectorWindow* window, Lows* lows,
                        std::uint8_t* out) {
  __shared__ Totals total;
  const Index first = Index{threadIdx.x} * kStep;
  constexpr Index kAll = Index{kThreads} * kStep;
  for (Index index = blockIdx.x; index < k_vectors; index += gridDim.x) {
    const KVectorAt at = k_vector_at(p, f, memory, index);
    if (!at.has_outputs) continue;
    if (threadIdx.x == 0) total = {};
    Codes kept[kKept];
    std::uint32_t top = 0;
#pragma unroll
    for (int i = 0; i < kKept; ++i) kept[i] = load(at, first + i * kAll);
#pragma unroll
    for (int i = 0; i < kKept; ++i) top = max(top, greatest(kept[i]));
    for (Index c = first + kKept * kAll; c < at.length; c += kAll) {
      top = max(top, greatest(load(at, c)));
    }
    top = __reduce_max_sync(~0u, top);
    __syncthreads();
    if (threadIdx.x % 32 == 0) atomicMax(&total.top, top);
    __syncthreads();
    const Split split = split_of(total.top, at.length);
    const float unit = split.slices == 3 ? __int_as_float((127 - split.quantum) << 23) : 0.0f;
    std::uint8_t* to = out + (f.k_is_rows ? at.k_vector : index) * slices.k_vector_bytes + at.place;
    std::int32_t low_sum = 0;
    float rest = 0;
    float squares = 0;
    const auto take = [&](const Codes& codes, Index c) {
      const Sixteen of(unit == 0.0f ? Codes{} : codes, unit);
      rest += of.rest;
      squares += of.squares;
#pragma unroll
      for (int n = 0; n < 3; ++n) {
        *reinterpret_cast<uint4*>(to + n * slices.group_bytes + c) = {
            of.slice[n][0], of.slice[n][1], of.slice[n][2], of.slice[n][3]};
      }
      if (of.lows == 0) return;
      std::int32_t slot = atomicAdd(&total.lows, __popc(of.lows));
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        if ((of.lows >> i & 1u) == 0) continue;
        const int low = of.low(i);
        low_sum += abs(low);
        if (slot < kMaxLows) {
          lows[index].item[slot] =
              static_cast<std::uint32_t>(c + i) | static_cast<std::uint32_t>(low) << 16;
        }
        ++slot;
      }
    };
    const Index end = (at.length + 127) / 128 * 128;
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      if (first + i * kAll < end) take(kept[i], first + i * kAll);
    }
#pragma unroll 1
    for (Index c = first + kKept * kAll; c < end; c += kAll) take(load(at, c), c);
    for (int step = 16; step > 0; step /= 2) {
      rest += __shfl_xor_sync(~0u, rest, step);
      squares += __shfl_xor_sync(~0u, squares, step);
    }
    low_sum = __reduce_add_sync(~0u, low_sum);
    if (threadIdx.x % 32 == 0) {
      atomicAdd(&total.low_sum, low_sum);
      atomicAdd(&total.rest, rest);
      atomicAdd(&total.squares, squares);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      const bool many = split.slices == 3 && total.lows > kMaxLows;
      // What is added in binary32, 200 numbers in a row at most, is off by less than 2^-16.
      const float left = total.rest * 1.001f;
      const auto low = static_cast<float>(total.low_sum);
      const auto chunks = static_cast<float>((at.length + 127) / 128);
      const float share = fmaf(low, 0.502f, fmaf(left, 128.2f, 1.6f * chunks));
      window[index] = {split.quantum,
                       many ? kManyResiduals : split.slices,
                       sqrtf(total.squares) * 1.001f,
                       0x1p23f,
                       share,
                       left};
      lows[index].count = min(total.lows, kMaxLows);
      lows[index].sum = total.low_sum;
    }
    __syncthreads();
  }
}

}  // namespace

bool takes_three_slices(const Problem& p) {
  return p.form == ScaleForm::none && p.a.codes.dtype == Dtype::bf16 &&
         p.b.codes.dtype == Dtype::bf16 && p.out.dtype == Dtype::bf16;
}

ThreeSlices make_three_slices(DeviceBackend& backend, const Problem& p, const Factor& f,
                              const KVectorMemory& codes, Index k_vectors,
                              ThreeSliceScratch& scratch) {
  ThreeSlices made;
  const Index windows =
      make_slice_memory(backend, p, f, codes, k_vectors, 3, made.slices, scratch.slices);
  scratch.lows.emplace(backend, windows);
  made.lows = scratch.lows->data();
  const auto blocks =
      static_cast<unsigned>(std::min<Index>(std::max<Index>(windows, 1), Index{1} << 20));
  three_slices_kernel<<<blocks, kThreads, 0, backend.stream()>>>(
      p, f, codes, windows, made.slices.memory, scratch.slices.window->data(), scratch.lows->data(),
      scratch.slices.slices->data());
  check_launch("three_slices_kernel");
  return made;
}

}  // namespace mxo::cuda

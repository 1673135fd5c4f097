// Elements to integers of three or four slices: a thread block for a K-vector, 16 elements to a
// thread at a time.
#include "emu/cuda/gemm/three_slices.cuh"

#include <algorithm>
#include <climits>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/async_copy.cuh"
#include "emu/cuda/gemm/four_slices.cuh"
#include "emu/cuda/gemm/k_vector_elements.cuh"
#include "emu/exact/nine_products.h"

namespace mxo::cuda {
namespace {

/// Threads of a block; fewer where K-vectors are short, so that all of them have work.
constexpr int kThreads = 256;
constexpr int kFewThreads = 128;
constexpr Index kShort = 4096;
/// Times 16 elements that a thread keeps in shared memory for its two looks at them.
constexpr int kKept = 4;
/// Place of the greatest bit of the integers: three signed slices hold 0x7F7F7F, more than 254 *
/// 2^15, four 0x7F7F7F7F; one less where the greatest significand is 255.
template <int kSlices>
constexpr int kTopBit = 8 * kSlices - 2;
/// Powers of two of K-vectors whose products and their sums are normal numbers of binary32, of 256
/// quanta, of four slices 65536.
constexpr int kMaxPower = 60;
template <int kSlices>
constexpr Index kMaxLength = (kSlices == 3 ? kMaxTripleChunks : kMaxFourChunks) * 128;
/// Lists hold the lowest slices of one element in so many; of codes, whose other K-vector seldom
/// has any, another product takes less time sooner.
template <typename Code>
constexpr Index kListShare = sizeof(Code) == 2 ? 16 : 96;

/// Sixteen codes, in one block.
template <typename Code>
struct Codes {
  static constexpr int kParts = static_cast<int>(sizeof(Code));  ///< of 16 bytes
  static constexpr int kWords = 4 * kParts;
  std::uint32_t words[kWords] = {};

  /// Their parts are `step` apart.
  __device__ static Codes load(const uint4* from, int step) {
    Codes codes;
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      const uint4 four = from[i / 4 * step];
      codes.words[i] = four.x;
      codes.words[i + 1] = four.y;
      codes.words[i + 2] = four.z;
      codes.words[i + 3] = four.w;
    }
    return codes;
  }
  __device__ void values(float (&x)[kStep]) const {
    if constexpr (sizeof(Code) == 2) {
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        x[i] = __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xFFFF0000u);
      }
    } else {
      decode_codes<Code>(uint4{words[0], words[1], words[2], words[3]}, x);
    }
  }
  /// The code of the greatest magnitude; of one that is no number, if there is one.
  __device__ std::uint32_t greatest() const {
    std::uint32_t all = 0;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (sizeof(Code) == 2) {
        all = __vmaxu2(all, words[i] & 0x7FFF7FFFu);
      } else {
        all = __vmaxu4(all, words[i] & 0x7F7F7F7Fu);
        // 80 is the only NaN of these.
        if (Code::spec.special == Special::nan_minus_0 && __vcmpeq4(words[i], 0x80808080u) != 0) {
          return 0x80;
        }
      }
    }
    if constexpr (sizeof(Code) == 2) return max(all & 0xFFFF, all >> 16);
    const std::uint32_t two = __vmaxu4(all, all >> 16);
    return max(two & 0xFF, two >> 8 & 0xFF);
  }
};

/// The greatest magnitude of a K-vector: 256 times the place of its bit, more than kBeforeAll, and
/// its eight significant bits; 0 of zeros, kNoNumber with a NaN or an infinity.
constexpr int kBeforeAll = 1 << 20;
constexpr std::int32_t kNoNumber = INT_MAX;
template <typename Code>
__device__ std::int32_t key_of(const Codes<Code>& codes, const Parts& scale) {
  const Parts e = parts_of<Code>(codes.greatest());
  if (!e.finite || !scale.finite) return kNoNumber;
  if (e.significand == 0) return 0;
  const int bit = 31 - __clz(static_cast<int>(e.significand));
  return (e.exponent + scale.exponent + bit + kBeforeAll) * 256 +
         static_cast<int>(e.significand << (7 - bit));
}

/// What the threads share of a K-vector.
struct Totals {
  std::int32_t top;
  std::int32_t lows;
  std::int32_t low_sum;
  std::int32_t rests;
  float rest;     ///< sum of the residuals' magnitudes
  float sum;      ///< of the elements' magnitudes, in quanta
  float squares;  ///< of the elements, in quanta
};

/// How a K-vector is taken apart.
struct Split {
  int quantum;
  std::int32_t slices;
};
template <int kSlices>
__device__ Split split_of(std::int32_t top, Index length) {
  if (top == kNoNumber || length > kMaxK) return {0, kBeyond};
  if (top == 0) return {0, 0};
  const int quantum = top / 256 - kBeforeAll - kTopBit<kSlices> + ((top & 0xFF) == 0xFF ? 1 : 0);
  const bool serves =
      length <= kMaxLength<kSlices> && abs(quantum + 8 * (kSlices - 2)) <= kMaxPower;
  return {quantum, serves ? 3 : kManyResiduals};
}
/// Elements of less than that many quanta are counted as so many: residuals that are not exact.
constexpr float kFar = 0x1p-40f;
/// 2^shift.  Codes times less than the least are below kFar; with more than the greatest all of
/// them are zeros.
__device__ float power_of_two(int shift) {
  return __int_as_float((min(max(shift, -100), 100) + 127) << 23);
}

/// True if the residuals alone leave open the rounding of much of what the K-vector gives with its
/// like: they are more than a 2^-10th of a sum of ordinary size (residues.cu, quantum_of()).
__device__ bool leaves_much(const Totals& of, Index length) {
  const auto k = static_cast<float>(length);
  return of.rest * 0x1p33f * k * sqrtf(k) > of.sum * of.sum;
}
/// The same of four slices, whose `share` decides alone: more than a 2^-10th.
__device__ bool share_leaves_much(float share, float sum, Index length) {
  const auto k = static_cast<float>(length);
  return share * 0x1p42f * k * sqrtf(k) > sum * sum;
}
/// Lowest slices of more elements than this take longer than another product of slices.
template <typename Code>
__device__ bool many_lows(std::int32_t count, Index length) {
  return count > kMaxLows || count > max(length / kListShare<Code>, Index{8});
}

/// Sixteen elements to slices and to what is known of the K-vector.
template <int kSlices>
struct Sixteen {
  std::uint32_t slice[kSlices][4];
  std::uint32_t lows = 0;   ///< a bit for each lowest slice that is not 0
  std::uint32_t rests = 0;  ///< of each residual
  bool far = false;         ///< some are not exact
  float rest[kStep];
  float sum = 0;
  float squares = 0;

  template <typename Code>
  __device__ Sixteen(const Codes<Code>& codes, float unit) {
    float values[kStep];
    codes.values(values);
#pragma unroll
    for (int i = 0; i < kStep; i += 4) {
      std::uint32_t v[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float x = values[i + n] * unit;
        const int integer = __float2int_rn(x);
        rest[i + n] = x - static_cast<float>(integer);
        if (values[i + n] != 0.0f && fabsf(x) < kFar) {
          rest[i + n] = kFar;
          far = true;
        }
        if (rest[i + n] != 0.0f) rests |= 1u << (i + n);
        sum += fabsf(x);
        squares = fmaf(x, x, squares);
        // With 128 added to every slice, they are the bytes.
        v[n] = static_cast<std::uint32_t>(integer) + (kSlices == 3 ? 0x808080u : 0x80808080u);
        if ((v[n] & 0xFF) != 0x80) lows |= 1u << (i + n);
      }
      const std::uint32_t two = __byte_perm(v[0], v[1], 0x5140);
      const std::uint32_t others = __byte_perm(v[2], v[3], 0x5140);
      slice[0][i / 4] = __byte_perm(two, others, 0x5410) ^ 0x80808080u;
      slice[1][i / 4] = __byte_perm(two, others, 0x7632) ^ 0x80808080u;
      const std::uint32_t upper_two = __byte_perm(v[0], v[1], 0x7362);
      const std::uint32_t upper_others = __byte_perm(v[2], v[3], 0x7362);
      slice[2][i / 4] = __byte_perm(upper_two, upper_others, 0x5410) ^ 0x80808080u;
      if constexpr (kSlices == 4) {
        slice[3][i / 4] = __byte_perm(upper_two, upper_others, 0x7632) ^ 0x80808080u;
      }
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

template <typename Code, int Threads, int kSlices>
__global__ void __launch_bounds__(Threads)
    signed_slices_kernel(Problem p, Factor f, KVectorMemory memory, Index k_vectors, Runs runs,
                         const std::int32_t* wanted, KVectorMemory slices, KVectorWindow* window,
                         Lows* lows, std::uint8_t* out) {
  if (wanted != nullptr && *wanted == 0) return;
  __shared__ Totals total;
  __shared__ uint4 kept[kKept][Codes<Code>::kParts][Threads];
  const bool whole = p.out.dtype == Dtype::f32;  // all products are taken
  const Index first = Index{threadIdx.x} * kStep;
  constexpr Index kAll = Index{Threads} * kStep;
  for (Index number = blockIdx.x; runs.window(number) < k_vectors; number += gridDim.x) {
    const Index index = runs.window(number);
    const KVectorAt at = k_vector_at(p, f, memory, index);
    if (!at.has_outputs) continue;
    if (threadIdx.x == 0) total = {};
    const auto laid = [&](Index c, int part) {
      return reinterpret_cast<const uint4*>(at.codes + c * sizeof(Code)) + part;
    };
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      const Index c = first + i * kAll;
      const bool there = c < at.length;
#pragma unroll
      for (int n = 0; n < Codes<Code>::kParts; ++n) {
        copy_16(&kept[i][n][threadIdx.x], laid(there ? c : 0, n), there);
      }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    // Turn `i` of this thread's.
    const auto codes_at = [&](Index c, int i) {
      if (i < kKept) return Codes<Code>::load(&kept[i][0][threadIdx.x], Threads);
      return c < at.length ? Codes<Code>::load(laid(c, 0), 1) : Codes<Code>{};
    };
    std::int32_t top = 0;
    int turn = 0;
#pragma unroll 1
    for (Index c = first; c < at.length; c += kAll) {
      top = max(top, key_of(codes_at(c, turn++), block_scale(p, f, at, c)));
    }
    top = __reduce_max_sync(~0u, top);
    __syncthreads();
    if (threadIdx.x % 32 == 0) atomicMax(&total.top, top);
    __syncthreads();
    const Split split = split_of<kSlices>(total.top, at.length);
    const bool given = split.slices == 3;
    std::uint8_t* to = out + (f.k_is_rows ? at.k_vector : index) * slices.k_vector_bytes + at.place;
    std::int32_t low_sum = 0;
    float rest = 0;
    float sum = 0;
    float squares = 0;
    const auto take = [&](const Codes<Code>& codes, Index c, int scale) {
      const Sixteen<kSlices> of(given ? codes : Codes<Code>{}, power_of_two(scale - split.quantum));
      sum += of.sum;
      squares += of.squares;
#pragma unroll
      for (int n = 0; n < kSlices; ++n) {
        *reinterpret_cast<uint4*>(to + n * slices.group_bytes + c) = {
            of.slice[n][0], of.slice[n][1], of.slice[n][2], of.slice[n][3]};
      }
      if (of.far) atomicAdd(&total.rests, kMaxRests + 1);
      if (of.rests != 0) {
        std::int32_t slot = kSlices == 3 ? atomicAdd(&total.rests, __popc(of.rests)) : 0;
#pragma unroll
        for (int i = 0; i < kStep; ++i) {
          rest += fabsf(of.rest[i]);
          if (kSlices != 3 || (of.rests >> i & 1u) == 0) continue;
          if (slot < kMaxRests) {
            lows[index].rest[slot] =
                static_cast<std::uint32_t>(c + i) | (__float_as_uint(of.rest[i]) & 0xFFFF0000u);
          }
          ++slot;
        }
      }
      if (of.lows == 0 || whole) return;
      std::int32_t slot = kSlices == 3 ? atomicAdd(&total.lows, __popc(of.lows)) : kMaxLows;
      for (std::uint32_t left = of.lows; left != 0; left &= left - 1) {
        const int i = __ffs(static_cast<int>(left)) - 1;
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
    turn = 0;
#pragma unroll 1
    for (Index c = first; c < end; c += kAll) {
      const int scale = c < at.length ? block_scale(p, f, at, c).exponent : 0;
      take(codes_at(c, turn++), c, scale);
    }
    for (int step = 16; step > 0; step /= 2) {
      rest += __shfl_xor_sync(~0u, rest, step);
      sum += __shfl_xor_sync(~0u, sum, step);
      squares += __shfl_xor_sync(~0u, squares, step);
    }
    low_sum = __reduce_add_sync(~0u, low_sum);
    if (threadIdx.x % 32 == 0) {
      atomicAdd(&total.low_sum, low_sum);
      atomicAdd(&total.rest, rest);
      atomicAdd(&total.sum, sum);
      atomicAdd(&total.squares, squares);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      // What is added in binary32, 200 numbers in a row at most, is off by less than 2^-16.
      const float left = total.rest * 1.001f;
      const auto low_sum = static_cast<float>(total.low_sum);
      const auto chunks = static_cast<int>((at.length + 127) / 128);
      const float share = kSlices == 4 ? share_of_four_slices(left, low_sum, takes_weight_1(p))
                          : whole      ? static_cast<float>(total.rests)
                                       : share_of_residuals(left, chunks);
      const bool open = given && (kSlices == 4 ? share_leaves_much(share, total.sum, at.length)
                                  : whole      ? total.rests > kMostRests
                                               : leaves_much(total, at.length));
      const bool many = given && many_lows<Code>(total.lows, at.length);
      window[index] = {split.quantum,
                       open   ? kManyResiduals
                       : many ? kManyLows
                              : split.slices,
                       sqrtf(total.squares) * 1.001f,
                       low_sum,
                       share,
                       left};
      if constexpr (kSlices == 3) {
        lows[index].count = min(total.lows, kMaxLows);
        lows[index].sum = total.low_sum;
        lows[index].rests = total.rests;
      }
    }
    __syncthreads();
  }
}

/// `f` in kSlices slices, of its windows those of `runs`; three have lists, `lows`.
template <int kSlices>
Slices make_signed_slices(DeviceBackend& backend, const Problem& p, const Factor& f,
                          const KVectorMemory& codes, Index k_vectors, const Runs& runs,
                          const std::int32_t* wanted, SliceScratch& scratch,
                          std::optional<Scratch<Lows>>* lows) {
  Slices made;
  const Index windows = make_slice_memory(backend, p, f, codes, k_vectors, kSlices, made, scratch);
  if (lows != nullptr) lows->emplace(backend, windows);
  const auto blocks =
      static_cast<unsigned>(std::clamp<Index>(ceil_div(windows, runs.step), 1, Index{1} << 20));
  const auto run = [&](auto tag) {
    using Code = typename decltype(tag)::type;
    const bool few = p.depth <= kShort;
    (few ? signed_slices_kernel<Code, kFewThreads, kSlices>
         : signed_slices_kernel<
               Code, kThreads,
               kSlices>)<<<blocks, few ? kFewThreads : kThreads, 0, backend.stream()>>>(
        p, f, codes, windows, runs, wanted, made.memory, scratch.window->data(),
        lows != nullptr ? (*lows)->data() : nullptr, scratch.slices->data());
  };
  if (f.codes.dtype == Dtype::bf16) {
    run(TypeTag<BF16>{});
  } else {
    visit_minifloat8(f.codes.dtype, run);
  }
  check_launch("signed_slices_kernel");
  return made;
}

}  // namespace

ThreeSlices make_three_slices(DeviceBackend& backend, const Problem& p, const Factor& f,
                              const KVectorMemory& codes, Index k_vectors,
                              const std::int32_t* wanted, ThreeSliceScratch& scratch,
                              const Runs& runs) {
  ThreeSlices made;
  made.slices = make_signed_slices<3>(backend, p, f, codes, k_vectors, runs, wanted, scratch.slices,
                                      &scratch.lows);
  made.lows = scratch.lows->data();
  return made;
}

Slices make_four_slices(DeviceBackend& backend, const Problem& p, const Factor& f,
                        const KVectorMemory& codes, Index k_vectors, const std::int32_t* wanted,
                        SliceScratch& scratch, const Runs& runs) {
  return make_signed_slices<4>(backend, p, f, codes, k_vectors, runs, wanted, scratch, nullptr);
}

}  // namespace mxo::cuda

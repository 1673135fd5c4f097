// Codes to integers to slices: one warp for a K-vector, 16 elements to a thread at a time.
#include "emu/cuda/gemm/slices.cuh"

#include <type_traits>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/k_vector_elements.cuh"

namespace mxo::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kNoExponent = 1 << 20;

/// Slices of a problem: K-vectors get `first` where those leave little, else up to `max_slices`.
struct SliceChoice {
  int first;
  int max_slices;
  int mantissa;  ///< stored bits of the output
};
SliceChoice choice_of(const Problem& p) {
  return p.out.dtype == Dtype::f32 ? SliceChoice{4, 5, 23} : SliceChoice{3, 5, 7};
}

/// Bits of the integers that n slices hold: up to 0x7F7F.., so that one bit less is used where
/// more than seven of them can be set in a row.
template <typename Code>
__device__ int capacity(const Problem& p, int n) {
  const bool short_significand = Code::spec.mantissa_bits < 7 && p.form != ScaleForm::blockwise;
  return 8 * n - (short_significand ? 1 : 2);
}

/// The integer nearest to a significand times 2^shift; ties away from zero.
template <typename Unsigned>
__device__ Unsigned nearest(std::uint32_t significand, int shift) {
  if (significand == 0) return 0;
  if (shift >= 0) return Unsigned{significand} << shift;
  const int down = min(-shift, 31);  // below 2^28, nothing is left from 30 on
  return (significand + (1u << (down - 1))) >> down;
}
/// |significand * 2^shift - nearest|, or more.
__device__ float residual_of(std::uint32_t significand, int shift) {
  if (shift >= 0) return 0.0f;
  const int down = min(-shift, 60);
  const auto whole = static_cast<std::int64_t>(nearest<std::uint32_t>(significand, shift));
  const std::int64_t left = static_cast<std::int64_t>(significand) - (whole << min(down, 31));
  return static_cast<float>(left < 0 ? -left : left) * __int_as_float((127 - down) << 23);
}

/// Calls visit(element) for this thread's elements of a K-vector.
template <typename Code, typename Visit>
__device__ void each_element(const Problem& p, const Factor& f, const KVectorAt& at, Visit visit) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (Index c = Index{lane} * kStep; c < at.length; c += 32 * kStep) {
    const Parts scale = block_scale(p, f, at, c);
    std::uint32_t codes[kStep];
    load_codes<Code>(at, c, codes);
#pragma unroll
    for (int i = 0; i < kStep; ++i) visit(scaled(parts_of<Code>(codes[i]), scale));
  }
}

/// Places of the least set bit and of the greatest; low > high for zeros.
struct Reach {
  int low = kNoExponent;
  int high = -kNoExponent;
  bool beyond;
};
template <typename Code>
__device__ Reach reach_of(const Problem& p, const Factor& f, const KVectorAt& at) {
  Reach reach;
  reach.beyond = bad_row_scale(p, f, at) || at.length > kMaxK;
  if (!reach.beyond) {
    each_element<Code>(p, f, at, [&](const Parts& e) {
      reach.beyond = reach.beyond || !e.finite;
      if (e.significand == 0) return;
      reach.low = min(reach.low, e.exponent + __ffs(static_cast<int>(e.significand)) - 1);
      reach.high = max(reach.high, e.exponent + 31 - __clz(static_cast<int>(e.significand)));
    });
  }
  reach.low = __reduce_min_sync(~0u, reach.low);
  reach.high = __reduce_max_sync(~0u, reach.high);
  reach.beyond = __any_sync(~0u, reach.beyond);
  return reach;
}

/// The window of quantum q.  Raised by far more than the roundings on the way.
template <typename Code>
__device__ KVectorWindow measure(const Problem& p, const Factor& f, const KVectorAt& at,
                                 int quantum, int high, float& magnitudes) {
  double squares = 0;
  double sum = 0;
  double residual_squares = 0;
  double residual_sum = 0;
  each_element<Code>(p, f, at, [&](const Parts& e) {
    const int shift = e.exponent - quantum;
    const auto v = static_cast<double>(nearest<std::uint64_t>(e.significand, shift));
    squares += v * v;
    sum += v;
    const double residual = residual_of(e.significand, shift);
    residual_squares += residual * residual;
    residual_sum += residual;
  });
  const double residual = sqrt(sum_of_warp(residual_squares)) * 1.001;
  magnitudes = static_cast<float>(sum_of_warp(sum));
  KVectorWindow window{};
  window.quantum = quantum;
  window.norm = static_cast<float>((sqrt(sum_of_warp(squares)) + residual) * 1.001);
  window.peak = __int_as_float((high - quantum + 1 + 127) << 23);
  window.residual = static_cast<float>(residual);
  window.residual_sum = static_cast<float>(sum_of_warp(residual_sum) * 1.001);
  return window;
}

/// True if the residuals of a K-vector decide the rounding of few of its products with its like:
/// they are a 2^-12th of the last place of a sum of ordinary size with three slices, a 2^-14th
/// with four.  That size is `magnitudes` squared over length^1.5: a few elements or blocks that
/// outweigh all others, and seldom meet their like, raise it by little.
__device__ bool leaves_little(const KVectorWindow& w, float magnitudes, int mantissa,
                              Index length) {
  const float most = fminf(w.residual * w.norm, w.residual_sum * w.peak);
  const float share = __int_as_float((127 - mantissa - 6 - 2 * w.slices) << 23);
  const auto k = static_cast<float>(length);
  return most * k * sqrtf(k) <= share * magnitudes * magnitudes;
}

template <typename Code>
__device__ KVectorWindow window_of(const Problem& p, const Factor& f, const KVectorAt& at,
                                   const SliceChoice& choice) {
  const Reach reach = reach_of<Code>(p, f, at);
  KVectorWindow window{};
  if (reach.beyond) window.slices = kBeyond;
  if (reach.beyond || reach.high < reach.low) return window;
  const int bits = reach.high - reach.low + 1;
  int slices = 1;
  while (slices < choice.first && capacity<Code>(p, slices) < bits) ++slices;
  for (;; ++slices) {
    const int room = capacity<Code>(p, slices);
    const int quantum = bits <= room ? reach.low : reach.high - room + 1;
    float magnitudes = 0;
    window = measure<Code>(p, f, at, quantum, reach.high, magnitudes);
    window.slices = slices;
    if (slices == choice.max_slices ||
        leaves_little(window, magnitudes, choice.mantissa, at.length)) {
      return window;
    }
  }
}

template <typename Code>
__global__ void __launch_bounds__(32 * kWarps)
    window_kernel(Problem p, Factor f, KVectorMemory memory, Index k_vectors, SliceChoice choice,
                  const std::int32_t* wanted, KVectorWindow* window, std::int32_t* max_slices) {
  if (wanted != nullptr && *wanted == 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::int32_t max_found = 0;
  const Index warps = gridDim.x * Index{kWarps};
  for (Index index = blockIdx.x * Index{kWarps} + threadIdx.x / 32; index < k_vectors;
       index += warps) {
    const KVectorAt at = k_vector_at(p, f, memory, index);
    if (!at.has_outputs) continue;
    const KVectorWindow w = window_of<Code>(p, f, at, choice);
    if (lane == 0) window[index] = w;
    if (w.slices < kBeyond) max_found = max(max_found, w.slices);
  }
  if (lane == 0 && max_found > 0) atomicMax(max_slices, max_found);
}

/// Bytes 0, 1, 2, 3 of four words to words of their own.
__device__ void transpose(const std::uint32_t (&v)[4], std::uint32_t (&bytes)[4]) {
  const std::uint32_t low = __byte_perm(v[0], v[1], 0x5140);   // a0 b0 a1 b1
  const std::uint32_t high = __byte_perm(v[0], v[1], 0x7362);  // a2 b2 a3 b3
  const std::uint32_t low2 = __byte_perm(v[2], v[3], 0x5140);
  const std::uint32_t high2 = __byte_perm(v[2], v[3], 0x7362);
  bytes[0] = __byte_perm(low, low2, 0x5410);
  bytes[1] = __byte_perm(low, low2, 0x7632);
  bytes[2] = __byte_perm(high, high2, 0x5410);
  bytes[3] = __byte_perm(high, high2, 0x7632);
}

/// Sixteen integers to `count` slices.  With 128 added to every slice, they are the bytes.
template <typename Unsigned>
__device__ void split(const Unsigned (&v)[kStep], int count, std::uint8_t* to, Index slice_bytes) {
  constexpr int kSliceWords = sizeof(Unsigned) == 4 ? 4 : kMaxSlices;
  constexpr auto kBias = static_cast<Unsigned>(0x8080808080ull);
  std::uint32_t slices[kSliceWords][4];
#pragma unroll
  for (int i = 0; i < kStep; i += 4) {
    std::uint32_t low[4];
    std::uint32_t transposed[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) low[n] = static_cast<std::uint32_t>(v[i + n] + kBias);
    transpose(low, transposed);
#pragma unroll
    for (int n = 0; n < 4; ++n) slices[n][i / 4] = transposed[n] ^ 0x80808080u;
    if constexpr (kSliceWords == 5) {
      std::uint32_t top = 0;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        top |= static_cast<std::uint32_t>((v[i + n] + kBias) >> 32 & 0xFF) << 8 * n;
      }
      slices[4][i / 4] = top ^ 0x80808080u;
    }
  }
#pragma unroll
  for (int n = 0; n < kSliceWords; ++n) {
    if (n >= count) return;
    *reinterpret_cast<uint4*>(to + n * slice_bytes) = {slices[n][0], slices[n][1], slices[n][2],
                                                       slices[n][3]};
  }
}

/// Nothing where some K-vector has kMaxSlices and `Unsigned` holds one less, or the other way
/// about.
template <typename Code, typename Unsigned>
__global__ void __launch_bounds__(32 * kWarps)
    slices_kernel(Problem p, Factor f, KVectorMemory memory, Index k_vectors, KVectorMemory slices,
                  const std::int32_t* wanted, const KVectorWindow* window,
                  const std::int32_t* max_slices, std::uint8_t* out) {
  if (wanted != nullptr && *wanted == 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int count = *max_slices;
  if ((count == kMaxSlices) != (sizeof(Unsigned) == 8)) return;
  const Index warps = gridDim.x * Index{kWarps};
  for (Index index = blockIdx.x * Index{kWarps} + threadIdx.x / 32; index < k_vectors;
       index += warps) {
    const KVectorAt at = k_vector_at(p, f, memory, index);
    if (!at.has_outputs) continue;
    const KVectorWindow w = window[index];
    const bool given = w.slices < kBeyond;
    std::uint8_t* to = out + (f.k_is_rows ? at.k_vector : index) * slices.k_vector_bytes + at.place;
    for (Index c = Index{lane} * kStep; c < (at.length + 127) / 128 * 128; c += 32 * kStep) {
      const bool some = given && c < at.length;
      const Parts scale = some ? block_scale(p, f, at, c) : Parts{0, 0, false, true};
      std::uint32_t codes[kStep];
      load_codes<Code>(at, c, codes);
      Unsigned v[kStep];
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        const Parts e = scaled(parts_of<Code>(codes[i]), scale);
        const Unsigned magnitude = nearest<Unsigned>(e.significand, e.exponent - w.quantum);
        v[i] = e.negative ? Unsigned{0} - magnitude : magnitude;
      }
      split(v, count, to + c, slices.group_bytes);
    }
  }
}

}  // namespace

Index make_slice_memory(DeviceBackend& backend, const Problem& p, const Factor& f,
                        const KVectorMemory& codes, Index k_vectors, int depth, Slices& made,
                        SliceScratch& scratch) {
  const Index windows = f.rows_are_rows ? k_vectors : k_vectors * p.groups;
  made.codes = codes;
  made.depth = depth;
  made.memory = codes;
  made.memory.element_bytes = 1;
  made.memory.length = f.k_is_rows ? codes.length : round_up(p.depth, 128);
  made.memory.k_vector_bytes = made.memory.length;
  made.memory.k_vectors = f.k_is_rows ? k_vectors : windows;
  made.memory.group_bytes = made.memory.k_vectors * made.memory.k_vector_bytes;
  scratch.slices.emplace(backend, made.memory.group_bytes * depth);
  scratch.window.emplace(backend, windows);
  made.memory.data = scratch.slices->data();
  made.window = scratch.window->data();
  return windows;
}

Slices make_slices(DeviceBackend& backend, const Problem& p, const Factor& f,
                   const KVectorMemory& codes, Index k_vectors, const std::int32_t* wanted,
                   SliceScratch& scratch) {
  const SliceChoice choice = choice_of(p);
  Slices made;
  const Index windows =
      make_slice_memory(backend, p, f, codes, k_vectors, choice.max_slices, made, scratch);
  scratch.max_slices.emplace(backend, 1);
  made.max_slices = scratch.max_slices->data();

  const cudaStream_t stream = backend.stream();
  check(cudaMemsetAsync(scratch.max_slices->data(), 0, sizeof(std::int32_t), stream),
        "cudaMemsetAsync");
  const auto blocks = static_cast<unsigned>(
      std::min<Index>(std::max<Index>(ceil_div(windows, kWarps), 1), Index{1} << 20));
  const auto run = [&](auto tag) {
    using Code = typename decltype(tag)::type;
    window_kernel<Code><<<blocks, 32 * kWarps, 0, stream>>>(p, f, made.codes, windows, choice,
                                                            wanted, scratch.window->data(),
                                                            scratch.max_slices->data());
    for (const auto kernel :
         {slices_kernel<Code, std::uint32_t>, slices_kernel<Code, std::uint64_t>}) {
      kernel<<<blocks, 32 * kWarps, 0, stream>>>(p, f, made.codes, windows, made.memory, wanted,
                                                 made.window, made.max_slices,
                                                 scratch.slices->data());
    }
  };
  if (f.codes.dtype == Dtype::bf16) {
    run(TypeTag<BF16>{});
  } else {
    visit_minifloat8(f.codes.dtype, run);
  }
  check_launch("slices_kernel");
  return made;
}

}  // namespace mxo::cuda

// Codes to integers to residues: one warp for a K-vector, 16 elements to a thread at a time.
#include "emu/cuda/gemm/residues.cuh"

#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/failed_output.cuh"

namespace mxo::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kNoExponent = 1 << 20;
/// Powers of two whose residues are in a table.
constexpr int kPowers = 80;

/// How large integers of a problem are made.
struct Sizes {
  int few;       ///< moduli that are enough for most K-vectors
  int spare;     ///< bits that a K-vector gives up at most so that few are enough for it
  int most;      ///< moduli that there are
  int mantissa;  ///< stored bits of the output
};
Sizes sizes_of(const Problem& p) {
  const bool wide = p.out.dtype == Dtype::f32;
  const int most = most_moduli(p);
  const int mantissa = wide ? 23 : 7;
  if (has_norms(p)) return {wide ? 14 : 11, wide ? 8 : 4, most, mantissa};
  return {wide && p.form != ScaleForm::none ? 15 : most, 4, most, mantissa};
}

/// The integer nearest to a significand times 2^shift; ties away from zero.
__device__ std::uint32_t nearest(std::uint32_t significand, int shift) {
  const int down = min(-shift, 31);  // below 2^28, nothing is left from 30 on
  return shift >= 0 ? significand : (significand + (1u << (down - 1))) >> down;
}
__device__ double power_of_two(int exponent) {
  return __hiloint2double((exponent + 1023) << 20, 0);
}

/// Its least set bit; infinity of 0.
__device__ float least_bit(float magnitude) {
  const std::uint32_t bits = __float_as_uint(magnitude);
  const std::uint32_t rest = (bits & 0x7FFFFF) != 0 ? bits & (bits - 1) : 0;
  return bits == 0 ? INFINITY : magnitude - __uint_as_float(rest);
}

/// Places of the least set bit and of the greatest; low > high for zeros.  What the elements add
/// up to, and their squares.
struct Extent {
  int low = kNoExponent;
  int high;
  bool beyond;
  double sum = 0;
  double squares = 0;
};
__device__ Extent extent_of(const Problem& p, const Factor& f, const KVectorAt& at) {
  Extent extent;
  extent.beyond = bad_row_scale(p, f, at) || at.length > kMaxK;
  int top = 0;  // the greatest magnitude's upper bits
  const Index end = extent.beyond ? 0 : at.length;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (Index c = Index{lane} * kStep; c < end; c += 32 * kStep) {
    const Parts scale = block_scale(p, f, at, c);
    const double factor = scale.significand * power_of_two(scale.exponent);
    float x[kStep];
    decode_step(f.codes.dtype, load_step(p, f, at, c), x);
    extent.beyond = extent.beyond || !scale.finite;
    float least = INFINITY;
#pragma unroll
    for (int i = 0; i < kStep; ++i) {
      const float magnitude = fabsf(x[i]);
      extent.beyond = extent.beyond || !(magnitude < INFINITY);
      const double v = static_cast<double>(magnitude) * factor;
      extent.sum += v;
      extent.squares += v * v;
      top = max(top, __double2hiint(v));
      least = fminf(least, least_bit(magnitude));
    }
    const int place =
        ilogbf(least) + scale.exponent + __ffs(static_cast<int>(scale.significand)) - 1;
    if (least < INFINITY && scale.significand != 0) extent.low = min(extent.low, place);
  }
  extent.low = __reduce_min_sync(~0u, extent.low);
  extent.high = (__reduce_max_sync(~0u, top) >> 20) - 1023;
  extent.beyond = __any_sync(~0u, extent.beyond);
  extent.sum = sum_of_warp(extent.sum);
  extent.squares = sum_of_warp(extent.squares);
  return extent;
}

/// The quantum with which the residuals decide the rounding of few of the K-vector's products with
/// its like: sqrt(K) / 2 of them times the norm are a 2^-22th of the last place of a sum of
/// ordinary size.  That size is the magnitudes' sum squared over K^1.5: a few elements or blocks
/// that outweigh all others, and seldom meet their like, raise it by little.
__device__ int quantum_of(const Extent& extent, Index length, const Sizes& sizes) {
  const double norm = sqrt(extent.squares);
  const auto k = static_cast<double>(length);
  const double share = extent.sum * (extent.sum / (norm * k * k));
  const int wanted = ilogb(share) + 1 - sizes.mantissa - 22;
  const int fine = max(wanted, extent.low);
  const int place = ilogb(norm);
  const auto fraction = static_cast<float>(norm * power_of_two(-place));
  // Raised by more than the roundings of a window's reach.
  const int reach = 8 * place + static_cast<int>(ceilf(log2f(fraction) * 8 + 0.03f));
  const auto quantum_for = [&](int moduli) {
    return (reach - capacity_of_moduli(moduli) / 2 + 7) >> 3;
  };
  const int few = quantum_for(sizes.few);
  return max(few - fine <= sizes.spare ? max(fine, few) : fine, quantum_for(sizes.most));
}

/// A norm or a sum, raised by far more than its roundings.
__device__ float raised(double all) {
  return all == 0 ? 0.0f : fmaxf(static_cast<float>(all) * 1.001f, 0x1p-60f);
}

/// Where the norms of a K-vector's blocks go, if anywhere.
struct Norms {
  std::uint32_t* words;
  bool of_a;
};
/// The norms of a block's elements or integers, and of its residuals, as a pair of bf16: raised by
/// another percent, for what is lost where products are added.
__device__ std::uint32_t pair_of_norms(float elements, float residuals, bool of_a) {
  const auto above = [](float norm) { return (__float_as_uint(norm * 1.01f) + 0xFFFF) >> 16; };
  const std::uint32_t first = above(of_a ? residuals : elements);
  return first | above(of_a ? elements : residuals) << 16;
}

/// Adds to the window what the residuals are, and writes the norms of blocks.  Two neighbouring
/// threads have a block.
__device__ void measure_residuals(const Problem& p, const Factor& f, const KVectorAt& at,
                                  KVectorWindow& window, const Norms& norms) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const double unit = power_of_two(-window.quantum);
  double squares = 0;
  double sum = 0;
  for (Index c = Index{lane} * kStep; c / kNormed * kNormed < at.length; c += 32 * kStep) {
    float x[kStep] = {};
    Parts scale{};
    if (c < at.length) {
      scale = block_scale(p, f, at, c);
      decode_step(f.codes.dtype, load_step(p, f, at, c), x);
    }
    const double factor = scale.significand * power_of_two(scale.exponent) * unit;
    double elements = 0;
    double residuals = 0;
#pragma unroll
    for (int i = 0; i < kStep; ++i) {
      const double v = static_cast<double>(x[i]) * factor;
      const double residual = fabs(v) < 0x1p51 ? v - ((v + 0x1.8p52) - 0x1.8p52) : 0.0;
      elements += v * v;
      residuals += residual * residual;
      sum += fabs(residual);
    }
    squares += residuals;
    if (norms.words == nullptr) continue;
    const unsigned both = 3u << (lane & ~1);
    elements += __shfl_xor_sync(both, elements, 1);
    residuals += __shfl_xor_sync(both, residuals, 1);
    const float own = raised(sqrt(lane % 2 == 0 ? residuals : elements));
    const float other = __shfl_xor_sync(both, own, 1);
    if (lane % 2 == 0) norms.words[c / kNormed] = pair_of_norms(other + own, own, norms.of_a);
  }
  window.residual = raised(sqrt(sum_of_warp(squares)));
  window.residual_sum = raised(sum_of_warp(sum));
}

/// The window of quantum q.  Raised by far more than the roundings on the way.
__device__ KVectorWindow window_of(const Problem& p, const Factor& f, const KVectorAt& at,
                                   const Sizes& sizes, const Norms& norms) {
  const Extent extent = extent_of(p, f, at);
  KVectorWindow window{};
  if (extent.beyond) window.slices = kBeyond;
  if (extent.beyond || extent.high < extent.low) return window;
  window.quantum = quantum_of(extent, at.length, sizes);
  window.peak = __int_as_float((extent.high - window.quantum + 1 + 127) << 23);
  if (window.quantum > extent.low || norms.words != nullptr) {
    measure_residuals(p, f, at, window, norms);
  }
  const double norm =
      sqrt(extent.squares) * power_of_two(-window.quantum) + static_cast<double>(window.residual);
  window.norm = static_cast<float>(norm * 1.001);
  window.slices = max(static_cast<int>(ceilf(log2f(window.norm) * 8 + 0.01f)), 1);
  return window;
}

__global__ void __launch_bounds__(32 * kWarps)
    window_kernel(Problem p, Factor f, KVectorMemory codes, Index k_vectors, Sizes sizes,
                  const std::int32_t* wanted, KVectorWindow* window, Norms norms,
                  Index norms_of_one, std::int32_t* reach) {
  if (wanted != nullptr && *wanted == 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::int32_t most = 0;
  const Index warps = gridDim.x * Index{kWarps};
  for (Index index = blockIdx.x * Index{kWarps} + threadIdx.x / 32; index < k_vectors;
       index += warps) {
    const KVectorAt at = k_vector_at(p, f, codes, index);
    if (!at.has_outputs) continue;
    Norms own = norms;
    if (own.words != nullptr) own.words += index * norms_of_one;
    const KVectorWindow w = window_of(p, f, at, sizes, own);
    const Index blocks = w.norm > 0 ? 0 : (at.length + kNormed - 1) / kNormed;
    for (Index i = lane; own.words != nullptr && i < blocks; i += 32) own.words[i] = 0;
    if (lane == 0) window[index] = w;
    if (w.slices < kBeyond) most = max(most, w.slices);
  }
  if (lane == 0 && most > 0) atomicMax(reach, most);
}

/// Elements of integers that are a significand times a power of two.
struct Terms {
  std::int32_t significand[kStep];
  int power[kStep];
};
template <typename Code>
__device__ Terms terms_of(const Problem& p, const Factor& f, const KVectorAt& at, Index c,
                          const KVectorWindow& window) {
  const bool some = c < at.length && window.slices < kBeyond;
  const Parts scale = some ? block_scale(p, f, at, c) : Parts{0, 0, false, true};
  std::uint32_t codes[kStep];
  load_codes<Code>(at, c, codes);
  Terms terms;
#pragma unroll
  for (int i = 0; i < kStep; ++i) {
    const Parts e = scaled(parts_of<Code>(codes[i]), scale);
    const int shift = e.exponent - window.quantum;
    const auto magnitude = static_cast<std::int32_t>(nearest(e.significand, shift));
    terms.significand[i] = e.negative ? -magnitude : magnitude;
    terms.power[i] = e.significand == 0 ? 0 : max(shift, 0);
  }
  return terms;
}

/// `kLong`: significands may have more than eight bits.
template <typename Code, bool kLong>
__global__ void __launch_bounds__(32 * kWarps)
    residues_kernel(Problem p, Factor f, IntegerKVectors of, const std::int32_t* reach, Band met,
                    const std::int32_t* wanted, Residues to) {
  if (wanted != nullptr && *wanted == 0) return;
  __shared__ Modulus moduli[kModuli];
  __shared__ std::uint8_t powers[kModuli][kPowers];
  if (threadIdx.x < kModuli) {
    const Modulus m = modulus(static_cast<int>(threadIdx.x));
    moduli[threadIdx.x] = m;
    std::uint32_t power = 1;
    for (int i = 0; i < kPowers; ++i) {
      powers[threadIdx.x][i] = static_cast<std::uint8_t>(power);
      power = residue_of(power * 2, m);
    }
  }
  __syncthreads();
  const int count = moduli_for(*of.reach + *reach);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Index groups = f.k_is_rows ? p.groups : 1;
  const Index lines = to.memory.k_vectors;
  const Index warps = gridDim.x * Index{kWarps};
  for (Index i = blockIdx.x * Index{kWarps} + threadIdx.x / 32; i < groups * lines; i += warps) {
    const Index line = i % lines;
    const Index index = i / lines * of.codes.k_vectors + to.band.first + line;
    const KVectorAt at = k_vector_at(p, f, of.codes, index);
    const Index start = p.span[at.group].start;
    const bool is_met =
        f.rows_are_rows || f.k_is_rows ||
        (start < met.first + met.count && start + p.span[at.group].rows > met.first);
    if (!at.has_outputs || !is_met) continue;
    const KVectorWindow window = of.window[index];
    std::uint8_t* out = to.data + line * to.memory.k_vector_bytes + at.place;
    for (Index c = Index{lane} * kStep; c < (at.length + 127) / 128 * 128; c += 32 * kStep) {
      const Terms terms = terms_of<Code>(p, f, at, c, window);
#pragma unroll 1
      for (int n = 0; n < count; ++n) {
        const Modulus m = moduli[n];
        std::uint32_t words[kStep / 4] = {};
#pragma unroll
        for (int k = 0; k < kStep; ++k) {
          const std::int32_t significand =
              kLong ? near_remainder(terms.significand[k], m) : terms.significand[k];
          words[k / 4] |= biased_residue(significand, powers[n][terms.power[k]], m) << k % 4 * 8;
        }
        *reinterpret_cast<uint4*>(out + n * to.memory.group_bytes + c) = {
            words[0] ^ 0x80808080u, words[1] ^ 0x80808080u, words[2] ^ 0x80808080u,
            words[3] ^ 0x80808080u};
      }
    }
  }
}

template <typename Run>
void visit_codes(Dtype dtype, const Run& run) {
  if (dtype == Dtype::bf16) {
    run(TypeTag<BF16>{});
  } else {
    visit_minifloat8(dtype, run);
  }
}

}  // namespace

IntegerKVectors measure_integers(DeviceBackend& backend, const Problem& p, const Factor& f,
                                 const KVectorMemory& codes, const std::int32_t* wanted,
                                 IntegerScratch& scratch) {
  const Index windows = f.rows_are_rows ? f.rows : f.rows * p.groups;
  scratch.window.emplace(backend, windows);
  scratch.reach.emplace(backend, 1);
  backend.fill_zero(reinterpret_cast<std::byte*>(scratch.reach->data()), sizeof(std::int32_t));
  KVectorMemory norms;
  if (has_norms(p)) {
    norms.length = ceil_div(p.depth, kNormed) * 4;
    norms.k_vectors = windows;
    norms.k_vector_bytes = round_up(norms.length, 16);
    scratch.norms.emplace(backend, windows * (norms.k_vector_bytes / 4));
    norms.data = reinterpret_cast<const std::uint8_t*>(scratch.norms->data());
  }
  const Norms to{has_norms(p) ? scratch.norms->data() : nullptr, &f == &p.a};
  const auto blocks =
      static_cast<unsigned>(std::clamp<Index>(ceil_div(windows, kWarps), 1, Index{1} << 20));
  window_kernel<<<blocks, 32 * kWarps, 0, backend.stream()>>>(
      p, f, codes, windows, sizes_of(p), wanted, scratch.window->data(), to,
      norms.k_vector_bytes / 4, scratch.reach->data());
  check_launch("window_kernel");
  return {{codes, scratch.window->data()}, scratch.reach->data(), norms};
}

void make_residues(DeviceBackend& backend, const Problem& p, const Factor& f,
                   const IntegerKVectors& of, const IntegerKVectors& other, const Band& met,
                   const std::int32_t* wanted, const Residues& to) {
  const auto blocks = static_cast<unsigned>(backend.multiprocessors() * 8);
  visit_codes(f.codes.dtype, [&](auto tag) {
    using Code = typename decltype(tag)::type;
    const auto kernel =
        p.form == ScaleForm::blockwise ? residues_kernel<Code, true> : residues_kernel<Code, false>;
    kernel<<<blocks, 32 * kWarps, 0, backend.stream()>>>(p, f, of, other.reach, met, wanted, to);
  });
  check_launch("residues_kernel");
}

}  // namespace mxo::cuda

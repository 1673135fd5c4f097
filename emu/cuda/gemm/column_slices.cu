// 8-bit codes of contracted rows, whose K-vectors lie side by side, to integers of two slices and
// residuals: a tile of 128 places of 128 K-vectors at a time, from where they lie.
#include <algorithm>
#include <climits>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/integer_bytes.cuh"
#include "emu/cuda/gemm/side_by_side.cuh"
#include "formats/mx_block.h"

namespace mxo::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kNeighbours = 16;  ///< K-vectors that a thread reads at once

/// The greatest magnitude of a K-vector: 16 times the place of its bit, more than kBeforeAll, and
/// its four significant bits; 0 of zeros, kNoNumber with a NaN or an infinity.
constexpr int kBeforeAll = 1 << 20;
constexpr std::int32_t kNoNumber = INT_MAX;
struct Top {
  std::int32_t key;

  __device__ bool given() const { return key != 0 && key != kNoNumber; }
  __device__ int quantum() const { return given() ? (key >> 4) - kBeforeAll - kTopBit : 0; }
  __device__ int significand() const { return key & 15; }
};
/// Of a code of that magnitude, scaled.
template <typename Code>
__device__ std::int32_t key_of(std::uint32_t magnitude, int scale) {
  const Parts e = parts_of<Code>(magnitude);
  if (!e.finite) return kNoNumber;
  if (e.significand == 0) return 0;
  const int bit = 31 - __clz(static_cast<int>(e.significand));
  return (e.exponent + scale + bit + kBeforeAll) * 16 +
         static_cast<int>(e.significand << (kCodeBits - 1 - bit));
}

/// Where 128 places of a group are: places beyond it hold zeros.
struct Chunk {
  Index group;
  Index first;  ///< place in the group
  Index places;
};
__device__ Chunk chunk_of(const Problem& p, Index chunk) {
  const Index g = group_at(p, chunk, &GroupSpan::packed);
  const GroupSpan& span = p.span[g];
  const Index first = (chunk - span.packed) * kSide;
  return {g, first, min(Index{kSide}, span.rows - first)};
}
__device__ const std::uint8_t* codes_at(const Problem& p, const Factor& f, const Chunk& chunk,
                                        Index k_vector) {
  return static_cast<const std::uint8_t*>(f.codes.data) +
         p.code_at(f, chunk.group, k_vector, chunk.first);
}

/// A thread joins a chunk of 16 K-vectors to their tops.
template <typename Code>
__global__ void __launch_bounds__(kThreads)
    tops_kernel(Problem p, Factor f, Index k_vectors, std::int32_t* tops) {
  const Index across = k_vectors / kNeighbours;
  const Index all = across * p.span[p.groups].packed;
  for (Index n = blockIdx.x * Index{kThreads} + threadIdx.x; n < all;
       n += gridDim.x * Index{kThreads}) {
    const Chunk chunk = chunk_of(p, n / across);
    const Index k_vector = n % across * kNeighbours;
    const std::uint8_t* from = codes_at(p, f, chunk, k_vector);
    std::int32_t key[kNeighbours] = {};
    for (Index block = 0; block < chunk.places; block += kMxBlock) {
      const Index end = min(block + kMxBlock, chunk.places);
      std::uint32_t greatest[4] = {};
      std::uint32_t nan[4] = {};
#pragma unroll 8
      for (Index place = block; place < end; ++place) {
        const uint4 loaded = __ldg(reinterpret_cast<const uint4*>(from + place * f.step));
        const std::uint32_t words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          greatest[i] = __vmaxu4(greatest[i], words[i] & 0x7F7F7F7Fu);
          // 80 is the only NaN of these.
          if (Code::spec.special == Special::nan_minus_0)
            nan[i] |= __vcmpeq4(words[i], 0x80808080u);
        }
      }
      uint4 loaded{0x7F7F7F7Fu, 0x7F7F7F7Fu, 0x7F7F7F7Fu, 0x7F7F7F7Fu};
      if (p.form == ScaleForm::mx) {
        const auto* scales = static_cast<const std::uint8_t*>(f.scales.data);
        loaded = *reinterpret_cast<const uint4*>(
            scales + p.scale_at(f, chunk.group, k_vector, chunk.first + block));
      }
      const std::uint32_t scales[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
#pragma unroll
      for (int i = 0; i < kNeighbours; ++i) {
        const int by = i % 4 * 8;
        const auto scale = static_cast<int>(scales[i / 4] >> by & 0xFF);
        const bool none = scale == 0xFF || (nan[i / 4] >> by & 0xFF) != 0;
        const std::int32_t own = key_of<Code>(greatest[i / 4] >> by & 0xFF, scale - 127);
        key[i] = max(key[i], none ? kNoNumber : own);
      }
    }
#pragma unroll
    for (int i = 0; i < kNeighbours; ++i) {
      atomicMax(tops + chunk.group * k_vectors + k_vector + i, key[i]);
    }
  }
}

/// Empty lists.
__global__ void __launch_bounds__(kThreads)
    start_kernel(Problem p, Factor f, Index k_vectors, std::int32_t* tops, Residuals* residuals) {
  const Index n = blockIdx.x * Index{kThreads} + threadIdx.x;
  if (n >= p.groups * k_vectors) return;
  const Index group = n / k_vectors;
  const Index length = p.length_of(group);
  if (length > kMaxK) tops[n] = kNoNumber;
  if (p.form == ScaleForm::rowwise && length > 0) {
    const float scale =
        static_cast<const float*>(f.scales.data)[p.scale_at(f, group, n % k_vectors, 0)];
    if (!isfinite(scale)) tops[n] = kNoNumber;
  }
  residuals[n].quantum = Top{tops[n]}.quantum();
  residuals[n].sum = 0;
  residuals[n].count = 0;
}

/// One K-vector's residuals of 16 places: appended in any order.
__device__ void append(const float (&x)[kStep], const std::uint32_t (&v)[kStep], bool far,
                       Index place, Residuals& to) {
  if (far) atomicAdd(&to.count, kMaxResiduals + 1);
#pragma unroll
  for (int i = 0; i < kStep; ++i) {
    const float value = x[i] - integer_of(v[i]);
    if (value == 0.0f) continue;
    atomicAdd(&to.sum, fabsf(value));
    const std::int32_t slot = atomicAdd(&to.count, 1);
    if (slot < kMaxResiduals) {
      to.item[slot] = {static_cast<std::uint16_t>(place + i), from_float<BF16>(value)};
    }
  }
}

/// What tiles become.
struct Sliced {
  std::uint8_t* low;
  Index high;  ///< bytes after the low slice
  Index k_vector_bytes;
  Residuals* residuals;
  SideBySide lines;  ///< of high slices; none: not wanted
};
/// A tile's codes, then high slices, places down; its slices, K-vectors down.  What is written in
/// halves of a sector takes four times as long.
struct Tiles {
  using Lines = uint4[kSide][kSide / 16 + 1];
  Lines codes;
  Lines low;
  Lines high;
};
template <typename Code>
__global__ void __launch_bounds__(kThreads, 4)
    column_slices_kernel(Problem p, Factor f, Index k_vectors, const std::int32_t* tops,
                         Sliced to) {
  constexpr int kRun = 32;  ///< places that a thread takes, of one block
  constexpr int kLine = sizeof(Tiles::Lines) / kSide;
  extern __shared__ uint4 memory[];
  Tiles& tiles = *reinterpret_cast<Tiles*>(memory);
  const Index across = (k_vectors + kSide - 1) / kSide;
  const Index all = across * p.span[p.groups].packed;
  for (Index t = blockIdx.x; t < all; t += gridDim.x) {
    const Index number = t / across;
    const Chunk chunk = chunk_of(p, number);
    const Index first = t % across * kSide;
    const std::uint8_t* from = codes_at(p, f, chunk, first);
    for (int n = static_cast<int>(threadIdx.x); n < kSide * 8; n += kThreads) {
      const int place = n / 8;
      const int unit = n % 8 * 16;
      const bool there = place < chunk.places && first + unit < k_vectors;
      tiles.codes[place][n % 8] =
          there ? *reinterpret_cast<const uint4*>(from + place * f.step + unit) : uint4{};
    }
    __syncthreads();
    const int column = static_cast<int>(threadIdx.x) % kSide;
    const Index k_vector = first + column;
    const Index index = chunk.group * k_vectors + k_vector;
    for (int run = static_cast<int>(threadIdx.x) / kSide * kRun;
         k_vector < k_vectors && run < kSide; run += kThreads / kSide * kRun) {
      const Top top{tops[index]};
      int shift = -top.quantum();
      if (p.form == ScaleForm::mx && run < chunk.places) {
        const Index scale = p.scale_at(f, chunk.group, k_vector, chunk.first + run);
        shift += static_cast<const std::uint8_t*>(f.scales.data)[scale] - 127;
      }
#pragma unroll 1
      for (int step = run; step < run + kRun; step += kStep) {
        auto* const bytes = reinterpret_cast<std::uint8_t*>(tiles.codes[step]) + column;
        std::uint32_t words[4] = {};
#pragma unroll
        for (int i = 0; i < kStep; ++i) {
          words[i / 4] |= std::uint32_t{bytes[i * kLine]} << i % 4 * 8;
        }
        if (!top.given()) words[0] = words[1] = words[2] = words[3] = 0;
        float x[kStep];
        decode_codes<Code>(uint4{words[0], words[1], words[2], words[3]}, x);
        std::uint32_t v[kStep];
        if (to_integers(shift, x, v)) {
          append(x, v, shift < kLeastShift, chunk.first + step, to.residuals[index]);
        }
        std::uint32_t low[4];
        std::uint32_t high[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) take_bytes(v, 4 * i, low[i], high[i]);
        tiles.low[column][step / kStep] = {low[0], low[1], low[2], low[3]};
        tiles.high[column][step / kStep] = {high[0], high[1], high[2], high[3]};
        if (to.lines.data == nullptr) continue;
#pragma unroll
        for (int i = 0; i < kStep; ++i) {
          bytes[i * kLine] = static_cast<std::uint8_t>(high[i / 4] >> i % 4 * 8);
        }
      }
    }
    __syncthreads();
    for (int n = static_cast<int>(threadIdx.x); n < kSide * 8; n += kThreads) {
      const int line = n / 8;
      if (to.lines.data != nullptr) {
        std::uint8_t* out = to.lines.data + (number * kSide + line) * to.lines.line_bytes + first;
        reinterpret_cast<uint4*>(out)[n % 8] = tiles.codes[line][n % 8];
      }
      if (first + line >= k_vectors) continue;
      std::uint8_t* out = to.low + (first + line) * to.k_vector_bytes + number * kSide;
      reinterpret_cast<uint4*>(out)[n % 8] = tiles.low[line][n % 8];
      reinterpret_cast<uint4*>(out + to.high)[n % 8] = tiles.high[line][n % 8];
    }
    __syncthreads();
  }
}

/// What the lists have become.
__global__ void __launch_bounds__(kThreads)
    finish_kernel(Problem p, Index k_vectors, const std::int32_t* tops, Residuals* residuals,
                  KVectorWindow* window) {
  const Index n = blockIdx.x * Index{kThreads} + threadIdx.x;
  if (n >= p.groups * k_vectors) return;
  Residuals& of = residuals[n];
  const Top top{tops[n]};
  const Index length = p.length_of(n / k_vectors);
  window[n] = window_of({of.quantum, top.significand(), tops[n] == kNoNumber, top.given(), of.count,
                         most_residuals(p, length), of.sum * 1.003f, length},
                        of);
}

}  // namespace

bool takes_columns(const Problem& p, const Factor& f, Index k_vectors) {
  if (!f.k_is_rows || f.codes.dtype == Dtype::bf16 || !can_transpose_k_vectors(f, k_vectors)) {
    return false;
  }
  if (p.form == ScaleForm::rowwise) return true;
  const auto aligned = [](Index n) { return n % 16 == 0; };
  return p.form == ScaleForm::mx && f.scales_row_step == 1 && f.row_tile == 1 && f.first_row == 0 &&
         aligned(f.scales_step) && aligned(f.scales_start) &&
         aligned(reinterpret_cast<Index>(f.scales.data));
}

TwoSlices slice_columns(DeviceBackend& backend, const Problem& p, const Factor& f,
                        const KVectorMemory& codes, Index k_vectors, TwoSliceScratch& scratch) {
  TwoSlices made;
  const Index windows =
      make_slice_memory(backend, p, f, codes, k_vectors, 2, made.slices, scratch.slices);
  scratch.residuals.emplace(backend, windows);
  made.residuals = scratch.residuals->data();
  const KVectorMemory& memory = made.slices.memory;
  const Index across = ceil_div(k_vectors, kSide);
  if (p.out.dtype == Dtype::bf16) {
    scratch.lines.emplace(backend, across * kSide * memory.length);
    made.high_lines = scratch.lines->data();
  }
  Scratch<std::int32_t> tops(backend, windows);
  backend.fill_zero(reinterpret_cast<std::byte*>(tops.data()),
                    static_cast<std::size_t>(windows) * sizeof(std::int32_t));
  const auto blocks = [](Index n) {
    return static_cast<unsigned>(std::clamp<Index>(n, 1, Index{1} << 20));
  };
  const Index chunks = memory.length / kSide;
  const unsigned of_windows = blocks(ceil_div(windows, kThreads));
  visit_minifloat8(f.codes.dtype, [&](auto tag) {
    using Code = typename decltype(tag)::type;
    tops_kernel<Code><<<blocks(ceil_div(k_vectors / kNeighbours * chunks, kThreads)), kThreads, 0,
                        backend.stream()>>>(p, f, k_vectors, tops.data());
    start_kernel<<<of_windows, kThreads, 0, backend.stream()>>>(p, f, k_vectors, tops.data(),
                                                                scratch.residuals->data());
    constexpr int kBytes = sizeof(Tiles);
    check(cudaFuncSetAttribute(column_slices_kernel<Code>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
          "cudaFuncSetAttribute");
    column_slices_kernel<Code><<<blocks(across * chunks), kThreads, kBytes, backend.stream()>>>(
        p, f, k_vectors, tops.data(),
        Sliced{scratch.slices.slices->data(), memory.group_bytes, memory.k_vector_bytes,
               scratch.residuals->data(), SideBySide{made.high_lines, across * kSide}});
  });
  finish_kernel<<<of_windows, kThreads, 0, backend.stream()>>>(
      p, k_vectors, tops.data(), scratch.residuals->data(), scratch.slices.window->data());
  check_launch("column_slices_kernel");
  return made;
}

}  // namespace mxo::cuda

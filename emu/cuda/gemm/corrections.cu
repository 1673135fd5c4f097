// What the residuals of both K-vectors add to each output, by the high slices: K-vectors lie side
// by side, so that one residual meets 128 of them in a line of memory.
#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/tile_pipeline.cuh"
#include "emu/cuda/gemm/two_slices.cuh"

namespace mxo::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kSide = 128;  ///< of a tile

/// High slices, those of one place along k in a line: tiles of 128 K-vectors one after the other,
/// which start anew in each group.
struct SideBySide {
  std::int8_t* data;
  Index line_bytes;
};
/// Where a tile is: its number, its first K-vector in memory, how many there are.
struct Side {
  Index number;
  Index first;
  int count;
};
/// K-vectors from `at` of a group on, of the factor whose K-vectors are rows of x or dy.
__device__ Side side_a(const Problem& p, Index group, Index at) {
  const auto count = static_cast<int>(min(Index{kSide}, p.rows_of(group) - at));
  if (p.contracts_rows()) return {at / kSide, at, count};
  const GroupSpan& span = p.span[group];
  return {span.row_tile + at / kSide, span.start + at, count};
}
__device__ Side side_b(const Problem& p, Index group, Index at) {
  const auto count = static_cast<int>(min(Index{kSide}, p.b.rows - at));
  const Index across = (p.b.rows + kSide - 1) / kSide;
  if (p.contracts_rows()) return {at / kSide, at, count};
  return {group * across + at / kSide, group * p.b.rows + at, count};
}
/// The tile of that number.
template <bool OfA>
__device__ Side side_number(const Problem& p, Index number) {
  if (OfA && !p.contracts_rows()) {
    const Index group = group_at(p, number, &GroupSpan::row_tile);
    return side_a(p, group, (number - p.span[group].row_tile) * kSide);
  }
  if (OfA) return side_a(p, 0, number * kSide);
  const Index across = (p.b.rows + kSide - 1) / kSide;
  return side_b(p, number / across, number % across * kSide);
}

/// A block turns 128 places of 128 K-vectors.
template <bool OfA>
__global__ void __launch_bounds__(kThreads)
    turn_kernel(Problem p, const std::uint8_t* from, Index k_vector_bytes, SideBySide to) {
  __shared__ std::uint8_t tile[kSide][kSide + 4];
  if (OfA && !p.contracts_rows() && Index{blockIdx.x} >= p.span[p.groups].row_tile) return;
  const Side side = side_number<OfA>(p, blockIdx.x);
  const Index k = Index{blockIdx.y} * kSide;
  for (int n = static_cast<int>(threadIdx.x); n < kSide * 8; n += kThreads) {
    const int row = n / 8;
    const int at = n % 8 * 16;
    uint4 codes{};
    if (row < side.count) {
      codes = *reinterpret_cast<const uint4*>(from + (side.first + row) * k_vector_bytes + k + at);
    }
    auto* words = reinterpret_cast<std::uint32_t*>(&tile[row][at]);
    words[0] = codes.x;
    words[1] = codes.y;
    words[2] = codes.z;
    words[3] = codes.w;
  }
  __syncthreads();
  for (int n = static_cast<int>(threadIdx.x); n < kSide * 8; n += kThreads) {
    const int place = n / 8;
    const int at = n % 8 * 16;
    std::uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      words[i / 4] |= static_cast<std::uint32_t>(tile[at + i][place]) << i % 4 * 8;
    }
    *reinterpret_cast<uint4*>(to.data + (k + place) * to.line_bytes + side.number * kSide + at) = {
        words[0], words[1], words[2], words[3]};
  }
}

template <bool OfA>
SideBySide turn(DeviceBackend& backend, const Problem& p, const TwoSlices& of, Index tiles,
                std::optional<Scratch<std::int8_t>>& scratch) {
  const KVectorMemory& m = of.slices.memory;
  scratch.emplace(backend, tiles * kSide * m.k_vector_bytes);
  const SideBySide turned{scratch->data(), tiles * kSide};
  const dim3 blocks(static_cast<unsigned>(tiles), static_cast<unsigned>(m.k_vector_bytes / kSide));
  turn_kernel<OfA><<<blocks, kThreads, 0, backend.stream()>>>(p, m.data + m.group_bytes,
                                                              m.k_vector_bytes, turned);
  return turned;
}

/// Adds `word`, a residual, times the high slices of four K-vectors.
__device__ void add_residual(std::uint32_t word, std::uint32_t high, float (&sum)[4]) {
  const float value = __uint_as_float(word & 0xFFFF0000u);
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    sum[n] = fmaf(value, static_cast<float>(static_cast<std::int8_t>(high >> 8 * n)), sum[n]);
  }
}

/// Calls put(line, sums) for this warp's 16 of `lines` lists: the list's residuals times the high
/// slices of the other side's K-vectors 4 lane + n, which are in `other`.
template <typename Put>
__device__ void each_list(const Residuals* lists, int lines, const std::int8_t* other,
                          Index line_bytes, Put put) {
  constexpr int kFirst = 8;  // items that a lane pair holds
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(threadIdx.x) / 32 * 16;
  const auto of_place = [&](std::uint32_t word) {
    return __ldg(reinterpret_cast<const std::uint32_t*>(other + (word & 0xFFFF) * line_bytes) +
                 lane);
  };
  int held = 0;
  uint4 items{};
  if (first + lane / 2 < lines) {
    const Residuals& list = lists[first + lane / 2];
    held = list.count;
    items = *reinterpret_cast<const uint4*>(list.item + lane % 2 * 4);
  }
#pragma unroll 1
  for (int i = 0; i < 16; ++i) {  // none is held of lines there are not
    const int count = __shfl_sync(~0u, held, 2 * i);
    const std::uint32_t parts[4] = {items.x, items.y, items.z, items.w};
    std::uint32_t words[kFirst];
    std::uint32_t high[kFirst] = {};
#pragma unroll
    for (int n = 0; n < kFirst; ++n) {
      words[n] = __shfl_sync(~0u, parts[n % 4], 2 * i + n / 4);
      if (n < count) high[n] = of_place(words[n]);
    }
    float sum[4] = {};
#pragma unroll
    for (int n = 0; n < kFirst; ++n) {
      if (n < count) add_residual(words[n], high[n], sum);
    }
    for (int n = kFirst; n < count; ++n) {
      const auto word = __ldg(reinterpret_cast<const std::uint32_t*>(lists[first + i].item + n));
      add_residual(word, of_place(word), sum);
    }
    put(first + i, sum);
  }
}

__global__ void __launch_bounds__(kThreads)
    corrections_kernel(Problem p, TwoSlices a, TwoSlices b, SideBySide high_a, SideBySide high_b,
                       __half* out) {
  __shared__ __half sums[kSide][kSide + 2];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Index tiles = tiles_of<kSide>(p);
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Tile t = tile_of<kSide>(p, index);
    const Side of_a = side_a(p, t.group, t.row);
    const Side of_b = side_b(p, t.group, t.column);
    const bool along_rows = p.contracts_rows();  // windows of all groups
    const Residuals* lists_a = a.residuals + of_a.first + (along_rows ? t.group * p.a.rows : 0);
    const Residuals* lists_b = b.residuals + of_b.first + (along_rows ? t.group * p.b.rows : 0);
    const int own = static_cast<int>(threadIdx.x) % kSide;
    const bool hard = threadIdx.x < kSide
                          ? own < of_a.count && lists_a[own].slices == kManyResiduals
                          : own < of_b.count && lists_b[own].slices == kManyResiduals;
    if (__syncthreads_or(hard) != 0) continue;
    const Index place = along_rows ? Index{p.span[t.group].packed} * 128 : 0;
    const auto line_of = [&](const SideBySide& high, const Side& side) {
      return high.data + place * high.line_bytes + side.number * kSide;
    };
    each_list(lists_a, of_a.count, line_of(high_b, of_b), high_b.line_bytes,
              [&](int row, const float(&sum)[4]) {
                auto* to = reinterpret_cast<__half2*>(&sums[row][4 * lane]);
                to[0] = __floats2half2_rn(sum[0], sum[1]);
                to[1] = __floats2half2_rn(sum[2], sum[3]);
              });
    __syncthreads();
    each_list(lists_b, of_b.count, line_of(high_a, of_a), high_a.line_bytes,
              [&](int column, const float(&sum)[4]) {
#pragma unroll
                for (int n = 0; n < 4; ++n) {
                  __half& to = sums[4 * lane + n][column];
                  to = __float2half_rn(__half2float(to) + sum[n]);
                }
              });
    __syncthreads();
    auto* to = reinterpret_cast<__half2*>(out + Corrections::place(p, t.group, t.row, t.column) *
                                                    Corrections::kTile);
    for (int n = static_cast<int>(threadIdx.x); n < of_a.count * kSide / 2; n += kThreads) {
      to[n] = *reinterpret_cast<const __half2*>(&sums[n / (kSide / 2)][n % (kSide / 2) * 2]);
    }
  }
}

}  // namespace

Corrections make_corrections(DeviceBackend& backend, const Problem& p, const TwoSlices& a,
                             const TwoSlices& b, std::optional<Scratch<__half>>& scratch) {
  constexpr Index kShort = 4096;  // so few residuals that looking them up takes less time
  const Index lengths = p.contracts_rows() ? p.groups : 1;
  constexpr Index kMostChunks = 65535;  // of a grid's second axis
  if (p.depth < kShort * lengths || a.slices.memory.k_vector_bytes > kMostChunks * kSide) {
    return {nullptr};
  }
  std::optional<Scratch<std::int8_t>> turned[2];
  const bool along_rows = p.contracts_rows();
  const Index down = ceil_div(p.a.rows, kSide) + (along_rows ? 0 : p.groups);
  const Index across = ceil_div(p.b.rows, kSide);
  const SideBySide high_a = turn<true>(backend, p, a, down, turned[0]);
  const SideBySide high_b =
      turn<false>(backend, p, b, along_rows ? across : across * p.groups, turned[1]);
  scratch.emplace(backend, (along_rows ? p.groups : 1) * down * across * Corrections::kTile);
  const auto blocks = static_cast<unsigned>(backend.multiprocessors() * 6);
  corrections_kernel<<<blocks, kThreads, 0, backend.stream()>>>(p, a, b, high_a, high_b,
                                                                scratch->data());
  check_launch("corrections_kernel");
  return {scratch->data()};
}

}  // namespace mxo::cuda

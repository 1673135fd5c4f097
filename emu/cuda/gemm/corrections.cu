// What the residuals of both K-vectors add to each output: by the high slices for bf16, by the
// integers, exactly or not at all, for f32.  K-vectors lie side by side, so that one
// residual meets 128 of them in a line of memory.
#include <type_traits>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/tile_pipeline.cuh"
#include "emu/cuda/gemm/two_slices.cuh"

namespace mxo::cuda {
namespace {

constexpr int kTurnThreads = 256;
constexpr int kSide = 128;  ///< of a tile

/// What residuals are multiplied by, a byte an element, and how the sums are kept.
struct HighSlices {
  using Sum = __half;
  using Two = __half2;
  static constexpr int kThreads = 256;
  static constexpr float kUnit = 1.0f;
  __device__ static std::uint32_t four(std::uint32_t, std::uint32_t high) { return high; }
  __device__ static void values(std::uint32_t four, float (&v)[4]) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      v[n] = static_cast<float>(static_cast<std::int8_t>(four >> 8 * n));
    }
  }
  __device__ static float add(float sum, float residual, float v) { return fmaf(residual, v, sum); }
  __device__ static float join(float a, float b) { return a + b; }
  __device__ static float widened(__half sum) { return __half2float(sum); }
  __device__ static __half kept(float sum) { return __float2half_rn(sum); }
};
/// An integer has four significant bits and is below 2^15: 2^-9 times it is a number of e4m3.  Sums
/// are exact, or NaN.
struct Integers {
  using Sum = float;
  using Two = float2;
  static constexpr int kThreads = 512;
  static constexpr float kUnit = 0x1p9f;
  __device__ static std::uint32_t four(std::uint32_t low, std::uint32_t high) {
    std::uint16_t two[2];
#pragma unroll
    for (int n = 0; n < 4; n += 2) {
      const auto element = [&](int i) {
        const int v =
            256 * static_cast<std::int8_t>(high >> 8 * i) + static_cast<std::int8_t>(low >> 8 * i);
        return static_cast<float>(v) * 0x1p-9f;
      };
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
          : "=h"(two[n / 2])
          : "f"(element(n + 1)), "f"(element(n)));
    }
    return two[0] | static_cast<std::uint32_t>(two[1]) << 16;
  }
  __device__ static void values(std::uint32_t four, float (&v)[4]) {
#pragma unroll
    for (int n = 0; n < 4; n += 2) {
      std::uint32_t halves;
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
          : "=r"(halves)
          : "h"(static_cast<std::uint16_t>(four >> 8 * n)));
      asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\ncvt.f32.f16 %0, a;\ncvt.f32.f16 %1, b;\n}"
          : "=f"(v[n]), "=f"(v[n + 1])
          : "r"(halves));
    }
  }
  __device__ static float add(float sum, float residual, float v) {
    return join(sum, residual * v);  // of four bits each
  }
  __device__ static float join(float a, float b) {
    const float sum = a + b;  // Knuth: what it lacks
    const float of_b = sum - a;
    const float lost = (a - (sum - of_b)) + (b - of_b);
    return lost == 0.0f ? sum : NAN;
  }
  __device__ static float widened(float sum) { return sum; }
  __device__ static float kept(float sum) { return sum; }
};

/// Those bytes of one place along k in a line: tiles of 128 K-vectors one after the other, which
/// restart in each group.
struct SideBySide {
  std::uint8_t* data;
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
template <typename Of, bool OfA>
__global__ void __launch_bounds__(kTurnThreads)
    turn_kernel(Problem p, KVectorMemory from, SideBySide to) {
  __shared__ std::uint8_t tile[kSide][kSide + 4];
  if (OfA && !p.contracts_rows() && Index{blockIdx.x} >= p.span[p.groups].row_tile) return;
  const Side side = side_number<OfA>(p, blockIdx.x);
  const Index k = Index{blockIdx.y} * kSide;
  for (int n = static_cast<int>(threadIdx.x); n < kSide * 8; n += kTurnThreads) {
    const int row = n / 8;
    const int at = n % 8 * 16;
    uint4 low{};
    uint4 high{};
    if (row < side.count) {
      const std::uint8_t* of_row = from.data + (side.first + row) * from.k_vector_bytes + k + at;
      low = *reinterpret_cast<const uint4*>(of_row);
      high = *reinterpret_cast<const uint4*>(of_row + from.group_bytes);
    }
    auto* words = reinterpret_cast<std::uint32_t*>(&tile[row][at]);
    words[0] = Of::four(low.x, high.x);
    words[1] = Of::four(low.y, high.y);
    words[2] = Of::four(low.z, high.z);
    words[3] = Of::four(low.w, high.w);
  }
  __syncthreads();
  for (int n = static_cast<int>(threadIdx.x); n < kSide * 8; n += kTurnThreads) {
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

template <typename Of, bool OfA>
SideBySide turn(DeviceBackend& backend, const Problem& p, const TwoSlices& of, Index tiles,
                std::optional<Scratch<std::uint8_t>>& scratch) {
  const KVectorMemory& m = of.slices.memory;
  scratch.emplace(backend, tiles * kSide * m.k_vector_bytes);
  const SideBySide turned{scratch->data(), tiles * kSide};
  const dim3 blocks(static_cast<unsigned>(tiles), static_cast<unsigned>(m.k_vector_bytes / kSide));
  turn_kernel<Of, OfA><<<blocks, kTurnThreads, 0, backend.stream()>>>(p, m, turned);
  return turned;
}

/// The lists of a tile's K-vectors: how long they are, and their first items.
struct Lists {
  static constexpr int kFirst = 8;
  static constexpr int kStep = 4;  ///< items on their way at once
  const Residuals* all;
  int* count;  ///< 0 of K-vectors there are not
  uint4 (*first)[kFirst / kStep];

  __device__ uint4 items(int line, int n) const {
    return n < kFirst ? first[line][n / kStep]
                      : __ldg(reinterpret_cast<const uint4*>(all[line].item + n));
  }
  __device__ std::uint32_t item(int line, int n) const {
    return __ldg(reinterpret_cast<const std::uint32_t*>(all[line].item + n));
  }
};

/// Sums of a tile, where 128 rows of a column lie in all banks.
template <typename Of>
__device__ int place_of_sum(int row, int column) {
  constexpr int kOfWord = 4 / static_cast<int>(sizeof(typename Of::Sum));
  return row * kSide + (column ^ row / 4 * kOfWord);
}

/// What a block shares.
template <typename Of>
struct Shared {
  typename Of::Sum sums[kSide * kSide];
  int count[2][kSide];
  uint4 first[2][kSide][Lists::kFirst / Lists::kStep];
};
/// Residuals of b by their places: chains of line * kMost + item.
struct Places {
  static constexpr int kHeads = 1024;
  static constexpr int kMost = 64;
  static constexpr std::uint16_t kNone = 0xFFFF;
  static_assert(kMaxResiduals <= kMost && kSide * kMost < kNone);
  std::uint32_t head[kHeads];
  std::uint16_t next[kSide * kMost];
};

/// Brings the lists of a tile's K-vectors to shared memory, 128 threads a side; true if one is too
/// long.
__device__ bool load_list(const Lists& of, int lines) {
  const int line = static_cast<int>(threadIdx.x) % kSide;
  int count = 0;
  bool hard = false;
  if (line < lines) {
    const Residuals& list = of.all[line];
    const ResidualsHead head = head_of(list);
    hard = head.slices == kManyResiduals;
    count = head.count;
    const auto* items = reinterpret_cast<const uint4*>(list.item);
    of.first[line][0] = items[0];
    if (count > Lists::kStep) of.first[line][1] = items[1];
  }
  of.count[line] = count;
  return hard;
}

/// Calls put(line, sums) for this warp's share of 128 lists: the list's residuals times the
/// elements of the other side's K-vectors 4 lane + n, which are in `other`.
template <typename Of, typename Put>
__device__ void each_list(const Lists& lists, const std::uint8_t* other, Index line_bytes,
                          Put put) {
  constexpr int kStep = Lists::kStep;
  constexpr int kShare = kSide * 32 / Of::kThreads;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int begin = static_cast<int>(threadIdx.x) / 32 * kShare;
#pragma unroll 1
  for (int line = begin; line < begin + kShare; ++line) {
    const int count = lists.count[line];
    float sum[4] = {};
#pragma unroll 1
    for (int first = 0; first < count; first += kStep) {
      const uint4 items = lists.items(line, first);
      const std::uint32_t words[kStep] = {items.x, items.y, items.z, items.w};
      std::uint32_t four[kStep];
#pragma unroll
      for (int n = 0; n < kStep; ++n) {
        if (first + n >= count) break;
        const std::uint8_t* at = other + (words[n] & 0xFFFF) * line_bytes;
        four[n] = __ldg(reinterpret_cast<const std::uint32_t*>(at) + lane);
      }
#pragma unroll
      for (int n = 0; n < kStep; ++n) {
        if (first + n >= count) break;
        const float residual = __uint_as_float(words[n] & 0xFFFF0000u);
        float v[4];
        Of::values(four[n], v);
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] = Of::add(sum[i], residual, v[i]);
      }
    }
    put(line, sum);
  }
}

/// Calls put(line, n, word) for each item of the lists, an item to a lane.
template <typename Of, typename Put>
__device__ void each_item(const Lists& lists, Put put) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int line = static_cast<int>(threadIdx.x) / 32; line < kSide; line += Of::kThreads / 32) {
    for (int n = lane; n < lists.count[line]; n += 32) put(line, n, lists.item(line, n));
  }
}

/// NaN for the sums of K-vectors of which both leave a residual at one place.
__device__ void drop_common(const Lists& a, const Lists& b, Shared<Integers>& shared,
                            Places& places) {
  for (int i = static_cast<int>(threadIdx.x); i < Places::kHeads; i += Integers::kThreads) {
    places.head[i] = Places::kNone;
  }
  __syncthreads();
  each_item<Integers>(b, [&](int line, int n, std::uint32_t word) {
    const auto entry = static_cast<std::uint32_t>(line * Places::kMost + n);
    const std::uint32_t before = atomicExch(&places.head[word % Places::kHeads], entry);
    places.next[entry] = static_cast<std::uint16_t>(before);
  });
  __syncthreads();
  each_item<Integers>(a, [&](int row, int, std::uint32_t word) {
    for (std::uint32_t entry = places.head[word % Places::kHeads]; entry != Places::kNone;
         entry = places.next[entry]) {
      const int column = static_cast<int>(entry) / Places::kMost;
      const std::uint32_t other = b.item(column, static_cast<int>(entry) % Places::kMost);
      if (((word ^ other) & 0xFFFF) != 0) continue;
      shared.sums[place_of_sum<Integers>(row, column)] = NAN;
    }
  });
}

template <typename Of>
__global__ void __launch_bounds__(Of::kThreads, 1024 / Of::kThreads)
    corrections_kernel(Problem p, TwoSlices a, TwoSlices b, SideBySide side_by_side_a,
                       SideBySide side_by_side_b, typename Of::Sum* out) {
  extern __shared__ uint4 memory[];
  auto& shared = *reinterpret_cast<Shared<Of>*>(memory);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Index tiles = tiles_of<kSide>(p);
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Tile t = tile_of<kSide>(p, index);
    const Side of_a = side_a(p, t.group, t.row);
    const Side of_b = side_b(p, t.group, t.column);
    const bool along_rows = p.contracts_rows();  // windows of all groups
    const Lists lists_a{a.residuals + of_a.first + (along_rows ? t.group * p.a.rows : 0),
                        shared.count[0], shared.first[0]};
    const Lists lists_b{b.residuals + of_b.first + (along_rows ? t.group * p.b.rows : 0),
                        shared.count[1], shared.first[1]};
    bool hard = false;
    if (threadIdx.x < kSide) {
      hard = load_list(lists_a, of_a.count);
    } else if (threadIdx.x < 2 * kSide) {
      hard = load_list(lists_b, of_b.count);
    }
    if (__syncthreads_or(hard) != 0) continue;
    const Index place = along_rows ? Index{p.span[t.group].packed} * 128 : 0;
    const auto line_of = [&](const SideBySide& bytes, const Side& side) {
      return bytes.data + place * bytes.line_bytes + side.number * kSide;
    };
    each_list<Of>(lists_a, line_of(side_by_side_b, of_b), side_by_side_b.line_bytes,
                  [&](int row, const float(&sum)[4]) {
#pragma unroll
                    for (int n = 0; n < 4; ++n) {
                      shared.sums[place_of_sum<Of>(row, 4 * lane + n)] = Of::kept(sum[n]);
                    }
                  });
    __syncthreads();
    each_list<Of>(lists_b, line_of(side_by_side_a, of_a), side_by_side_a.line_bytes,
                  [&](int column, const float(&sum)[4]) {
#pragma unroll
                    for (int n = 0; n < 4; ++n) {
                      auto& to = shared.sums[place_of_sum<Of>(4 * lane + n, column)];
                      to = Of::kept(Of::join(Of::widened(to), sum[n]));
                    }
                  });
    if constexpr (std::is_same_v<Of, Integers>) {
      drop_common(lists_a, lists_b, shared, *reinterpret_cast<Places*>(&shared + 1));
    }
    __syncthreads();
    auto* to = out + Corrections::place(p, t.group, t.row, t.column) * Corrections::kTile;
    for (int n = static_cast<int>(threadIdx.x); n < of_a.count * kSide / 2; n += Of::kThreads) {
      const int row = n / (kSide / 2);
      const int column = n % (kSide / 2) * 2;
      typename Of::Sum two[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        two[i] = Of::kept(Of::widened(shared.sums[place_of_sum<Of>(row, column + i)]) * Of::kUnit);
      }
      *reinterpret_cast<typename Of::Two*>(to + Corrections::at(row, column)) = {two[0], two[1]};
    }
    __syncthreads();
  }
}

/// All of them, to `scratch`.
template <typename Of>
const typename Of::Sum* correct(DeviceBackend& backend, const Problem& p, const TwoSlices& a,
                                const TwoSlices& b, std::optional<Scratch<std::uint8_t>>& scratch) {
  std::optional<Scratch<std::uint8_t>> turned[2];
  const bool along_rows = p.contracts_rows();
  const Index down = ceil_div(p.a.rows, kSide) + (along_rows ? 0 : p.groups);
  const Index across = ceil_div(p.b.rows, kSide);
  const SideBySide of_a = turn<Of, true>(backend, p, a, down, turned[0]);
  const SideBySide of_b =
      turn<Of, false>(backend, p, b, along_rows ? across : across * p.groups, turned[1]);
  const Index sums = (along_rows ? p.groups : 1) * down * across * Corrections::kTile;
  scratch.emplace(backend, sums * static_cast<Index>(sizeof(typename Of::Sum)));
  auto* out = reinterpret_cast<typename Of::Sum*>(scratch->data());
  constexpr bool whole = std::is_same_v<Of, Integers>;
  constexpr int kBytes = static_cast<int>(sizeof(Shared<Of>) + (whole ? sizeof(Places) : 0));
  check(cudaFuncSetAttribute(corrections_kernel<Of>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kBytes),
        "cudaFuncSetAttribute");
  const auto blocks = static_cast<unsigned>(backend.multiprocessors() * 1024 / Of::kThreads);
  corrections_kernel<Of>
      <<<blocks, Of::kThreads, kBytes, backend.stream()>>>(p, a, b, of_a, of_b, out);
  check_launch("corrections_kernel");
  return out;
}

}  // namespace

bool has_room_for_corrections(const Problem& p) {
  constexpr Index kMostChunks = 65535;  // of a grid's second axis
  return p.depth / kSide + p.groups <= kMostChunks;
}

Corrections make_corrections(DeviceBackend& backend, const Problem& p, const TwoSlices& a,
                             const TwoSlices& b, std::optional<Scratch<std::uint8_t>>& scratch) {
  if (p.out.dtype == Dtype::f32) return {nullptr, correct<Integers>(backend, p, a, b, scratch)};
  return {correct<HighSlices>(backend, p, a, b, scratch), nullptr};
}

}  // namespace mxo::cuda

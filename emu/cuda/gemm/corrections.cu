// What the residuals of both K-vectors add to each output: by the high slices for bf16, by the
// integers for f32 and where runs have scales.  K-vectors lie side by side, so that one residual
// meets 128 of them in a line of memory.
#include <type_traits>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/correction_sums.cuh"
#include "emu/cuda/gemm/side_by_side.cuh"
#include "emu/cuda/gemm/tile_pipeline.cuh"
#include "emu/cuda/gemm/two_slices.cuh"

namespace mxo::cuda {
namespace {

constexpr int kTurnThreads = 256;

/// A block turns 128 places of 128 K-vectors.
template <typename Of, bool OfA>
__global__ void __launch_bounds__(kTurnThreads)
    turn_kernel(Problem p, KVectorMemory from, const std::int32_t* given_up, SideBySide to) {
  if (given_up != nullptr && *given_up != 0) return;
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
  if (std::is_same_v<Of, HighSlices> && of.high_lines != nullptr) {
    return {of.high_lines, tiles * kSide};
  }
  const KVectorMemory& m = of.slices.memory;
  scratch.emplace(backend, tiles * kSide * m.k_vector_bytes);
  const SideBySide turned{scratch->data(), tiles * kSide};
  const dim3 blocks(static_cast<unsigned>(tiles), static_cast<unsigned>(m.k_vector_bytes / kSide));
  turn_kernel<Of, OfA><<<blocks, kTurnThreads, 0, backend.stream()>>>(p, m, of.given_up, turned);
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

/// A tile's K-vectors from their first place on: their bytes, and the scales of their runs.
struct Lines {
  const std::uint8_t* bytes;
  Index line_bytes;
  const float* scales;
  Index line_scales;

  __device__ float scale(int k_vector, std::uint32_t place) const {
    return __ldg(scales + (place >> 7) * line_scales + k_vector);
  }
  __device__ float4 four_scales(int lane, std::uint32_t place) const {
    return __ldg(reinterpret_cast<const float4*>(scales + (place >> 7) * line_scales) + lane);
  }
};

/// Some items of a list on their way, and the elements they are multiplied by.
template <typename Of>
struct Flight {
  std::uint32_t words[Lists::kStep];
  std::uint32_t four[Lists::kStep];

  __device__ void load(const Lists& lists, int line, int first, int count, const Lines& other) {
    if (first >= count) return;
    const uint4 items = lists.items(line, first);
    words[0] = items.x;
    words[1] = items.y;
    words[2] = items.z;
    words[3] = items.w;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < Lists::kStep; ++n) {
      if (first + n >= count) break;
      const std::uint8_t* at = other.bytes + (words[n] & 0xFFFF) * other.line_bytes;
      four[n] = __ldg(reinterpret_cast<const std::uint32_t*>(at) + lane);
    }
  }
  __device__ void add(int line, int first, int count, const Lines& own, const Lines& other,
                      float (&sum)[4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < Lists::kStep; ++n) {
      if (first + n >= count) break;
      float residual = __uint_as_float(words[n] & 0xFFFF0000u);
      float v[4];
      Of::values(four[n], v);
      if constexpr (Of::kScaled) {
        const std::uint32_t place = words[n] & 0xFFFF;
        const float4 scale = other.four_scales(lane, place);
        residual *= own.scale(line, place);
        v[0] *= scale.x;
        v[1] *= scale.y;
        v[2] *= scale.z;
        v[3] *= scale.w;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] = Of::add(sum[i], residual, v[i]);
    }
  }
};

/// Calls put(line, sums) for this warp's share of 128 lists, two at a time: the residuals of `own`
/// times the elements of K-vectors 4 lane + n of `other`.
template <typename Of, typename Put>
__device__ void each_list(const Lists& lists, const Lines& own, const Lines& other, Put put) {
  constexpr int kShare = kSide * 32 / Of::kThreads;
  const int begin = static_cast<int>(threadIdx.x) / 32 * kShare;
#pragma unroll 1
  for (int line = begin; line < begin + kShare; line += 2) {
    const int counts[2] = {lists.count[line], lists.count[line + 1]};
    float sums[2][4] = {};
#pragma unroll 1
    for (int first = 0; first < max(counts[0], counts[1]); first += Lists::kStep) {
      Flight<Of> flights[2];
      flights[0].load(lists, line, first, counts[0], other);
      flights[1].load(lists, line + 1, first, counts[1], other);
      flights[0].add(line, first, counts[0], own, other, sums[0]);
      flights[1].add(line + 1, first, counts[1], own, other, sums[1]);
    }
    put(line, sums[0]);
    put(line + 1, sums[1]);
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

/// Calls put(row, column, word of a, word of b) where both K-vectors leave a residual at one place.
template <typename Of, typename Put>
__device__ void each_common(const Lists& a, const Lists& b, Places& places, Put put) {
  for (int i = static_cast<int>(threadIdx.x); i < Places::kHeads; i += Of::kThreads) {
    places.head[i] = Places::kNone;
  }
  __syncthreads();
  each_item<Of>(b, [&](int line, int n, std::uint32_t word) {
    const auto entry = static_cast<std::uint32_t>(line * Places::kMost + n);
    const std::uint32_t before = atomicExch(&places.head[word % Places::kHeads], entry);
    places.next[entry] = static_cast<std::uint16_t>(before);
  });
  __syncthreads();
  each_item<Of>(a, [&](int row, int, std::uint32_t word) {
    for (std::uint32_t entry = places.head[word % Places::kHeads]; entry != Places::kNone;
         entry = places.next[entry]) {
      const int column = static_cast<int>(entry) / Places::kMost;
      const std::uint32_t other = b.item(column, static_cast<int>(entry) % Places::kMost);
      if (((word ^ other) & 0xFFFF) != 0) continue;
      put(row, column, word, other);
    }
  });
}

template <typename Of>
__global__ void __launch_bounds__(Of::kThreads, 1024 / Of::kThreads)
    corrections_kernel(Problem p, TwoSlices a, TwoSlices b, SideBySide side_by_side_a,
                       SideBySide side_by_side_b, typename Of::Sum* out) {
  if (a.given_up != nullptr && *a.given_up != 0) return;
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
    const auto lines_of = [&](const SideBySide& bytes, const RunScales& scales, const Side& side) {
      return Lines{bytes.data + place * bytes.line_bytes + side.number * kSide, bytes.line_bytes,
                   scales.data + place / 128 * scales.line + side.number * kSide, scales.line};
    };
    const Lines lines_a = lines_of(side_by_side_a, a.scales, of_a);
    const Lines lines_b = lines_of(side_by_side_b, b.scales, of_b);
    each_list<Of>(lists_a, lines_a, lines_b, [&](int row, const float(&sum)[4]) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        shared.sums[place_of_sum<Of>(row, 4 * lane + n)] = Of::kept(sum[n]);
      }
    });
    __syncthreads();
    each_list<Of>(lists_b, lines_b, lines_a, [&](int column, const float(&sum)[4]) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        auto& to = shared.sums[place_of_sum<Of>(4 * lane + n, column)];
        to = Of::kept(Of::join(Of::widened(to), sum[n]));
      }
    });
    if constexpr (Of::kCommon) {
      const auto put = [&](int row, int column, std::uint32_t of_row, std::uint32_t of_column) {
        auto* sum = shared.sums + place_of_sum<Of>(row, column);
        if constexpr (Of::kScaled) {
          const std::uint32_t at = of_row & 0xFFFF;
          const float residuals = __uint_as_float(of_row & 0xFFFF0000u) *
                                  __uint_as_float(of_column & 0xFFFF0000u) * (1.0f / Of::kUnit);
          atomicAdd(sum, residuals * (lines_a.scale(row, at) * lines_b.scale(column, at)));
        } else {
          *sum = NAN;
        }
      };
      each_common<Of>(lists_a, lists_b, *reinterpret_cast<Places*>(&shared + 1), put);
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
  const Index down = sides_a(p);
  const SideBySide of_a = turn<Of, true>(backend, p, a, down, turned[0]);
  const SideBySide of_b = turn<Of, false>(backend, p, b, sides_b(p), turned[1]);
  const Index sums =
      (along_rows ? p.groups : 1) * down * ceil_div(p.b.rows, kSide) * Corrections::kTile;
  scratch.emplace(backend, sums * static_cast<Index>(sizeof(typename Of::Sum)));
  auto* out = reinterpret_cast<typename Of::Sum*>(scratch->data());
  constexpr int kBytes = static_cast<int>(sizeof(Shared<Of>) + (Of::kCommon ? sizeof(Places) : 0));
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
  if (p.form == ScaleForm::blockwise) {
    return {nullptr, p.out.dtype == Dtype::f32
                         ? correct<ScaledIntegers<true>>(backend, p, a, b, scratch)
                         : correct<ScaledIntegers<false>>(backend, p, a, b, scratch)};
  }
  if (p.out.dtype == Dtype::f32) return {nullptr, correct<Integers>(backend, p, a, b, scratch)};
  return {correct<HighSlices>(backend, p, a, b, scratch), nullptr};
}

}  // namespace mxo::cuda

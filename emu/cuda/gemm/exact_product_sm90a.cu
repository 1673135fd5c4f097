// The exact product: planes of digits multiplied as int8, their sums joined in 64 bits.
//
// With a = sum a_i 128^i and b = sum b_j 128^j (digits of lines), a.b is the sum over i, j of
// a_i.b_j 128^(i+j), and a_i.b_j + a_j.b_i = (a_i + a_j).(b_i + b_j) - a_i.b_i - a_j.b_j: n digits
// take n (n + 1) / 2 products (Karatsuba and Ofman, 1962), one for each plane.
#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/exact_product.cuh"
#include "emu/cuda/gemm/integer_rounding.cuh"
#include "emu/cuda/gemm/tile_pipeline.cuh"

namespace mxo::cuda {
namespace {

constexpr int kColumns = 256;
constexpr int kWords = kColumns / 2;
constexpr int kTileOutputs = kTileRows * kColumns;
/// Chunks whose products fit int32, all digits being -128: 2^14 each, 128 to a chunk.
constexpr int kMostChunks = 1023;

using Pipeline = TilePipeline<kColumns>;

/// Which digits plane p is of: two of them, or one twice.
__device__ int first_digit(int plane) {
  constexpr int kFirst[kPlanes] = {0, 1, 2, 0, 0, 1, 3, 0, 1, 2};
  return kFirst[plane];
}
__device__ int second_digit(int plane) {
  constexpr int kSecond[kPlanes] = {0, 1, 2, 1, 2, 2, 3, 3, 3, 3};
  return kSecond[plane];
}

/// What the product of plane p counts in a.b when there are n digits.
__device__ std::int64_t weight(int plane, int digits) {
  const int i = first_digit(plane);
  const int j = second_digit(plane);
  std::int64_t w = std::int64_t{1} << 7 * (i + j);
  if (i != j) return w;
  for (int other = 0; other < digits; ++other) {
    if (other != i) w -= std::int64_t{1} << 7 * (i + other);
  }
  return w;
}

struct Job {
  Problem p;
  Index lines_a;  ///< windows of a group of a
  const LineWindow* window_a;
  const LineWindow* window_b;
  const std::int32_t* most_a;
  const std::int32_t* most_b;
  std::int64_t* sums;  ///< kTileOutputs for each block
};

/// What a block does for one tile.
struct Work {
  Tile tile;
  Index a;  ///< window of its first line of a
  Index b;
  int rows;
  int columns;
  int digits;
  int chunks;
  int place;  ///< of its first chunk along k
  int line_a;
  int line_b;
};

__device__ Work work_of(const Job& job, Index index) {
  const Problem& p = job.p;
  Work work{};
  work.tile = tile_of<kColumns>(p, index);
  const Tile& t = work.tile;
  const GroupSpan& span = p.span[t.group];
  work.a = p.wgrad ? t.group * p.m + t.row : span.start + t.row;
  work.b = t.group * p.n + t.column;
  work.rows = static_cast<int>(min(Index{kTileRows}, p.rows_of(t.group) - t.row));
  work.columns = static_cast<int>(min(Index{kColumns}, p.n - t.column));
  work.chunks = static_cast<int>((p.length_of(t.group) + 127) / 128);
  work.place = p.wgrad ? span.packed * 128 : 0;
  work.line_a = static_cast<int>(p.wgrad ? t.row : work.a);
  work.line_b = static_cast<int>(p.wgrad ? t.column : work.b);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int digits = 0;
  for (int i = lane; i < work.rows; i += 32) {
    const int d = job.window_a[work.a + i].digits;
    if (d < kBeyond) digits = max(digits, d);
  }
  for (int i = lane; i < work.columns; i += 32) {
    const int d = job.window_b[work.b + i].digits;
    if (d < kBeyond) digits = max(digits, d);
  }
  work.digits = __reduce_max_sync(~0u, digits);
  return work;
}

/// Planes of n digits, in the order of memory.
__device__ bool has_plane(int plane, int digits) { return second_digit(plane) < digits; }

/// A line whose fourth digit is zero has no planes from the sixth on: its sums with that digit are
/// the digits 0, 1 and 2.
__device__ int stored_plane(int plane, int most_digits) {
  return plane > kThreeDigitPlanes && most_digits < kMostDigits ? plane - 7 : plane;
}
/// True if plane 6, the fourth digit alone, is zero on one side.
__device__ bool vanishes(int plane, int most_a, int most_b) {
  return plane == kThreeDigitPlanes && min(most_a, most_b) < kMostDigits;
}

__device__ void fetch_tiles(const Job& job, Pipeline& pipeline, const CUtensorMap* a,
                            const CUtensorMap* b) {
  const int most_a = *job.most_a;
  const int most_b = *job.most_b;
  const Index tiles = tiles_of<kColumns>(job.p);
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Work work = work_of(job, index);
    if (threadIdx.x % 32 != 0) continue;
    for (int plane = 0; plane < kPlanes; ++plane) {
      if (!has_plane(plane, work.digits) || vanishes(plane, most_a, most_b)) continue;
      pipeline.fetch(a, b, work.chunks, work.place, work.line_a, stored_plane(plane, most_a),
                     work.line_b, stored_plane(plane, most_b));
    }
  }
}

/// Adds this thread's words, times `weight`, to its sums; `first` sets them.
__device__ void join(const std::uint32_t (&d)[kWords], std::int64_t weight, bool first,
                     std::int64_t* sums) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const auto value = static_cast<unsigned long long>(static_cast<std::int32_t>(d[i]) * weight);
    auto* at = reinterpret_cast<unsigned long long*>(sums + i * 256);
    if (first) {
      __stcg(at, value);
    } else {
      asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
    }
  }
}

/// A finished sum with its row-wise scales, rounded to the output's type.
__device__ std::uint32_t finish(const Problem& p, std::int64_t sum, int quantum, float scale_a,
                                float scale_b, int mantissa) {
  bool negative = sum < 0;
  const auto magnitude = static_cast<std::uint64_t>(negative ? -sum : sum);
  if (p.scaling != Scaling::rowwise) return round_integer(magnitude, negative, quantum, mantissa);
  const auto word_a = __float_as_uint(scale_a);
  const auto word_b = __float_as_uint(scale_b);
  const int field_a = static_cast<int>(word_a >> 23 & 0xFF);
  const int field_b = static_cast<int>(word_b >> 23 & 0xFF);
  const std::uint64_t ma = (word_a & 0x7FFFFF) | (field_a > 0 ? 0x800000 : 0);
  const std::uint64_t mb = (word_b & 0x7FFFFF) | (field_b > 0 ? 0x800000 : 0);
  negative = negative != ((word_a >> 31) != (word_b >> 31));
  const auto product = static_cast<unsigned __int128>(magnitude) * (ma * mb);  // 62 + 48 bits
  return round_integer(product, negative, quantum + max(field_a, 1) + max(field_b, 1) - 300,
                       mantissa);
}

/// What the outputs need of a line: its window, and its row-wise scale.
struct Fact {
  LineWindow window;
  float scale;
};
using Facts = LineFacts<Fact, kColumns>;

/// Brings the facts of a tile's lines to shared memory; all threads that multiply.
__device__ void read_facts(const Job& job, const Work& work, Fact* facts) {
  const Problem& p = job.p;
  const bool scaled = p.scaling == Scaling::rowwise && work.chunks > 0;
  for (int i = static_cast<int>(threadIdx.x); i < Facts::kLines; i += 256) {
    const bool of_a = i < kTileRows;
    const int line = of_a ? i : i - kTileRows;
    if (line >= (of_a ? work.rows : work.columns)) continue;
    const Factor& f = of_a ? p.a : p.b;
    const Tile& t = work.tile;
    Fact fact{of_a ? job.window_a[work.a + line] : job.window_b[work.b + line], 1.0f};
    if (scaled) {
      const Index at = p.scale_at(f, t.group, (of_a ? t.row : t.column) + line, 0);
      fact.scale = static_cast<const float*>(f.scales)[at];
    }
    facts[i] = fact;
  }
  wait_for_multipliers();
}

/// Writes outputs (row, column) and its right neighbour, `owed` of them in integers.
__device__ void store(const Problem& p, Index at, const std::uint32_t (&bits)[2],
                      const bool (&owed)[2]) {
  if (p.out_dtype == Dtype::f32) {
    auto* out = static_cast<std::uint32_t*>(p.out) + at;
    if (owed[0]) out[0] = bits[0];
    if (owed[1]) out[p.out_column] = bits[1];
    return;
  }
  auto* out = static_cast<std::uint16_t*>(p.out) + at;
  const bool together =
      owed[0] && owed[1] && p.out_column == 1 && reinterpret_cast<std::uintptr_t>(out) % 4 == 0;
  if (together) {
    *reinterpret_cast<std::uint32_t*>(out) = bits[0] | bits[1] << 16;
    return;
  }
  if (owed[0]) out[0] = static_cast<std::uint16_t>(bits[0]);
  if (owed[1]) out[p.out_column] = static_cast<std::uint16_t>(bits[1]);
}

/// Rounds and writes this thread's outputs, sixteen sums in flight.
__device__ void write(const Job& job, const Work& work, int group, const Fact* facts,
                      const std::int64_t* sums) {
  const Problem& p = job.p;
  const int mantissa = p.out_dtype == Dtype::f32 ? 23 : 7;
  const Index corner = p.out_at(work.tile.group, work.tile.row, work.tile.column);
  constexpr int kFlight = 16;
#pragma unroll 1
  for (int first = 0; first < kWords; first += kFlight) {
    std::int64_t sum[kFlight];
#pragma unroll
    for (int i = 0; i < kFlight; ++i) {
      sum[i] = work.digits > 0
                   ? __ldcg(reinterpret_cast<const long long*>(sums + (first + i) * 256))
                   : 0;
    }
#pragma unroll
    for (int i = 0; i < kFlight; i += 2) {
      const int row = group * 64 + row_of_word(i);  // kFlight is a multiple of 4
      const int column = column_of_word(first + i);
      if (row >= work.rows) continue;
      const Fact& a = facts[row];
      std::uint32_t bits[2] = {};
      bool owed[2];
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const Fact& b = facts[kTileRows + column + side];
        owed[side] = column + side < work.columns && in_integers(a.window, b.window);
        if (!owed[side]) continue;
        bits[side] = finish(p, sum[i + side], a.window.quantum + b.window.quantum, a.scale, b.scale,
                            mantissa);
      }
      store(p, corner + row * p.out_row + column * p.out_column, bits, owed);
    }
  }
}

__device__ void multiply_tiles(const Job& job, Pipeline& pipeline, int group, Facts& facts) {
  const int most_a = *job.most_a;
  const int most_b = *job.most_b;
  std::int64_t* sums = job.sums + blockIdx.x * Index{kTileOutputs} + threadIdx.x;
  const Index tiles = tiles_of<kColumns>(job.p);
  int turn = 0;
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Work work = work_of(job, index);
    Fact* fact = facts.fact[turn];
    turn ^= 1;
    read_facts(job, work, fact);
    bool first = true;
    for (int plane = 0; plane < kPlanes; ++plane) {
      if (!has_plane(plane, work.digits) || vanishes(plane, most_a, most_b)) continue;
      const std::int64_t w = weight(plane, work.digits);
      for (int done = 0; done < work.chunks; done += kMostChunks) {
        std::uint32_t d[kWords];
        pipeline.multiply<Unit::s8>(d, min(work.chunks - done, kMostChunks), group);
        join(d, w, first, sums);
        first = false;
      }
    }
    write(job, work, group, fact, sums);
  }
}

__global__ void __launch_bounds__(kPipelineThreads, 1)
    planes_product_kernel(const __grid_constant__ CUtensorMap a,
                          const __grid_constant__ CUtensorMap b, const __grid_constant__ Job job) {
  extern __shared__ std::uint8_t shared[];
  __shared__ Facts facts;
  Pipeline pipeline(shared);
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    if (threadIdx.x < 2 * 128 + 32) fetch_tiles(job, pipeline, &a, &b);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    multiply_tiles(job, pipeline, group, facts);
  }
}

}  // namespace

void multiply_planes(DeviceBackend& backend, const Problem& p, const DigitPlanes& a,
                     const DigitPlanes& b) {
  const auto map = [](const DigitPlanes& planes, int rows) {
    const LineMemory& m = planes.memory;
    return tile_map(m.data, 1, m.length, m.lines, m.line_bytes, kPlanes, m.group_bytes, rows);
  };
  const auto blocks = static_cast<unsigned>(backend.multiprocessors());
  Scratch<std::int64_t> sums(backend, Index{blocks} * kTileOutputs);
  Job job{p, p.m, a.window, b.window, a.most_digits, b.most_digits, sums.data()};
  check(cudaFuncSetAttribute(planes_product_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kPipelineBytes<kColumns>),
        "cudaFuncSetAttribute");
  planes_product_kernel<<<blocks, kPipelineThreads, kPipelineBytes<kColumns>, backend.stream()>>>(
      map(a, kTileRows), map(b, kColumns), job);
  check_launch("planes_product_kernel");
}

}  // namespace mxo::cuda

// What residuals of three slices add to outputs in f32, as integers: those of a row of a tile times
// the elements of its columns, then the other way about.
#include <algorithm>
#include <utility>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/element.cuh"
#include "emu/cuda/gemm/nine_products.cuh"
#include "emu/cuda/gemm/side_by_side.cuh"
#include "emu/cuda/gemm/tile_pipeline.cuh"

namespace mxo::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kTile = kSide * kSide;
constexpr int kEach = 4;  ///< of a K-vector's residuals at a time

/// A residual of K-vector `line` of a tile: those of a, then those of b.
struct Rest {
  std::uint32_t word;  ///< of Lows
  std::int32_t line;
};
/// What a block shares.
struct Shared {
  std::int32_t sums[kTile];
  float power[2][kSide];  ///< quanta in one
  Rest rests[2 * kSide * kEach];
  int count;
};
/// A factor's elements side by side: those of place c in line c.  None: the operand has them so.
struct Turned {
  const BF16* data;
  Index line;
  Index group;
};
/// Lays them, as if K-vectors were places and places K-vectors, unless most would be padding.
Turned turn(DeviceBackend& backend, const Problem& p, const Factor& f,
            std::optional<Scratch<std::uint8_t>>& scratch) {
  const Index padded = f.rows_are_rows ? f.rows + kSide * p.groups : round_up(f.rows, kSide);
  if (p.contracts_rows() || f.row_step <= f.step || padded > 2 * f.rows) return {};
  Problem of = p;
  of.depth = f.rows;
  Factor turned = f;
  std::swap(turned.row_step, turned.step);
  turned.rows = p.depth;
  turned.rows_are_rows = false;
  turned.k_is_rows = f.rows_are_rows;
  const KVectorMemory memory = lay_k_vectors(backend, of, turned, p.depth, scratch);
  return {reinterpret_cast<const BF16*>(memory.data), memory.length, memory.group_bytes / 2};
}

/// A tile's K-vectors of one factor.
struct Lines {
  const BF16* codes;
  Index row_step;
  Index step;
  Index window;  ///< of the first one
  int count;
};
__device__ Lines lines_of(const Problem& p, const Factor& f, const Turned& turned, Index group,
                          Index first, Index window) {
  const Index rows = f.rows_are_rows ? p.rows_of(group) : f.rows;
  Lines lines{static_cast<const BF16*>(f.codes.data) + p.code_at(f, group, first, 0), f.row_step,
              f.step, window + first, static_cast<int>(min(Index{kSide}, rows - first))};
  if (turned.data == nullptr) return lines;
  lines.codes = turned.data + first +
                (f.rows_are_rows ? Index{p.span[group].packed} * kSide : group * turned.group);
  lines.row_step = 1;
  lines.step = turned.line;
  return lines;
}

/// Where an output's sum lies: 32 neighbours of a row or of a column in all banks.
__device__ int place_of_sum(int row, int column) { return row * kSide + (column ^ row % 32); }

/// A warp: one residual times the elements of all K-vectors of the other factor.
__device__ void add_rest(const Rest& rest, const Lines& other, Shared& shared) {
  const bool of_a = rest.line < kSide;
  const BF16* codes = other.codes + (rest.word & 0xFFFF) * other.step;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float elements[kSide / 32];
#pragma unroll
  for (int i = 0; i < kSide / 32; ++i) {
    const int m = lane + 32 * i;
    elements[i] = m < other.count ? decode(codes[m * other.row_step]) : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kSide / 32; ++i) {
    const int m = lane + 32 * i;
    const std::int32_t product = rest_product(__uint_as_float(rest.word & 0xFFFF0000u),
                                              elements[i] * shared.power[of_a ? 1 : 0][m]);
    std::int32_t* sum =
        shared.sums + (of_a ? place_of_sum(rest.line, m) : place_of_sum(m, rest.line - kSide));
    atomicAdd(sum, product & ~1);
    if ((product & 1) != 0) atomicOr(sum, 1);
  }
}

__global__ void __launch_bounds__(kThreads, 3)
    rest_products_kernel(Problem p, ThreeSlices a, ThreeSlices b, Turned turned_a, Turned turned_b,
                         std::int32_t* out) {
  extern __shared__ uint4 memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  const bool along_rows = p.contracts_rows();
  const Index tiles = tiles_of<kSide>(p);
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Tile t = tile_of<kSide>(p, index);
    const Index first_a = along_rows ? t.group * p.a.rows : Index{p.span[t.group].start};
    const Lines of_a = lines_of(p, p.a, turned_a, t.group, t.row, first_a);
    const Lines of_b = lines_of(p, p.b, turned_b, t.group, t.column, t.group * p.b.rows);
    const Lows* list = nullptr;
    int own = 0;  // residuals of this thread's K-vector
    if (thread < 2 * kSide) {
      const bool is_a = thread < kSide;
      const int line = thread % kSide;
      const Index window = (is_a ? of_a : of_b).window + line;
      KVectorWindow w{};
      if (line < (is_a ? of_a : of_b).count) w = (is_a ? a : b).slices.window[window];
      const bool given = w.slices != 0 && w.slices < kBeyond;
      list = (is_a ? a : b).lows + window;
      own = given ? static_cast<int>(w.residual) : 0;
      shared.power[is_a ? 0 : 1][line] = given ? __int_as_float((127 - w.quantum) << 23) : 0.0f;
    }
    for (int n = thread; n < kTile; n += kThreads) shared.sums[n] = 0;
    for (int done = 0; __syncthreads_or(own > done) != 0; done += kEach) {
      if (thread == 0) shared.count = 0;
      __syncthreads();
      const int some = min(own - done, kEach);
      const int slot = some > 0 ? atomicAdd(&shared.count, some) : 0;
      for (int i = 0; i < some; ++i) shared.rests[slot + i] = {list->rest[done + i], thread};
      __syncthreads();
      for (int i = thread / 32; i < shared.count; i += kThreads / 32) {
        const Rest rest = shared.rests[i];
        add_rest(rest, rest.line < kSide ? of_b : of_a, shared);
      }
    }
    std::int32_t* to = out + Corrections::place(p, t.group, t.row, t.column) * kTile;
    for (int n = thread; n < kTile; n += kThreads) {
      to[n] = shared.sums[place_of_sum(n / kSide, n % kSide)];
    }
    __syncthreads();
  }
}

/// Tiles there may be.
Index tiles_of_sums(const Problem& p) {
  return (p.contracts_rows() ? p.groups : 1) * sides_a(p) * ceil_div(p.b.rows, kSide);
}

}  // namespace

bool takes_nine_products(const Problem& p) {
  const bool wide =
      p.form == ScaleForm::none && p.a.codes.dtype == Dtype::bf16 && p.b.codes.dtype == Dtype::bf16;
  constexpr Index kAlways = Index{1} << 28;
  return wide && p.out.dtype == Dtype::f32 &&
         tiles_of_sums(p) * kTile <= std::max(kAlways, 4 * p.lines_a() * p.b.rows);
}

std::int32_t* add_rest_products(DeviceBackend& backend, const Problem& p, const ThreeSlices& a,
                                const ThreeSlices& b,
                                std::optional<Scratch<std::int32_t>>& scratch) {
  std::optional<Scratch<std::uint8_t>> turned[2];
  const Turned of_a = turn(backend, p, p.a, turned[0]);
  const Turned of_b = turn(backend, p, p.b, turned[1]);
  constexpr int kBytes = sizeof(Shared);
  scratch.emplace(backend, tiles_of_sums(p) * kTile);
  check(cudaFuncSetAttribute(rest_products_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kBytes),
        "cudaFuncSetAttribute");
  rest_products_kernel<<<static_cast<unsigned>(3 * backend.multiprocessors()), kThreads, kBytes,
                         backend.stream()>>>(p, a, b, of_a, of_b, scratch->data());
  check_launch("rest_products_kernel");
  return scratch->data();
}

}  // namespace mxo::cuda

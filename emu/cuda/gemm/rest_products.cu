// What residuals of three slices add to outputs in f32, as integers: those of a row of a tile times
// the elements of its columns, then the other way about.
#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/element.cuh"
#include "emu/cuda/gemm/nine_products.cuh"
#include "emu/cuda/gemm/side_by_side.cuh"
#include "emu/cuda/gemm/tile_pipeline.cuh"

namespace mxo::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kTile = kSide * kSide;

/// A K-vector of a tile.
struct Line {
  int rests;
  float power;  ///< quanta in one
};

/// Where an output's sum lies: 32 neighbours of a row or of a column in all banks.
__device__ int place_of_sum(int row, int column) { return row * kSide + (column ^ row % 32); }

/// Of 128 lines of one factor, a line to a thread.
__device__ Line line_of(const KVectorWindow* window, int line, int count) {
  if (line >= count || window[line].slices >= kBeyond) return {0, 0.0f};
  return {static_cast<int>(window[line].residual),
          __int_as_float((127 - window[line].quantum) << 23)};
}

__global__ void __launch_bounds__(kThreads, 3)
    rest_products_kernel(Problem p, ThreeSlices a, ThreeSlices b, std::int32_t* out) {
  extern __shared__ std::int32_t sums[];
  __shared__ Line lines[2][kSide];
  const int thread = static_cast<int>(threadIdx.x);
  const Index tiles = tiles_of<kSide>(p);
  for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Tile t = tile_of<kSide>(p, index);
    const Index first[2] = {t.row, t.column};
    const Index windows[2] = {
        p.contracts_rows() ? t.group * p.a.rows + t.row : p.span[t.group].start + t.row,
        t.group * p.b.rows + t.column};
    const int counts[2] = {static_cast<int>(min(Index{kSide}, p.rows_of(t.group) - t.row)),
                           static_cast<int>(min(Index{kSide}, p.b.rows - t.column))};
    if (thread < 2 * kSide) {
      const bool of_b = thread >= kSide;
      lines[of_b ? 1 : 0][thread % kSide] =
          line_of((of_b ? b : a).slices.window + windows[of_b ? 1 : 0], thread % kSide,
                  counts[of_b ? 1 : 0]);
    }
    for (int n = thread; n < kTile; n += kThreads) sums[n] = 0;
    __syncthreads();
    for (int n = thread / 32; n < 2 * kSide; n += kThreads / 32) {
      const int side = n / kSide;
      const int line = n % kSide;
      const Lows& lows = (side == 0 ? a : b).lows[windows[side] + line];
      const Factor& other = side == 0 ? p.b : p.a;
      for (int i = 0; i < lines[side][line].rests; ++i) {
        const std::uint32_t word = lows.rest[i];
        const float rest = __uint_as_float(word & 0xFFFF0000u);
        for (int m = thread % 32; m < counts[1 - side]; m += 32) {
          const KVector of = vector_of(p, other, t.group, first[1 - side] + m);
          const Index c = word & 0xFFFF;
          const float element = of.code(c) * of.scale(c) * lines[1 - side][m].power;
          const int at = side == 0 ? place_of_sum(line, m) : place_of_sum(m, line);
          atomicAdd(sums + at, rest_product(rest, element));
        }
      }
    }
    __syncthreads();
    std::int32_t* to = out + Corrections::place(p, t.group, t.row, t.column) * kTile;
    for (int n = thread; n < kTile; n += kThreads) to[n] = sums[place_of_sum(n / kSide, n % kSide)];
    __syncthreads();
  }
}

}  // namespace

std::int32_t* add_rest_products(DeviceBackend& backend, const Problem& p, const ThreeSlices& a,
                                const ThreeSlices& b,
                                std::optional<Scratch<std::int32_t>>& scratch) {
  constexpr int kBytes = kTile * static_cast<int>(sizeof(std::int32_t));
  scratch.emplace(backend, (p.contracts_rows() ? p.groups : 1) * sides_a(p) *
                               ceil_div(p.b.rows, kSide) * kTile);
  check(cudaFuncSetAttribute(rest_products_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kBytes),
        "cudaFuncSetAttribute");
  rest_products_kernel<<<static_cast<unsigned>(3 * backend.multiprocessors()), kThreads, kBytes,
                         backend.stream()>>>(p, a, b, scratch->data());
  check_launch("rest_products_kernel");
  return scratch->data();
}

}  // namespace mxo::cuda

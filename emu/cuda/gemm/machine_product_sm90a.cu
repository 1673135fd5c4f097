// Whole products by the wgmma of this card, chained, promoted and scaled as libraries do.
#include <cuda_bf16.h>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/element.cuh"
#include "emu/cuda/gemm/k_vector_memory.cuh"
#include "emu/cuda/gemm/machine_product.cuh"
#include "emu/cuda/gemm/tile_pipeline.cuh"
#include "emu/sums/fold.h"

namespace mxo::cuda {
namespace {

struct Job {
  Problem p;
  int element_bytes;
  Index split;     ///< parts that are added in f32
  Index tile;      ///< k of a tile of the split
  int promote;     ///< chunks between additions to an f32 sum; 0: only at the end of a part
  bool blockwise;  ///< every chunk is scaled as it is added
};

struct Work {
  Tile tile;
  int rows;
  int columns;
  int chunks;
  int interval;  ///< chunks between additions
  int place;     ///< element of its first chunk along k
  int k_vector_a;
  int k_vector_b;
  int depth_b;
};

template <int Columns>
__device__ Work work_of(const Job& job, Index index) {
  const Problem& p = job.p;
  Work work{};
  work.tile = tile_of<Columns>(p, index);
  const Tile& t = work.tile;
  const GroupSpan& span = p.span[t.group];
  const int per_chunk = kChunkBytes / job.element_bytes;
  const Index length = p.length_of(t.group);
  work.rows = static_cast<int>(min(Index{kTileRows}, p.rows_of(t.group) - t.row));
  work.columns = static_cast<int>(min(Index{Columns}, p.b.rows - t.column));
  work.chunks = static_cast<int>((length + per_chunk - 1) / per_chunk);
  const Index tiles = (length + job.tile - 1) / job.tile;
  const Index part = (tiles + job.split - 1) / job.split * job.tile / per_chunk;
  work.interval = job.promote > 0 ? job.promote : static_cast<int>(max(part, Index{1}));
  work.place = p.contracts_rows() ? span.packed * 128 : 0;
  work.k_vector_a = static_cast<int>(p.contracts_rows() ? t.row : span.start + t.row);
  work.k_vector_b = static_cast<int>(t.column);
  work.depth_b = p.contracts_rows() ? 0 : static_cast<int>(t.group);
  return work;
}

__device__ float canonical(float v) { return isnan(v) ? __uint_as_float(0x7FFFFFFFu) : v; }

/// This thread's share of a tile, 4 words for every 8 columns: rows r and r + 8, two columns each.
struct Share {
  int row;     ///< r
  int column;  ///< of the first 8 columns
  __device__ explicit Share(int group)
      : row(group * 64 + row_of_word(0)), column(column_of_word(0)) {}
};

using Scales = KVectorFacts<float, 256>;

/// Brings the row-wise scales of a tile's K-vectors to shared memory; all threads that multiply.
template <int Columns>
__device__ void read_scales(const Job& job, const Work& work, float* scales) {
  const Problem& p = job.p;
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows + Columns; i += 256) {
    const bool of_a = i < kTileRows;
    const int k_vector = of_a ? i : i - kTileRows;
    if (k_vector >= (of_a ? work.rows : work.columns)) continue;
    const Tile& t = work.tile;
    scales[i] = scale_value(p, of_a ? p.a : p.b, t.group, (of_a ? t.row : t.column) + k_vector, 0);
  }
  wait_for_multipliers();
}

/// Row-wise scales on the finished sums.
template <int Words>
__device__ void scale_rows(Fold fold, const Share& share, const float* scales, float (&v)[Words]) {
  const float upper = scales[share.row];
  const float lower = scales[share.row + 8];
#pragma unroll
  for (int i = 0; i < Words; ++i) {
    const float scale = scales[kTileRows + share.column + i / 4 * 8 + i % 2];
    v[i] = scaled_sum(fold, canonical(v[i]), i / 2 % 2 == 0 ? upper : lower, scale);
  }
}

/// f32 scales of a factor's K-vectors at place c; K-vectors beyond the tile take those of its last.
struct BlockScales {
  const float* first;
  Index step;
  bool tiled;  ///< 128 K-vectors share one: all of a tile
  int last;
  __device__ BlockScales(const Problem& p, const Factor& f, Index g, Index k_vector, int count,
                         Index c)
      : first(static_cast<const float*>(f.scales.data) + p.scale_at(f, g, k_vector, c)),
        step(f.scales_row_step),
        tiled(f.row_tile > 1),
        last(count - 1) {}
  __device__ float operator()(int i) const { return tiled ? *first : first[min(i, last) * step]; }
};

/// encode<kBF16>, by the processor.
__device__ std::uint16_t to_bf16(float v) {
  return isnan(v) ? 0x7FC0 : __bfloat16_as_ushort(__float2bfloat16_rn(v));
}

/// Two neighbours of a row in their type: one store.
__device__ void store_pair(const Job& job, Index at, float x, float y) {
  if (job.p.out.dtype == Dtype::f32) {
    *reinterpret_cast<float2*>(static_cast<float*>(job.p.out.data) + at) = {canonical(x),
                                                                            canonical(y)};
  } else {
    *reinterpret_cast<ushort2*>(static_cast<BF16*>(job.p.out.data) + at) = {to_bf16(x), to_bf16(y)};
  }
}

/// Writes a thread's share.  Whole tiles with rows that run through memory go two neighbours at a
/// time; others pass through `scratch`, where words can be counted at run time.
template <int Words>
__device__ void write(const Job& job, const Work& work, const Share& share, const float (&v)[Words],
                      float* scratch) {
  const Problem& p = job.p;
  const Tile& t = work.tile;
  const Index corner = p.out_at(t.group, t.row, t.column);
  const Index bytes = p.out.dtype == Dtype::f32 ? 4 : 2;
  const bool pairs =
      work.columns == Words * 2 && p.out_column_step == 1 && p.out_row_step % 2 == 0 &&
      (reinterpret_cast<std::uintptr_t>(p.out.data) + corner * bytes) % (2 * bytes) == 0;
  if (pairs) {
    const Index upper = corner + share.row * p.out_row_step + share.column;
#pragma unroll
    for (int i = 0; i < Words; i += 2) {
      const int below = i / 2 % 2 * 8;
      if (share.row + below < work.rows) {
        store_pair(job, upper + below * p.out_row_step + i / 4 * 8, v[i], v[i + 1]);
      }
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < Words; ++i) __stcg(scratch + i * 256, v[i]);
#pragma unroll 1
  for (int i = 0; i < Words; ++i) {
    const int row = share.row + i / 2 % 2 * 8;
    const int column = share.column + i / 4 * 8 + i % 2;
    if (row >= work.rows || column >= work.columns) continue;
    store_output(p, t.group, t.row + row, t.column + column, canonical(__ldcg(scratch + i * 256)));
  }
}

/// One chain over all of K.
template <Unit U>
struct Chain {
  static constexpr int kColumns = 256;
  static __device__ void run(const Job& job, TilePipeline<kColumns>& pipeline, const Work& work,
                             const Share& share, int group, float* scales, float* scratch) {
    const bool scaled = job.p.form == ScaleForm::rowwise && work.chunks > 0;
    if (scaled) read_scales<kColumns>(job, work, scales);
    std::uint32_t d[kColumns / 2];
    pipeline.template multiply<U>(d, work.chunks, group);
    float v[kColumns / 2];
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) v[i] = __uint_as_float(d[i]);
    if (scaled) scale_rows(job.p.sum.fold, share, scales, v);
    write(job, work, share, v, scratch);
  }
};

/// Chains that are added to an f32 sum, or multiplied by scales of blocks as they are.
template <Unit U>
struct Sums {
  static constexpr int kColumns = 128;
  static constexpr int kWords = kColumns / 2;

  /// sum = fma(d * sa, sb, sum) with the scales of the block that starts at place c.
  static __device__ void add_block(const Job& job, const Work& work, const Share& share, Index c,
                                   const std::uint32_t (&d)[kWords], float (&sum)[kWords]) {
    const Tile& t = work.tile;
    const BlockScales a(job.p, job.p.a, t.group, t.row, work.rows, c);
    const BlockScales b(job.p, job.p.b, t.group, t.column, work.columns, c);
    const float upper = a(share.row);
    const float lower = a(share.row + 8);
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const float scale = b(share.column + i / 4 * 8 + i % 2);
      sum[i] = fmaf(__uint_as_float(d[i]) * (i / 2 % 2 == 0 ? upper : lower), scale, sum[i]);
    }
  }

  static __device__ void add(const Job& job, const Work& work, const Share& share, int chunk,
                             std::uint32_t (&d)[kWords], float (&sum)[kWords]) {
    if (job.blockwise) return add_block(job, work, share, Index{chunk} * kScaleTile, d, sum);
#pragma unroll
    for (int i = 0; i < kWords; ++i) sum[i] += __uint_as_float(d[i]);
  }

  static __device__ void run(const Job& job, TilePipeline<kColumns>& pipeline, const Work& work,
                             const Share& share, int group, float* scales, float* scratch) {
    const bool scaled = job.p.form == ScaleForm::rowwise && work.chunks > 0;
    if (scaled) read_scales<kColumns>(job, work, scales);
    float sum[kWords] = {};
    for (int done = 0; done < work.chunks; done += work.interval) {
      std::uint32_t d[kWords];
      pipeline.template multiply<U>(d, min(work.interval, work.chunks - done), group);
      add(job, work, share, done, d, sum);
    }
    if (scaled) scale_rows(job.p.sum.fold, share, scales, sum);
    write(job, work, share, sum, scratch);
  }
};

/// Sums that grow by every chunk: wide tiles, half of the columns at a time, so that a thread holds
/// 128 sums and 64 accumulators.  While one warpgroup adds, the other multiplies.
template <Unit U>
struct ChunkSums {
  static constexpr int kColumns = 256;
  static constexpr int kWords = kColumns / 2;

  template <int Half>
  static __device__ void add(TilePipeline<kColumns>& pipeline, int group, float (&sum)[kWords]) {
    std::uint32_t d[kWords / 2];
    pipeline.template multiply_half<U>(d, group, Half);
#pragma unroll
    for (int i = 0; i < kWords / 2; ++i) sum[Half * kWords / 2 + i] += __uint_as_float(d[i]);
  }

  static __device__ void run(const Job& job, TilePipeline<kColumns>& pipeline, const Work& work,
                             const Share& share, int group, float* scales, float* scratch) {
    const bool scaled = job.p.form == ScaleForm::rowwise && work.chunks > 0;
    if (scaled) read_scales<kColumns>(job, work, scales);
    float sum[kWords] = {};
    for (int chunk = 0; chunk < work.chunks; ++chunk) {
      add<0>(pipeline, group, sum);
      add<1>(pipeline, group, sum);
    }
    if (scaled) scale_rows(job.p.sum.fold, share, scales, sum);
    write(job, work, share, sum, scratch);
  }
};

template <typename Method>
__global__ void __launch_bounds__(kPipelineThreads, 1)
    wgmma_product_kernel(const __grid_constant__ CUtensorMap a,
                         const __grid_constant__ CUtensorMap b, const __grid_constant__ Job job,
                         float* scratch) {
  constexpr int kColumns = Method::kColumns;
  extern __shared__ std::uint8_t shared[];
  __shared__ Scales scales;
  TilePipeline<kColumns> pipeline(shared);
  pipeline.step_by(kChunkBytes / job.element_bytes);
  const int group = static_cast<int>(threadIdx.x) / 128;
  const Index tiles = tiles_of<kColumns>(job.p);
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    if (threadIdx.x != 2 * 128) return;
    for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
      const Work work = work_of<kColumns>(job, index);
      pipeline.fetch(&a, &b, work.chunks, work.place, work.k_vector_a, 0, work.k_vector_b,
                     work.depth_b);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    const Share share(group);
    scratch += blockIdx.x * Index{kTileRows * kColumns} + threadIdx.x;
    int buffer = 0;
    for (Index index = blockIdx.x; index < tiles; index += gridDim.x) {
      Method::run(job, pipeline, work_of<kColumns>(job, index), share, group, scales.fact[buffer],
                  scratch);
      buffer ^= 1;
    }
  }
}

template <typename Method>
void launch(DeviceBackend& backend, const Job& job, const KVectorMemory& a,
            const KVectorMemory& b) {
  constexpr int kColumns = Method::kColumns;
  const auto map = [](const KVectorMemory& m, int rows) {
    return tile_map(m.data, m.element_bytes, m.length, m.k_vectors, m.k_vector_bytes, m.groups,
                    m.group_bytes, rows);
  };
  check(cudaFuncSetAttribute(wgmma_product_kernel<Method>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, kPipelineBytes<kColumns>),
        "cudaFuncSetAttribute");
  const auto blocks = static_cast<unsigned>(backend.multiprocessors());
  Scratch<float> scratch(backend, Index{blocks} * kTileRows * kColumns);
  wgmma_product_kernel<Method>
      <<<blocks, kPipelineThreads, kPipelineBytes<kColumns>, backend.stream()>>>(
          map(a, kTileRows), map(b, kColumns), job, scratch.data());
  check_launch("wgmma_product_kernel");
}

template <Unit U>
void launch_sum(DeviceBackend& backend, const Job& job, const KVectorMemory& a,
                const KVectorMemory& b) {
  if (job.promote == 1 && !job.blockwise) {
    launch<ChunkSums<U>>(backend, job, a, b);
  } else if (job.promote > 0 || job.split > 1) {
    launch<Sums<U>>(backend, job, a, b);
  } else {
    launch<Chain<U>>(backend, job, a, b);
  }
}

bool ocp8(Dtype dtype) { return dtype == Dtype::e4m3 || dtype == Dtype::e5m2; }

/// Bytes of an element as it is multiplied: bf16 where block scales are folded in.
int multiplied_bytes(const Problem& p) {
  return p.form == ScaleForm::mx ? 2 : static_cast<int>(size_of(p.a.codes.dtype));
}

}  // namespace

bool wgmma_gives(const Accumulation& how, const Problem& p) {
  if (how.family != SumFamily::fused_dot || how.order != ChunkOrder::ascending) return false;
  if (how.rounding != StepRounding::toward_zero || how.exponent_floor != -133) return false;
  if (p.form == ScaleForm::other || p.c.data != nullptr || p.out.dtype == Dtype::f16) return false;
  const bool folded = p.form == ScaleForm::mx && how.scales == ScalePlace::operand;
  const bool eight = p.form != ScaleForm::mx && ocp8(p.a.codes.dtype) && ocp8(p.b.codes.dtype);
  const bool sixteen = folded || (p.form == ScaleForm::none && p.a.codes.dtype == Dtype::bf16 &&
                                  p.b.codes.dtype == Dtype::bf16);
  if (!eight && !sixteen) return false;
  const int k = eight ? 32 : 16;
  const bool same = how.instruction == k && how.chunk == k && how.bits == (eight ? 13 : 25) &&
                    how.mantissa == (eight ? 13 : 23);
  // Sums are added at the ends of chunks of four instructions.
  const bool promotes_there = how.promote % 4 == 0;
  const bool splits_there = how.split == 1 || (how.promote == 0 && how.tile % (4 * k) == 0);
  const bool blocks_fit = p.form != ScaleForm::blockwise || how.split == 1;
  return same && promotes_there && splits_there && blocks_fit;
}

void multiply_with_wgmma(DeviceBackend& backend, const Accumulation& how, const Problem& p) {
  Job job{p,        multiplied_bytes(p), how.split,
          how.tile, how.promote / 4,     p.form == ScaleForm::blockwise};
  if (job.blockwise) job.promote = 1;  // 128 k: a block, and a promotion of its only sum
  std::optional<Scratch<std::uint8_t>> memory_a;
  std::optional<Scratch<std::uint8_t>> memory_b;
  const auto lay = p.form == ScaleForm::mx ? lay_dequantized_k_vectors : lay_k_vectors;
  const KVectorMemory a = lay(backend, p, p.a, p.a.rows, memory_a);
  const KVectorMemory b = lay(backend, p, p.b, p.b.rows, memory_b);
  if (job.element_bytes == 2) return launch_sum<Unit::bf16>(backend, job, a, b);
  const bool a5 = p.a.codes.dtype == Dtype::e5m2;
  const bool b5 = p.b.codes.dtype == Dtype::e5m2;
  if (a5) {
    b5 ? launch_sum<Unit::e5m2>(backend, job, a, b)
       : launch_sum<Unit::e5m2_e4m3>(backend, job, a, b);
  } else {
    b5 ? launch_sum<Unit::e4m3_e5m2>(backend, job, a, b)
       : launch_sum<Unit::e4m3>(backend, job, a, b);
  }
}

}  // namespace mxo::cuda

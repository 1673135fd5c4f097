// Exact products of bf16 rows with a few K-vectors, as a router's: in binary64, a warp to four rows
// and eight columns; what its bound does not decide in fixed point.
// docs/exact_product.md, Products on a device, Few columns.
#include <algorithm>
#include <optional>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/exact_output.cuh"
#include "emu/cuda/gemm/exact_product.cuh"
#include "emu/cuda/gemm/k_vector_elements.cuh"
#include "emu/cuda/gemm/rounding_test.cuh"

namespace mxo::cuda {
namespace {

constexpr Index kMaxColumns = 32;  ///< for more, tiles take less time
constexpr int kThreads = 128;
constexpr int kRows = 4;
constexpr int kColumns = 8;
static_assert(kRows * kColumns == 32);  // a lane rounds an output
constexpr int kNeighbours = 4;          ///< elements of a lane at a time

/// Four elements, and the greatest magnitudes of them and of those before.
struct Four {
  double x[kNeighbours];

  __device__ Four(const std::uint8_t* k_vector, Index c, std::uint32_t& most) {
    const uint2 words = __ldg(reinterpret_cast<const uint2*>(k_vector + 2 * c));
    most = __vmaxu2(most, __vmaxu2(words.x & 0x7FFF7FFFu, words.y & 0x7FFF7FFFu));
    x[0] = __uint_as_float(words.x << 16);
    x[1] = __uint_as_float(words.x & 0xFFFF0000u);
    x[2] = __uint_as_float(words.y << 16);
    x[3] = __uint_as_float(words.y & 0xFFFF0000u);
  }
};
/// The greatest magnitude that the lanes have; infinite if one is no number.
__device__ double greatest(std::uint32_t most) {
  const std::uint32_t code = __reduce_max_sync(~0u, max(most & 0xFFFF, most >> 16));
  return code < 0x7F80 ? static_cast<double>(__uint_as_float(code << 16)) : HUGE_VAL;
}

/// How far a sum of products is off: a lane adds length / 32 + 4 of them, the warp five times; a
/// partial sum of all lanes is at most `length` of the greatest product.
__device__ double bound(Index length, double greatest_product) {
  const auto k = static_cast<double>(length);
  return (k / 32 + 16) * 0x1p-53 * k * greatest_product;
}

__global__ void __launch_bounds__(kThreads, 3)
    few_columns_kernel(Problem p, KVectorMemory a, KVectorMemory b) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Index lines = lines_with_outputs(p);
  const Index warps = gridDim.x * Index{kThreads / 32};
  for (Index first = (blockIdx.x * Index{kThreads / 32} + threadIdx.x / 32) * kRows; first < lines;
       first += warps * kRows) {
    const std::uint8_t* row[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      row[r] = k_vector_at(p, p.a, a, min(first + r, lines - 1)).codes;
    }
    for (Index left = 0; left < p.b.rows; left += kColumns) {
      const std::uint8_t* column[kColumns];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        column[j] = k_vector_at(p, p.b, b, min(left + j, p.b.rows - 1)).codes;
      }
      double sum[kRows][kColumns] = {};
      std::uint32_t most_a[kRows] = {};
      std::uint32_t most_b[kColumns] = {};
      for (Index c = lane * kNeighbours; c < p.depth; c += 32 * kNeighbours) {
        const Four x[kRows] = {{row[0], c, most_a[0]},
                               {row[1], c, most_a[1]},
                               {row[2], c, most_a[2]},
                               {row[3], c, most_a[3]}};
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          const Four y(column[j], c, most_b[j]);
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
#pragma unroll
            for (int i = 0; i < kNeighbours; ++i) {
              sum[r][j] = fma(x[r].x[i], y.x[i], sum[r][j]);
            }
          }
        }
      }
      double own = 0;
      double product = 0;
#pragma unroll
      for (int n = 0; n < 32; ++n) {
        const int r = n / kColumns;
        const int j = n % kColumns;
        const double all = sum_of_warp(sum[r][j]);
        const double greatest_product = greatest(most_a[r]) * greatest(most_b[j]);
        if (lane != n) continue;
        own = all;
        product = greatest_product;
      }
      const Index line = first + lane / kColumns;
      const Index j = left + lane % kColumns;
      const bool there = line < lines && j < p.b.rows;
      const int mantissa = p.out.dtype == Dtype::f32 ? 23 : 7;
      const double off = product < HUGE_VAL ? bound(p.depth, product) : HUGE_VAL;
      const RoundingTest rounded = test_rounding(own, off, 1.0, 0, mantissa);
      if (there && rounded.passed) {
        const Index at = p.out_at(0, line, j);
        if (p.out.dtype == Dtype::f32) {
          static_cast<std::uint32_t*>(p.out.data)[at] = rounded.bits;
        } else {
          static_cast<std::uint16_t*>(p.out.data)[at] = static_cast<std::uint16_t>(rounded.bits);
        }
      }
      for (unsigned open = __ballot_sync(~0u, there && !rounded.passed); open != 0;
           open &= open - 1) {
        const int n = __ffs(static_cast<int>(open)) - 1;
        exact_output(p, 0, first + n / kColumns, left + n % kColumns);
      }
    }
  }
}

}  // namespace

bool takes_few_columns(const Problem& p) {
  return p.form == ScaleForm::none && p.a.codes.dtype == Dtype::bf16 &&
         p.b.codes.dtype == Dtype::bf16 && !p.contracts_rows() && p.groups == 1 &&
         p.a.rows_are_rows && p.b.rows <= kMaxColumns && p.depth <= kMaxK;
}

void multiply_few_columns(DeviceBackend& backend, const Problem& p) {
  std::optional<Scratch<std::uint8_t>> scratch_a;
  std::optional<Scratch<std::uint8_t>> scratch_b;
  const KVectorMemory a = lay_k_vectors(backend, p, p.a, p.a.rows, scratch_a);
  const KVectorMemory b = lay_k_vectors(backend, p, p.b, p.b.rows, scratch_b);
  const Index of_block = kThreads / 32 * kRows;
  const auto blocks =
      static_cast<unsigned>(std::clamp<Index>(ceil_div(p.a.rows, of_block), 1, Index{1} << 20));
  few_columns_kernel<<<blocks, kThreads, 0, backend.stream()>>>(p, a, b);
  check_launch("few_columns_kernel");
}

}  // namespace mxo::cuda

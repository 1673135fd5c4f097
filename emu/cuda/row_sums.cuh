// One f32 sum a row, columns strictly ascending: the terms side by side, the additions in a chain.
#pragma once

#include "emu/cuda/canonical.cuh"
#include "emu/cuda/launch.cuh"

namespace mxo::cuda {

inline constexpr int kSumRows = 128;    // a block's rows, one thread each while adding
inline constexpr int kSumColumns = 32;  // terms of a row in one go

/// Result of row r at r.
struct RowOfVector {
  TensorView<float, 1> out;
  __device__ void operator()(Index r, float sum) const { out(r) = canonical<float>(sum); }
};

/// The block computes a tile of terms with neighbours in neighbouring threads, as they lie in
/// memory, Term::kAtOnce under way; then each thread adds up one row of the tile.  What term.row(r)
/// says of a row is found once.
template <typename Term, typename Write>
__global__ void __launch_bounds__(kSumRows)
    sum_rows_kernel(Index rows, Index columns, Term term, Write write) {
  __shared__ float tile[kSumRows][kSumColumns + 1];
  __shared__ typename Term::Row row[kSumRows];
  const int thread = static_cast<int>(threadIdx.x);
  const Index first_row = static_cast<Index>(blockIdx.x) * kSumRows;
  if (first_row + thread < rows) row[thread] = term.row(first_row + thread);
  __syncthreads();
  float total = 0.0f;
  for (Index first = 0; first < columns; first += kSumColumns) {
    const int lane = thread % kSumColumns;
#pragma unroll Term::kAtOnce
    for (int i = thread / kSumColumns; i < kSumRows; i += kSumRows / kSumColumns) {
      const bool inside = first_row + i < rows && first + lane < columns;
      tile[i][lane] = inside ? term(row[i], first + lane) : 0.0f;
    }
    __syncthreads();
    const int count = static_cast<int>(min(columns - first, Index{kSumColumns}));
    for (int c = 0; c < count; ++c) total += tile[thread][c];
    __syncthreads();
  }
  if (first_row + thread < rows) write(first_row + thread, total);
}

/// write(r, sum over c = 0 .. columns-1 of term(term.row(r), c)), from +0.
template <typename Term, typename Write>
void sum_rows(cudaStream_t stream, Index rows, Index columns, const Term& term,
              const Write& write) {
  if (rows == 0) return;
  sum_rows_kernel<<<blocks_for(rows, kSumRows), kSumRows, 0, stream>>>(rows, columns, term, write);
  check_launch("sum_rows");
}

}  // namespace mxo::cuda

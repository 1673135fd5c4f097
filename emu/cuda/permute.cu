// Rows into expert order and back; counts are read on the device only.
#include "emu/cuda/group_ends.cuh"
#include "emu/cuda/row_moves.cuh"
#include "ops/permute.h"

namespace mxo::cuda {
namespace {

using Words = TensorView<std::int32_t, 1>;

__global__ void fill_kernel(Words words, std::int32_t value) {
  const Index step = grid_threads();
  for (Index i = grid_thread(); i < words.extent[0]; i += step) words(i) = value;
}

struct Counts {
  Ends count;  // [P * E], rank-major
  Index experts;
  Index ranks;
};

/// One block: `first` of every count, then sizes and ends of every expert.  Sums saturate at what
/// the indices hold, so that a fault never becomes an overflow.
__global__ void __launch_bounds__(kScanThreads)
    lay_out_kernel(Counts counts, Index alignment, Index length, std::int64_t* first_row,
                   std::int64_t* place, Words sizes, Words ends, FaultWord faults) {
  Index base = 0;
  for (Index i0 = 0; i0 < counts.ranks * counts.experts; i0 += kScanThreads) {
    const Index i = i0 + threadIdx.x;
    Index count = i < counts.ranks * counts.experts ? counts.count(i) : 0;
    if (count < 0) {
      faults.report(DeviceFault::counts);
      count = 0;
    }
    const BlockScan sum = scan_block(count);
    if (i < counts.ranks * counts.experts) first_row[i] = base + sum.before;
    base += sum.all;
  }
  Index end = 0;
  for (Index e0 = 0; e0 < counts.experts; e0 += kScanThreads) {
    const Index e = e0 + threadIdx.x;
    Index total = 0;
    if (e < counts.experts) {
      for (Index p = 0; p < counts.ranks; ++p) {
        place[p * counts.experts + e] = total;  // within the expert, for now
        total += max(counts.count(p * counts.experts + e), 0);
      }
    }
    const Index size = e < counts.experts ? round_up(total > 0 ? total : 1, alignment) : 0;
    const BlockScan sum = scan_block(size);
    if (e < counts.experts) {
      for (Index p = 0; p < counts.ranks; ++p) {
        place[p * counts.experts + e] += end + sum.before;
      }
      sizes(e) = static_cast<std::int32_t>(size);
      ends(e) = static_cast<std::int32_t>(end + sum.before + size);
      if (end + sum.before + size > length) faults.report(DeviceFault::counts);
    }
    end += sum.all;
  }
}

/// A block of threads for each count: its run of indices.
__global__ void write_runs_kernel(Counts counts, const std::int64_t* first_row,
                                  const std::int64_t* place, Words indices) {
  for (Index i = blockIdx.x; i < counts.ranks * counts.experts; i += gridDim.x) {
    for (Index n = threadIdx.x; n < counts.count(i); n += blockDim.x) {
      const Index at = place[i] + n;
      if (at < indices.extent[0]) indices(at) = static_cast<std::int32_t>(first_row[i] + n);
    }
  }
}

struct IndexedSource {
  Ends indices;
  Index rows;  // of x
  FaultWord faults;
  __device__ Index operator()(Index row) const {
    const Index at = indices(row);
    if (at >= 0 && at < rows) return at;
    if (at != -1) faults.report(DeviceFault::indices);
    return kZeroRow;
  }
};

struct InverseSource {
  const std::int32_t* inverse;
  __device__ Index operator()(Index row) const { return inverse[row]; }
};

__global__ void invert_kernel(Ends indices, Index rows, std::int32_t* inverse, FaultWord faults) {
  const Index step = grid_threads();
  for (Index i = grid_thread(); i < indices.extent[0]; i += step) {
    const Index row = indices(i);
    if (row == -1) continue;
    if (row < -1 || row >= rows) {
      faults.report(DeviceFault::indices);
    } else if (atomicExch(inverse + row, static_cast<std::int32_t>(i)) != -1) {
      faults.report(DeviceFault::named_twice);
    }
  }
}

}  // namespace

void DeviceBackend::run(const PermuteIndices& op) {
  const Counts counts{op.tokens_per_expert.as<const std::int32_t, 1>(), op.experts, op.ranks};
  const Index all = op.experts * op.ranks;
  const Scratch<std::int64_t> first_row(*this, all);
  const Scratch<std::int64_t> place(*this, all);
  const auto indices = op.indices.as<std::int32_t, 1>();
  fill_kernel<<<blocks_for(indices.extent[0]), kThreads, 0, stream()>>>(indices, -1);
  lay_out_kernel<<<1, kScanThreads, 0, stream()>>>(
      counts, op.alignment, indices.extent[0], first_row.data(), place.data(),
      op.sizes.as<std::int32_t, 1>(), op.ends.as<std::int32_t, 1>(), faults());
  write_runs_kernel<<<blocks_for(all, 1), kThreads, 0, stream()>>>(counts, first_row.data(),
                                                                   place.data(), indices);
  check_launch("permute_indices");
}

void DeviceBackend::run(const Permute& op) {
  move_rows(stream(), op.y, op.x,
            IndexedSource{op.indices.as<const std::int32_t, 1>(), op.x.extent[0], faults()});
}

void DeviceBackend::run(const Unpermute& op) {
  const Index rows = op.x.extent[0];
  const Scratch<std::int32_t> inverse(*this, rows);
  const Words all{inverse.data(), {rows}, {1}};
  fill_kernel<<<blocks_for(rows), kThreads, 0, stream()>>>(all, -1);
  if (op.indices.extent[0] > 0) {
    invert_kernel<<<blocks_for(op.indices.extent[0]), kThreads, 0, stream()>>>(
        op.indices.as<const std::int32_t, 1>(), rows, inverse.data(), faults());
  }
  check_launch("unpermute");
  move_rows(stream(), op.x, op.y, InverseSource{inverse.data()});
}

}  // namespace mxo::cuda

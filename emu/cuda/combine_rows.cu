// A token's rows into one, and the gradients of that, on the device.
#include "emu/cuda/canonical.cuh"
#include "emu/cuda/launch.cuh"
#include "emu/cuda/row_sums.cuh"
#include "emu/reference/elementwise.h"
#include "ops/combine_rows.h"

namespace mxo::cuda {
namespace {

struct Slots {
  Matrix<const std::int32_t> slot;
  Matrix<const float> weight;
  bool weighted;
  Index rows;  // that a slot may name
  FaultWord faults;

  /// The row, or -1.
  __device__ Index row(Index t, Index s) const {
    const Index r = slot(t, s);
    if (r >= -1 && r < rows) return r;
    faults.report(DeviceFault::indices);
    return -1;
  }
  __device__ float weight_of(Index t, Index s) const { return weighted ? weight(t, s) : 1.0f; }
};

/// One slot more, as CombineSteps says.
template <CombineSteps Steps, typename R>
__device__ float joined(float acc, float x, float weight) {
  if constexpr (Steps == CombineSteps::fused) {
    return __fmaf_rn(x, weight, acc);
  } else if constexpr (Steps == CombineSteps::bf16) {
    using Narrow = std::conditional_t<std::is_same_v<R, F16>, F16, BF16>;
    return as_float(canonical<Narrow>(acc + as_float(canonical<Narrow>(x * weight))));
  } else {
    return acc + x * weight;
  }
}

/// N columns of one token a thread, slots ascending; kAhead rows are under way while the sums go on
/// in order.
template <int N, int kAhead, CombineSteps Steps, typename R, typename Y>
__global__ void combine_kernel(Matrix<const R> rows, Slots slots, Matrix<Y> out) {
  const Index strips = ceil_div(out.extent[1] / N, blockDim.x);
  const Index t = static_cast<Index>(blockIdx.x) / strips;
  const Index d = (static_cast<Index>(blockIdx.x) % strips * blockDim.x + threadIdx.x) * N;
  if (d >= out.extent[1]) return;
  float acc[N] = {};
  for (Index first = 0; first < slots.slot.extent[1]; first += kAhead) {
    Index row[kAhead];
    float weight[kAhead];
    Pack<R, N> x[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const bool there = first + a < slots.slot.extent[1];
      row[a] = there ? slots.row(t, first + a) : -1;
      weight[a] = row[a] >= 0 ? slots.weight_of(t, first + a) : 0.0f;
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (row[a] >= 0) x[a] = *reinterpret_cast<const Pack<R, N>*>(&rows(row[a], d));
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (row[a] < 0) continue;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        acc[i] = joined<Steps, R>(acc[i], as_float(x[a].v[i]), weight[a]);
      }
    }
  }
  Pack<Y, N> y;
#pragma unroll
  for (int i = 0; i < N; ++i) y.v[i] = canonical<Y>(acc[i]);
  *reinterpret_cast<Pack<Y, N>*>(&out(t, d)) = y;
}

template <int N, CombineSteps Steps, typename R, typename Y>
void launch_combine(cudaStream_t stream, const CombineRows& op, const Slots& slots) {
  const Index words = op.out.extent[1] / N;
  const int threads = static_cast<int>(std::min<Index>(round_up(words, 32), kThreads));
  const Index blocks = op.out.extent[0] * ceil_div(words, threads);
  const auto run = [&](auto* kernel) {
    kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(op.rows.as<const R, 2>(), slots,
                                                                  op.out.as<Y, 2>());
  };
  if (N > 1 && op.slots.extent[1] == 1) return run(combine_kernel<N, 1, Steps, R, Y>);
  run(combine_kernel<N, 4, Steps, R, Y>);
}

/// Which slot names each row: t * k + s, or -1.
__global__ void name_rows_kernel(Slots slots, std::int32_t* named) {
  const Index n = slots.slot.extent[0] * slots.slot.extent[1];
  const Index step = grid_threads();
  for (Index i = grid_thread(); i < n; i += step) {
    const Index row = slots.row(i / slots.slot.extent[1], i % slots.slot.extent[1]);
    if (row >= 0 && atomicExch(named + row, static_cast<std::int32_t>(i)) != -1) {
      slots.faults.report(DeviceFault::named_twice);
    }
  }
}

/// N columns of one row a thread.
template <int N, typename G, typename D>
__global__ void gradient_kernel(Matrix<const G> dout, Slots slots, const std::int32_t* named,
                                Matrix<D> drows) {
  const Index row = blockIdx.x;
  const Index d = (Index{blockIdx.y} * kThreads + threadIdx.x) * N;
  if (d >= drows.extent[1]) return;
  const Index k = slots.slot.extent[1];
  const Index name = named[row];
  Pack<D, N> to;
  if (name >= 0) {
    const auto from = *reinterpret_cast<const Pack<G, N>*>(&dout(name / k, d));
    const float weight = slots.weight_of(name / k, name % k);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float g = as_float(from.v[i]);
      to.v[i] = canonical<D>(slots.weighted ? g * weight : g);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) to.v[i] = canonical<D>(0.0f);
  }
  *reinterpret_cast<Pack<D, N>*>(&drows(row, d)) = to;
}

/// A term of dweights; row r of the sum is slot r % k of token r / k.
template <typename R, typename G>
struct WeightTerm {
  static constexpr int kAtOnce = 8;
  Matrix<const R> rows;
  Matrix<const G> dout;
  Slots slots;
  struct Row {
    const G* gradient;
    const R* output;  ///< none: a slot that names no row
  };
  __device__ Row row(Index r) const {
    const Index k = slots.slot.extent[1];
    const Index named = slots.row(r / k, r % k);
    return {&dout(r / k, 0), named < 0 ? nullptr : &rows(named, 0)};
  }
  __device__ float operator()(const Row& r, Index d) const {
    // A sum of +0 stays +0, and from +0 no term can make it -0.
    return r.output == nullptr
               ? 0.0f
               : as_float(r.gradient[d * dout.stride[1]]) * as_float(r.output[d * rows.stride[1]]);
  }
};

/// sum_rows() of such terms where rows have neighbouring elements and start on 16 bytes: a thread
/// takes eight of a row at a time.
template <typename R, typename G>
__global__ void __launch_bounds__(kSumRows, sizeof(R) + sizeof(G) == 4 ? 8 : 4)
    weight_terms_kernel(Index rows, int columns, WeightTerm<R, G> term, Matrix<float> out) {
  using Row = typename WeightTerm<R, G>::Row;
  constexpr int kPiece = 8;
  constexpr int kAcross = kSumColumns / kPiece;
  __shared__ float tile[kSumRows][kSumColumns + 1];
  __shared__ Row row[kSumRows];
  const int thread = static_cast<int>(threadIdx.x);
  const Index r = static_cast<Index>(blockIdx.x) * kSumRows + thread;
  row[thread] = r < rows ? term.row(r) : Row{nullptr, nullptr};
  __syncthreads();
  const int at = thread % kAcross * kPiece;
  float total = 0.0f;
  for (int first = 0; first < columns; first += kSumColumns) {
#pragma unroll 2
    for (int n = thread / kAcross; n < kSumRows; n += kSumRows / kAcross) {
      const Row& from = row[n];
      const bool there = from.output != nullptr && first + at < columns;
      Pack<G, kPiece> gradient{};
      Pack<R, kPiece> output{};
      if (there) {
        gradient = *reinterpret_cast<const Pack<G, kPiece>*>(from.gradient + first + at);
        output = *reinterpret_cast<const Pack<R, kPiece>*>(from.output + first + at);
      }
#pragma unroll
      for (int i = 0; i < kPiece; ++i) {
        tile[n][at + i] = there ? as_float(gradient.v[i]) * as_float(output.v[i]) : 0.0f;
      }
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kSumColumns; ++c) total += tile[thread][c];  // past the end there are zeros
    __syncthreads();
  }
  if (r < rows) out(r / out.extent[1], r % out.extent[1]) = canonical<float>(total);
}

struct RowOfMatrix {
  Matrix<float> out;
  __device__ void operator()(Index r, float sum) const {
    out(r / out.extent[1], r % out.extent[1]) = canonical<float>(sum);
  }
};

}  // namespace

void DeviceBackend::run(const CombineRows& op) {
  if (op.out.elements() == 0) return;
  const Slots slots{op.slots.as<const std::int32_t, 2>(), op.weights.as<const float, 2>(),
                    op.weights.given(), op.rows.extent[0], faults()};
  constexpr int kNeighbours = 8;
  const bool packs =
      op.out.extent[1] % kNeighbours == 0 && rows_aligned(op.rows, 16) && rows_aligned(op.out, 16);
  visit_wide_float(op.rows.dtype, [&](auto from) {
    visit_wide_float(op.out.dtype, [&](auto to) {
      using R = typename decltype(from)::type;
      using Y = typename decltype(to)::type;
      const auto launch = [&]<CombineSteps Steps>() {
        if (packs) {
          launch_combine<kNeighbours, Steps, R, Y>(stream(), op, slots);
        } else {
          launch_combine<1, Steps, R, Y>(stream(), op, slots);
        }
      };
      switch (op.steps) {
        case CombineSteps::f32: launch.template operator()<CombineSteps::f32>(); break;
        case CombineSteps::bf16: launch.template operator()<CombineSteps::bf16>(); break;
        case CombineSteps::fused: launch.template operator()<CombineSteps::fused>(); break;
      }
    });
  });
  check_launch("combine_rows");
}

void DeviceBackend::run(const CombineRowsBackward& op) {
  const Index rows = op.drows.extent[0];
  const Index count = op.slots.extent[0] * op.slots.extent[1];
  const Slots slots{op.slots.as<const std::int32_t, 2>(), op.weights.as<const float, 2>(),
                    op.weights.given(), rows, faults()};
  const Scratch<std::int32_t> named(*this, rows);
  check(cudaMemsetAsync(named.data(), 0xFF, static_cast<std::size_t>(rows) * 4, stream()),
        "cudaMemsetAsync");
  if (count > 0) {
    name_rows_kernel<<<blocks_for(count), kThreads, 0, stream()>>>(slots, named.data());
  }
  visit_wide_float(op.dout.dtype, [&](auto gradient) {
    using G = typename decltype(gradient)::type;
    const auto dout = op.dout.as<const G, 2>();
    if (op.drows.elements() > 0) {
      visit_wide_float(op.drows.dtype, [&](auto to) {
        using D = typename decltype(to)::type;
        constexpr int kNeighbours = 8;
        const bool packs = op.drows.extent[1] % kNeighbours == 0 && rows_aligned(op.dout, 16) &&
                           rows_aligned(op.drows, 16);
        const auto launch = [&]<int N>() {
          const Index strips = ceil_div(op.drows.extent[1] / N, kThreads);
          const dim3 blocks(static_cast<unsigned>(rows), static_cast<unsigned>(strips));
          gradient_kernel<N>
              <<<blocks, kThreads, 0, stream()>>>(dout, slots, named.data(), op.drows.as<D, 2>());
        };
        packs ? launch.template operator()<kNeighbours>() : launch.template operator()<1>();
      });
      check_launch("combine_rows_backward");
    }
    if (!op.dweights.given()) return;
    visit_wide_float(op.rows.dtype, [&](auto from) {
      using R = typename decltype(from)::type;
      const WeightTerm<R, G> term{op.rows.as<const R, 2>(), dout, slots};
      const auto out = op.dweights.as<float, 2>();
      if (count > 0 && dout.extent[1] % 8 == 0 && dout.extent[1] < Index{1} << 30 &&
          rows_aligned(op.dout, 16) && rows_aligned(op.rows, 16)) {
        weight_terms_kernel<<<blocks_for(count, kSumRows), kSumRows, 0, stream()>>>(
            count, static_cast<int>(dout.extent[1]), term, out);
      } else {
        sum_rows(stream(), count, dout.extent[1], term, RowOfMatrix{out});
      }
    });
  });
  check_launch("combine_rows_backward");
}

}  // namespace mxo::cuda

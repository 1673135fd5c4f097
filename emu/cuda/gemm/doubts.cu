// Outputs whose rounding the residuals of two slices decide: the residuals' products added.
#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/failed_output.cuh"
#include "emu/cuda/gemm/two_slices.cuh"

namespace mxo::cuda {
namespace {

constexpr int kThreads = 256;

/// One K-vector: its integers, and what they leave.
struct Line : ResidualsHead {
  const std::int8_t* low;
  const std::int8_t* high;
  const Residuals* residuals;
};
__device__ Line line_of(const Problem& p, const Factor& f, const TwoSlices& of, Index index) {
  const KVectorMemory& m = of.slices.memory;
  const Index group = f.k_is_rows ? index / m.k_vectors : 0;
  const Index place = f.k_is_rows ? Index{p.span[group].packed} * 128 : 0;
  const auto* low = reinterpret_cast<const std::int8_t*>(m.data) +
                    (f.k_is_rows ? index % m.k_vectors : index) * m.k_vector_bytes + place;
  const Residuals* residuals = of.residuals + index;
  return {head_of(*residuals), low, low + m.group_bytes, residuals};
}

constexpr int kFlight = 4;  ///< residuals of a list on their way at once

/// Some residuals of a list, and what they multiply.
struct Flight {
  std::uint32_t items[kFlight] = {};
  std::int8_t other[kFlight] = {};

  __device__ void load(const Line& of, int first) {
    if (first >= of.count) return;
    const uint4 loaded = *reinterpret_cast<const uint4*>(of.residuals->item + first);
    items[0] = loaded.x;
    items[1] = loaded.y;
    items[2] = loaded.z;
    items[3] = loaded.w;
  }
  __device__ void gather(const Line& of, int first, const std::int8_t* slice) {
#pragma unroll
    for (int i = 0; i < kFlight; ++i) {
      other[i] = first + i < of.count ? slice[items[i] & 0xFFFF] : std::int8_t{0};
    }
  }
  __device__ void add(const Line& of, int first, float& sum) const {
#pragma unroll
    for (int i = 0; i < kFlight; ++i) {
      const float value = first + i < of.count ? __uint_as_float(items[i] & 0xFFFF0000u) : 0.0f;
      sum = fmaf(value, static_cast<float>(other[i]), sum);
    }
  }
};

/// The residuals of each K-vector times a slice of the other, both lists on their way at once.  Off
/// by less than 2^-6: twice 60 products below 2^6, each sum to binary32.
__device__ float products(const Line& a, const std::int8_t* slice_b, const Line& b,
                          const std::int8_t* slice_a) {
  float of_a = 0;
  float of_b = 0;
  for (int first = 0; first < max(a.count, b.count); first += kFlight) {
    Flight flight_a;
    Flight flight_b;
    flight_a.load(a, first);
    flight_b.load(b, first);
    flight_a.gather(a, first, slice_b);
    flight_b.gather(b, first, slice_a);
    flight_a.add(a, first, of_a);
    flight_b.add(b, first, of_b);
  }
  return of_a + of_b;
}

/// What residuals may still change, in quanta: both at one place, at most 1/2 each; then what
/// additions lose, 4 in binary32.
__device__ double rest_of(const Residuals& a, const Residuals& b, double sum) {
  return fmin(static_cast<double>(a.sum), static_cast<double>(b.sum)) * 0.5 + fabs(sum) * 0x1p-51 +
         5;
}

/// The rounding of a doubt by both slices.
__device__ RoundingTest resolve(const Line& a, const Line& b, double sum, double scale) {
  const auto high = static_cast<double>(products(a, b.high, b, a.high));
  const auto low = static_cast<double>(products(a, b.low, b, a.low));
  return test_rounding(sum + 256.0 * high + low, rest_of(*a.residuals, *b.residuals, sum), scale,
                       a.quantum + b.quantum, 7);
}

/// A sum of residuals' products, exact while residuals are multiples of 2^-20: below 2^21 then.
struct ExactResiduals {
  double sum;
  bool exact;
};
__device__ ExactResiduals exact_product(const Line& of, const Line& other) {
  ExactResiduals all{0, true};
  for (int i = 0; i < of.count; ++i) {
    const Residual r = of.residuals->item[i];
    const double value = decode(r.value);
    const int integer = 256 * other.high[r.place] + other.low[r.place];
    all.sum += value * integer;
    all.exact = all.exact && value * 0x1p20 == rint(value * 0x1p20);
  }
  return all;
}
/// Those of both K-vectors at one place.
__device__ double common_product(const Line& a, const Line& b) {
  double sum = 0;
  for (int i = 0; i < a.count; ++i) {
    const Residual r = a.residuals->item[i];
    for (int k = 0; k < b.count; ++k) {
      const Residual s = b.residuals->item[k];
      if (r.place == s.place) sum += static_cast<double>(decode(r.value)) * decode(s.value);
    }
  }
  return sum;
}
/// The same without a rounding, for ties and what is next to them.
__device__ RoundingTest settle_exactly(const Line& a, const Line& b, double sum, double scale,
                                       int mantissa) {
  const ExactResiduals of_a = exact_product(a, b);
  const ExactResiduals of_b = exact_product(b, a);
  if (!of_a.exact || !of_b.exact) return {0, false};
  const TwoSum first = two_sum(sum, of_a.sum + of_b.sum);
  const TwoSum all = two_sum(first.sum, common_product(a, b));
  return test_rounding(all.sum, fabs(first.lost) + fabs(all.lost), scale, a.quantum + b.quantum,
                       mantissa);
}

/// Which output a doubt is of.
struct Place {
  KVectorOfGroup at;
  Index column;
};
__device__ Place place_of(const Problem& p, const Doubt& doubt) {
  const auto rows_b = static_cast<std::uint32_t>(p.b.rows);
  const Index group = doubt.b / rows_b;
  const Index before = p.contracts_rows() ? group * p.a.rows : Index{p.span[group].start};
  return {{group, doubt.a - before}, doubt.b % rows_b};
}

/// A thread settles a doubt and takes it off the list.
__global__ void __launch_bounds__(kThreads, 4)
    settle_kernel(Problem p, TwoSlices a, TwoSlices b, Doubts doubts) {
  const auto count = static_cast<Index>(min(*doubts.count, doubts.capacity));
  for (Index i = blockIdx.x * Index{kThreads} + threadIdx.x; i < count;
       i += gridDim.x * Index{kThreads}) {
    const Doubt doubt = doubts.list[i];
    if (doubt.a == kNoDoubt) continue;
    const Line of_a = line_of(p, p.a, a, doubt.a);
    const Line of_b = line_of(p, p.b, b, doubt.b);
    if (of_a.slices >= kBeyond || of_b.slices >= kBeyond) {
      *doubts.left = 1;
      continue;
    }
    const Place place = place_of(p, doubt);
    const Index row = place.at.k_vector;
    double scale = 1;
    if (p.form == ScaleForm::rowwise && p.length_of(place.at.group) > 0) {
      scale = static_cast<double>(scale_value(p, p.a, place.at.group, row, 0)) *
              static_cast<double>(scale_value(p, p.b, place.at.group, place.column, 0));
    }
    const bool wide = p.out.dtype == Dtype::f32;
    RoundingTest rounded{0, false};
    if (!wide) rounded = resolve(of_a, of_b, doubt.sum, scale);
    if (!rounded.passed) {
      rounded = settle_exactly(of_a, of_b, doubt.sum, scale, wide ? 23 : 7);
    }
    if (!rounded.passed) {
      *doubts.left = 1;
      continue;
    }
    const Index at = p.out_at(place.at.group, row, place.column);
    if (wide) {
      static_cast<std::uint32_t*>(p.out.data)[at] = rounded.bits;
    } else {
      static_cast<BF16*>(p.out.data)[at] = BF16{static_cast<std::uint16_t>(rounded.bits)};
    }
    doubts.list[i].a = kNoDoubt;
  }
}

/// Calls each(doubt on the list, where it is) for what is left there, an output to a warp.
template <typename Each>
__device__ void each_left(const Problem& p, const Doubts& doubts, Each each) {
  const auto count = static_cast<Index>(min(*doubts.count, doubts.capacity));
  const Index lane = threadIdx.x % 32;
  for (Index first = blockIdx.x * Index{kThreads} + threadIdx.x - lane; first < count;
       first += gridDim.x * Index{kThreads}) {
    const bool there = first + lane < count && doubts.list[first + lane].a != kNoDoubt;
    for (unsigned found = __ballot_sync(~0u, there); found != 0; found &= found - 1) {
      Doubt& doubt = doubts.list[first + __ffs(static_cast<int>(found)) - 1];
      each(doubt, place_of(p, doubt));
    }
  }
}

/// In binary64; what that decides is taken off the list.
__global__ void __launch_bounds__(kThreads, 4)
    settle_in_binary64_kernel(Problem p, SlicedSides sides, Doubts doubts) {
  each_left(p, doubts, [&](Doubt& doubt, const Place& place) {
    if (!float64_output<false>(p, sides, doubt.a, place.at, place.column)) return;
    __syncwarp();
    if (threadIdx.x % 32 == 0) doubt.a = kNoDoubt;
  });
}

/// In fixed point.
__global__ void __launch_bounds__(kThreads) settle_in_fixed_point_kernel(Problem p, Doubts doubts) {
  each_left(p, doubts, [&](const Doubt&, const Place& place) {
    exact_output(p, place.at.group, place.at.k_vector, place.column);
  });
}

unsigned blocks_of(const DeviceBackend& backend) {
  return static_cast<unsigned>(backend.multiprocessors() * 8);
}

}  // namespace

void settle_by_residuals(DeviceBackend& backend, const Problem& p, const TwoSlices& a,
                         const TwoSlices& b, const Doubts& doubts) {
  settle_kernel<<<blocks_of(backend), kThreads, 0, backend.stream()>>>(p, a, b, doubts);
  check_launch("settle_kernel");
}

void settle_from_codes(DeviceBackend& backend, const Problem& p, const TwoSlices& a,
                       const TwoSlices& b, const Doubts& doubts) {
  const unsigned blocks = blocks_of(backend);
  const SlicedSides sides{a.slices.codes, b.slices.codes, a.slices.window, b.slices.window};
  settle_in_binary64_kernel<<<blocks, kThreads, 0, backend.stream()>>>(p, sides, doubts);
  settle_in_fixed_point_kernel<<<blocks, kThreads, 0, backend.stream()>>>(p, doubts);
  check_launch("settle_in_fixed_point_kernel");
}

}  // namespace mxo::cuda

// 8-bit codes to integers of two slices and residuals: one warp for a K-vector, 16 elements to a
// thread at a time.
#include "emu/cuda/gemm/two_slices.cuh"

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/integer_bytes.cuh"

namespace mxo::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kNoBit = -(1 << 20);

/// The power of two that the integers of the elements from place c on hold.
__device__ Parts held_scale(const Problem& p, const Factor& f, const KVectorAt& at, Index c) {
  const Parts scale = block_scale(p, f, at, c);
  return p.form == ScaleForm::blockwise ? Parts{1, 0, false, scale.finite} : scale;
}

/// The greatest magnitude, such scales included: its bit, and its four significant ones.
struct Top {
  int bit;  ///< kNoBit for zeros
  int significand;
  bool beyond;  ///< a NaN or an infinity, or too long
};
template <typename Code>
__device__ Top top_of(const Problem& p, const Factor& f, const KVectorAt& at) {
  int top = kNoBit * 16;
  bool beyond = bad_row_scale(p, f, at) || at.length > kMaxK;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (Index c = beyond ? at.length : Index{lane} * kStep; c < at.length; c += 32 * kStep) {
    const Parts scale = held_scale(p, f, at, c);
    const uint4 loaded = *reinterpret_cast<const uint4*>(at.codes + c);
    const std::uint32_t words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
    std::uint32_t four = 0;
    beyond = beyond || !scale.finite;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      four = __vmaxu4(four, words[i] & 0x7F7F7F7Fu);
      // 80 is the only NaN of these.
      if (Code::spec.special == Special::nan_minus_0)
        beyond = beyond || __vcmpeq4(words[i], 0x80808080u) != 0;
    }
    const std::uint32_t two = __vmaxu4(four, four >> 16);
    const std::uint32_t greatest = max(two & 0xFF, two >> 8 & 0xFF);
    const Parts e = parts_of<Code>(greatest);
    beyond = beyond || !e.finite;
    if (e.significand == 0) continue;
    const int bit = 31 - __clz(static_cast<int>(e.significand));
    top = max(top, (e.exponent + scale.exponent + bit) * 16 +
                       static_cast<int>(e.significand << (kCodeBits - 1 - bit)));
  }
  top = __reduce_max_sync(~0u, top);
  return {top >> 4, top & 15, __any_sync(~0u, beyond) != 0};
}

/// What lanes add up of a K-vector.
struct Totals {
  float left = 0;    ///< of residuals' magnitudes
  float run = 0;     ///< the most squares of a run's integers, kRunFloor included
  float norm = 0;    ///< all of them, scaled
  float scale = 0;   ///< the greatest
  bool far = false;  ///< an element or a scale is too far from the others
};
/// Of a run's squares 16 elements' share of 2^22: twice the product of two runs' low slices stays
/// below that, whatever their norms.
constexpr float kRunFloor = 0x1p19f;

/// `Scaled`: runs of 128 have scales, which the integers do not hold.
template <typename Code, bool Scaled>
__global__ void __launch_bounds__(32 * kWarps)
    two_slices_kernel(Problem p, Factor f, KVectorMemory memory, Index k_vectors,
                      const std::int32_t* given_up, KVectorMemory slices, KVectorWindow* window,
                      Residuals* residuals, std::uint8_t* out) {
  if (given_up != nullptr && *given_up != 0) return;
  __shared__ std::int32_t found[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const Index warps = gridDim.x * Index{kWarps};
  for (Index index = blockIdx.x * Index{kWarps} + warp; index < k_vectors; index += warps) {
    const KVectorAt at = k_vector_at(p, f, memory, index);
    if (!at.has_outputs) continue;
    const Top top = top_of<Code>(p, f, at);
    const bool given = !top.beyond && top.bit != kNoBit;
    const int quantum = given ? top.bit - kTopBit : 0;
    if (lane == 0) found[warp] = 0;
    __syncwarp();
    std::uint8_t* to = out + (f.k_is_rows ? at.k_vector : index) * slices.k_vector_bytes + at.place;
    Totals total;
    for (Index c = Index{lane} * kStep; c < (at.length + 127) / 128 * 128; c += 32 * kStep) {
      const bool some = given && c < at.length;
      const int shift = some ? held_scale(p, f, at, c).exponent - quantum : 0;
      float scale = 1.0f;
      if constexpr (Scaled) {
        scale = some ? static_cast<const float*>(f.scales.data)[scale_offset(p, f, at, c)] : 0.0f;
        total.scale = fmaxf(total.scale, scale);
        total.far =
            total.far || (scale != 0.0f && !(scale >= kLeastScale && scale <= kGreatestScale));
      }
      float x[kStep];
      decode_codes<Code>(some ? *reinterpret_cast<const uint4*>(at.codes + c) : uint4{}, x);
      std::uint32_t v[kStep];
      const bool any_left = to_integers(shift, x, v);
      if constexpr (Scaled) {
        float squares = kRunFloor;
#pragma unroll
        for (int i = 0; i < kStep; ++i) {
          squares = fmaf(integer_of(v[i]), integer_of(v[i]), squares);
        }
        total.norm = fmaf(squares, scale * scale, total.norm);
        const unsigned lanes = 0xFFu << (lane & 24);  // of the run
#pragma unroll
        for (int apart = 1; apart < 8; apart *= 2) {
          squares += __shfl_xor_sync(lanes, squares, apart);
        }
        total.run = fmaxf(total.run, squares);
      }
      std::uint32_t low[4];
      std::uint32_t high[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) take_bytes(v, 4 * i, low[i], high[i]);
      *reinterpret_cast<uint4*>(to + c) = {low[0], low[1], low[2], low[3]};
      *reinterpret_cast<uint4*>(to + slices.group_bytes + c) = {high[0], high[1], high[2], high[3]};
      if (!any_left) continue;
      total.far = total.far || shift < kLeastShift;
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        const float value = x[i] - integer_of(v[i]);
        if (value == 0.0f) continue;
        total.left = fmaf(fabsf(value), scale, total.left);
        const std::int32_t slot = atomicAdd(found + warp, 1);
        if (slot < kMaxResiduals) {
          residuals[index].item[slot] = {static_cast<std::uint16_t>(c + i),
                                         from_float<BF16>(value)};
        }
      }
    }
    __syncwarp();
    const std::int32_t count = found[warp];
    const bool many = __any_sync(~0u, total.far) != 0 || count > kMaxResiduals;
    // A lane has added 2^15 numbers at most, so that it is off by less than 2^-9 of its sum.
    const auto sum = static_cast<float>(sum_of_warp(static_cast<double>(total.left)) * 1.003);
    const double scaled = sum_of_warp(static_cast<double>(total.norm));
    const float scale = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(total.scale)));
    const float run = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(total.run)));
    if (lane != 0) continue;
    KVectorWindow made =
        window_of({quantum, top.significand, top.beyond, given, many ? kMaxResiduals + 1 : count,
                   most_residuals(p, at.length), sum, at.length},
                  residuals[index]);
    if constexpr (Scaled) {
      made.norm = static_cast<float>(sqrt(scaled)) * 1.003f;
      made.peak *= scale * 1.001f;
      made.residual = scale;
      made.residual_sum = sqrtf(run) * 1.003f;
    }
    window[index] = made;
  }
}

/// K-vectors of a factor that are looked at.
constexpr Index kLooked = 128;

template <typename Code>
__global__ void __launch_bounds__(32)
    look_kernel(Problem p, Factor f, KVectorMemory memory, Index step, Look* look) {
  const int lane = static_cast<int>(threadIdx.x);
  const KVectorAt at = k_vector_at(p, f, memory, blockIdx.x * step);
  if (!at.has_outputs) return;
  const Top top = top_of<Code>(p, f, at);
  unsigned left = 0;
  const Index length = top.beyond || top.bit == kNoBit ? 0 : at.length;
  for (Index c = Index{lane} * kStep; c < length; c += 32 * kStep) {
    float x[kStep];
    std::uint32_t v[kStep];
    decode_codes<Code>(*reinterpret_cast<const uint4*>(at.codes + c), x);
    to_integers(held_scale(p, f, at, c).exponent - (top.bit - kTopBit), x, v);
#pragma unroll
    for (int i = 0; i < kStep; ++i) left += x[i] != integer_of(v[i]) ? 1 : 0;
  }
  left = __reduce_add_sync(~0u, left);
  if (lane != 0) return;
  atomicAdd(&look->all, 1);
  if (left > static_cast<unsigned>(most_residuals(p, at.length))) atomicAdd(&look->many, 1);
}

__global__ void __launch_bounds__(32 * kWarps)
    give_up_kernel(const Look* looks, HardTiles hard, Index tiles, std::int32_t* given_up) {
  const auto hopeless = [](const Look& of) { return 2 * of.many > of.all; };
  if (!hopeless(looks[0]) && !hopeless(looks[1])) return;
  for (Index i = blockIdx.x * Index{32 * kWarps} + threadIdx.x; i < tiles;
       i += gridDim.x * Index{32 * kWarps}) {
    hard.tile[i] = 1;
  }
  *hard.any = 1;
  *given_up = 1;
}

}  // namespace

bool takes_two_slices(const Problem& p) {
  const auto coded = [](const Factor& f) { return size_of(f.codes.dtype) == 1; };
  const bool known =
      p.form == ScaleForm::mx || p.form == ScaleForm::rowwise || p.form == ScaleForm::blockwise;
  return coded(p.a) && coded(p.b) && known && has_room_for_corrections(p);
}

TwoSlices make_two_slices(DeviceBackend& backend, const Problem& p, const Factor& f,
                          const KVectorMemory& codes, Index k_vectors, TwoSliceScratch& scratch,
                          const std::int32_t* given_up) {
  TwoSlices made;
  made.given_up = given_up;
  const Index windows =
      make_slice_memory(backend, p, f, codes, k_vectors, 2, made.slices, scratch.slices);
  scratch.residuals.emplace(backend, windows);
  made.residuals = scratch.residuals->data();
  if (p.form == ScaleForm::blockwise) made.scales = lay_run_scales(backend, p, f, scratch.scales);
  const auto blocks = static_cast<unsigned>(
      std::min<Index>(std::max<Index>(ceil_div(windows, kWarps), 1), Index{1} << 20));
  visit_minifloat8(f.codes.dtype, [&](auto tag) {
    using Code = typename decltype(tag)::type;
    const auto run = [&](auto* kernel) {
      kernel<<<blocks, 32 * kWarps, 0, backend.stream()>>>(
          p, f, codes, windows, given_up, made.slices.memory, scratch.slices.window->data(),
          scratch.residuals->data(), scratch.slices.slices->data());
    };
    run(p.form == ScaleForm::blockwise ? two_slices_kernel<Code, true>
                                       : two_slices_kernel<Code, false>);
  });
  check_launch("two_slices_kernel");
  return made;
}

void look_at(DeviceBackend& backend, const Problem& p, const Factor& f, const KVectorMemory& codes,
             Index k_vectors, Look* look) {
  const Index windows = f.rows_are_rows ? k_vectors : k_vectors * p.groups;
  const Index step = std::max<Index>(ceil_div(windows, kLooked), 1);
  visit_minifloat8(f.codes.dtype, [&](auto tag) {
    look_kernel<typename decltype(tag)::type>
        <<<static_cast<unsigned>(ceil_div(windows, step)), 32, 0, backend.stream()>>>(p, f, codes,
                                                                                      step, look);
  });
  check_launch("look_kernel");
}

void give_up_hopeless(DeviceBackend& backend, const Look* looks, const HardTiles& hard, Index tiles,
                      std::int32_t* given_up) {
  give_up_kernel<<<static_cast<unsigned>(backend.multiprocessors()), 32 * kWarps, 0,
                   backend.stream()>>>(looks, hard, tiles, given_up);
  check_launch("give_up_kernel");
}

}  // namespace mxo::cuda

// Codes to integers to planes of digits: one warp for a line, 16 elements to a thread at a time.
#include "emu/cuda/gemm/digit_planes.cuh"

#include "emu/cuda/cuda_check.cuh"

namespace mxo::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kStep = 16;  ///< elements of a thread at a time
constexpr int kNoExponent = 1 << 20;

/// A finite element: significand * 2^exponent; or none.
struct Parts {
  int significand;  ///< magnitude
  int exponent;
  bool negative;
  bool finite;
};

template <typename Code>
__device__ Parts parts_of(std::uint32_t bits) {
  constexpr FormatSpec S = Code::spec;
  constexpr int m = S.mantissa_bits;
  const int magnitude = static_cast<int>(bits) & ((1 << S.sign_shift()) - 1);
  const int field = magnitude >> m;
  const int fraction = magnitude & ((1 << m) - 1);
  const Code code{static_cast<typename Code::Bits>(bits)};
  return {fraction | (field > 0 ? 1 << m : 0), (field > 0 ? field : 1) - S.bias - m,
          (bits >> S.sign_shift() & 1) != 0, !is_nan(code) && !is_infinite(code)};
}

/// Line number `index` of a factor: which group and line it is, and where its codes are.
struct LineAt {
  Index group;
  Index line;
  Index length;
  Index place;  ///< of its first element along a laid line
  const std::uint8_t* codes;
  bool owed;
};

__device__ LineAt line_at(const Problem& p, const Factor& f, const LineMemory& memory,
                          Index index) {
  LineAt at{};
  if (f.lines_are_rows) {
    at = {
        0, index, p.k, 0, memory.data + index * memory.line_bytes, index < p.span[p.groups].start};
  } else {
    at.group = index / memory.lines;
    at.line = index % memory.lines;
    at.length = p.length_of(at.group);
    at.place = f.k_is_rows ? Index{p.span[at.group].packed} * 128 : 0;
    at.codes = memory.data + (f.k_is_rows ? 0 : at.group * memory.group_bytes) +
               at.line * memory.line_bytes + at.place * memory.element_bytes;
    at.owed = true;
  }
  return at;
}

/// The exponent that the scale of place c adds; kNoExponent for a NaN.
__device__ int mx_exponent(const Problem& p, const Factor& f, const LineAt& at, Index c) {
  if (p.scaling != Scaling::mx) return 0;
  const Index offset = f.lines_are_rows ? at.line * f.scale_line + c / 32 * f.scale_k
                                        : p.scale_at(f, at.group, at.line, c);
  const int byte = static_cast<const std::uint8_t*>(f.scales)[offset];
  return byte == 0xFF ? kNoExponent : byte - 127;
}

/// True if a scale that multiplies the finished sum is no finite number.
__device__ bool bad_row_scale(const Problem& p, const Factor& f, const LineAt& at) {
  if (p.scaling != Scaling::rowwise || at.length == 0) return false;
  const Index offset =
      f.lines_are_rows ? at.line * f.scale_line : p.scale_at(f, at.group, at.line, 0);
  return !isfinite(static_cast<const float*>(f.scales)[offset]);
}

/// Sixteen codes from place c on; zeros beyond the line.  Lines are padded to 16 elements.
template <typename Code>
__device__ void load(const LineAt& at, Index c, std::uint32_t (&codes)[kStep]) {
  constexpr int kBytes = sizeof(Code);
  uint4 words[kBytes] = {};
  if (c < at.length) {
    const auto* from = reinterpret_cast<const uint4*>(at.codes + c * kBytes);
    for (int i = 0; i < kBytes; ++i) words[i] = from[i];
  }
  const std::uint32_t flat[8] = {words[0].x,          words[0].y,          words[0].z,
                                 words[0].w,          words[kBytes - 1].x, words[kBytes - 1].y,
                                 words[kBytes - 1].z, words[kBytes - 1].w};
#pragma unroll
  for (int i = 0; i < kStep; ++i) {
    codes[i] = kBytes == 1 ? flat[i / 4] >> i % 4 * 8 & 0xFF : flat[i / 2] >> i % 2 * 16 & 0xFFFF;
  }
}

/// Digits that integers below 2^bits with `significant` leading bits need: the largest number of
/// n digits is 63 * (128^n - 1) / 127, a little under 2^(7n - 1).
__device__ int digits_for(int bits, int significant) {
  for (int n = 1; n <= kMostDigits; ++n) {
    const bool fits = bits <= 7 * n - 2 || (bits <= 7 * n - 1 && significant <= 4);
    if (fits) return n;
  }
  return kBeyond;
}

template <typename Code>
__global__ void __launch_bounds__(32 * kWarps)
    window_kernel(Problem p, Factor f, LineMemory memory, Index lines, LineWindow* window,
                  std::int32_t* most_digits) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::int32_t most = 0;
  const Index warps = gridDim.x * Index{kWarps};
  for (Index index = blockIdx.x * Index{kWarps} + threadIdx.x / 32; index < lines; index += warps) {
    const LineAt at = line_at(p, f, memory, index);
    if (!at.owed) continue;
    int low = kNoExponent;
    int high = -kNoExponent;
    bool beyond = bad_row_scale(p, f, at);
    for (Index c = Index{lane} * kStep; c < at.length; c += 32 * kStep) {
      const int scale = mx_exponent(p, f, at, c);
      std::uint32_t codes[kStep];
      load<Code>(at, c, codes);
      beyond = beyond || scale == kNoExponent;
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        const Parts e = parts_of<Code>(codes[i]);
        beyond = beyond || !e.finite;
        if (e.significand == 0) continue;
        low = min(low, scale + e.exponent + __ffs(e.significand) - 1);
        high = max(high, scale + e.exponent + 31 - __clz(e.significand));
      }
    }
    low = __reduce_min_sync(~0u, low);
    high = __reduce_max_sync(~0u, high);
    beyond = __any_sync(~0u, beyond);
    int digits = high < low ? 0 : digits_for(high - low + 1, Code::spec.mantissa_bits + 1);
    if (beyond) digits = kBeyond;
    if (lane == 0) window[index] = {digits == 0 ? 0 : low, digits, 0.0f, 0};
    if (digits < kBeyond) most = max(most, digits);
  }
  if (lane == 0 && most > 0) atomicMax(most_digits, most);
}

/// Writes planes first .. first + Count - 1 of sixteen elements.
template <int Count>
__device__ void store(std::uint8_t* to, Index plane_bytes, const int (&planes)[Count][4]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    *reinterpret_cast<int4*>(to + i * plane_bytes) =
        make_int4(planes[i][0], planes[i][1], planes[i][2], planes[i][3]);
  }
}

/// Sixteen integers to planes; four of them share a word of each plane.
__device__ void split(const int (&v)[kStep], bool four, std::uint8_t* to, Index plane_bytes) {
  int low[kThreeDigitPlanes][4] = {};
  int top[kPlanes - kThreeDigitPlanes][4] = {};
#pragma unroll
  for (int i = 0; i < kStep; ++i) {
    int digit[kMostDigits];
    int rest = v[i];
#pragma unroll
    for (int n = 0; n < kMostDigits; ++n) {
      digit[n] = ((rest + 64) & 127) - 64;
      rest = (rest - digit[n]) >> 7;
    }
    const int shift = i % 4 * 8;
    const auto put = [&](int(&plane)[4], int value) { plane[i / 4] |= (value & 0xFF) << shift; };
    put(low[0], digit[0]);
    put(low[1], digit[1]);
    put(low[2], digit[2]);
    put(low[3], digit[0] + digit[1]);
    put(low[4], digit[0] + digit[2]);
    put(low[5], digit[1] + digit[2]);
    put(top[0], digit[3]);
    put(top[1], digit[0] + digit[3]);
    put(top[2], digit[1] + digit[3]);
    put(top[3], digit[2] + digit[3]);
  }
  store(to, plane_bytes, low);
  if (four) store(to + kThreeDigitPlanes * plane_bytes, plane_bytes, top);
}

template <typename Code>
__global__ void __launch_bounds__(32 * kWarps)
    planes_kernel(Problem p, Factor f, LineMemory memory, Index lines, LineMemory planes,
                  LineWindow* window, const std::int32_t* most_digits, std::uint8_t* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool four = *most_digits > 3;
  const Index plane_bytes = planes.group_bytes;
  const Index warps = gridDim.x * Index{kWarps};
  for (Index index = blockIdx.x * Index{kWarps} + threadIdx.x / 32; index < lines; index += warps) {
    const LineAt at = line_at(p, f, memory, index);
    if (!at.owed) continue;
    const LineWindow w = window[index];
    const bool given = w.digits < kBeyond;
    const Index row = f.k_is_rows ? at.line : index;
    std::uint8_t* to = out + row * planes.line_bytes + at.place;
    double squares = 0;
    for (Index c = Index{lane} * kStep; c < (at.length + 127) / 128 * 128; c += 32 * kStep) {
      std::uint32_t codes[kStep];
      load<Code>(at, c, codes);
      const int scale = given && c < at.length ? mx_exponent(p, f, at, c) - w.quantum : 0;
      int v[kStep];
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        const Parts e = parts_of<Code>(codes[i]);
        const int shift = scale + e.exponent;
        // Below the quantum there are only zeros of the significand.
        int magnitude = shift >= 0 ? e.significand << (shift & 31) : e.significand >> (-shift & 31);
        if (!given || e.significand == 0) magnitude = 0;
        v[i] = e.negative ? -magnitude : magnitude;
        squares += static_cast<double>(magnitude) * static_cast<double>(magnitude);
      }
      split(v, four, to + c, plane_bytes);
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(~0u, squares, step);
    // Raised by far more than the rounding of the squares, their sum, the root and the result.
    if (lane == 0) window[index].norm = static_cast<float>(sqrt(squares) * 1.001);
  }
}

}  // namespace

DigitPlanes make_digit_planes(DeviceBackend& backend, const Problem& p, const Factor& f,
                              Index lines, DigitPlaneScratch& scratch) {
  std::optional<Scratch<std::uint8_t>> laid;
  const LineMemory codes = lay_lines(backend, p, f, lines, laid);
  const Index all_lines = f.lines_are_rows ? lines : lines * p.groups;

  DigitPlanes made;
  made.memory = codes;
  made.memory.element_bytes = 1;
  made.memory.length = f.k_is_rows ? codes.length : round_up(p.k, 128);
  made.memory.line_bytes = made.memory.length;
  made.memory.lines = f.k_is_rows ? lines : all_lines;
  made.memory.group_bytes = made.memory.lines * made.memory.line_bytes;
  scratch.planes.emplace(backend, made.memory.group_bytes * kPlanes);
  scratch.window.emplace(backend, all_lines);
  scratch.most_digits.emplace(backend, 1);
  made.memory.data = scratch.planes->data();
  made.window = scratch.window->data();
  made.most_digits = scratch.most_digits->data();

  const cudaStream_t stream = backend.stream();
  check(cudaMemsetAsync(scratch.most_digits->data(), 0, sizeof(std::int32_t), stream),
        "cudaMemsetAsync");
  const auto blocks = static_cast<unsigned>(
      std::min<Index>(std::max<Index>(ceil_div(all_lines, kWarps), 1), Index{1} << 20));
  const auto run = [&](auto tag) {
    using Code = typename decltype(tag)::type;
    window_kernel<Code><<<blocks, 32 * kWarps, 0, stream>>>(
        p, f, codes, all_lines, scratch.window->data(), scratch.most_digits->data());
    planes_kernel<Code><<<blocks, 32 * kWarps, 0, stream>>>(
        p, f, codes, all_lines, made.memory, scratch.window->data(), made.most_digits,
        scratch.planes->data());
  };
  if (f.dtype == Dtype::bf16) {
    run(TypeTag<BF16>{});
  } else {
    visit_minifloat8(f.dtype, run);
  }
  check_launch("planes_kernel");
  return made;
}

}  // namespace mxo::cuda

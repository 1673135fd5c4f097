// The inner loops of products: register tiles of MR x NR sums, and what is added to them.
#include "emu/cpu/gemm/lanes/tables.h"
#include "emu/cpu/gemm/lanes/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {
namespace {

template <int N>
struct Width {
  static constexpr int value = N;
};
template <int N = kMr, typename Fn>
HWY_API void with_width(int width, Fn fn) {
  if constexpr (N > 1) {
    if (width < N) return with_width<N - 1>(width, fn);
  }
  fn(Width<N>{});
}

/// sum[m] += a[m] * b over `steps` steps, for N K-vectors of A and two vectors of B.
template <int N, typename Tag, typename Number = hn::TFromD<Tag>>
HWY_API void multiply(Tag tag, int steps, const Number* a, const Number* b,
                      hn::Vec<Tag> (&sum)[N][2]) {
  constexpr int kStep = hn::MaxLanes(tag);
  for (int k = 0; k < steps; ++k, a += N, b += 2 * kStep) {
    const auto b0 = hn::LoadU(tag, b);
    const auto b1 = hn::LoadU(tag, b + kStep);
#pragma GCC unroll 16
    for (int m = 0; m < N; ++m) {
      const auto am = hn::Set(tag, a[m]);
      sum[m][0] = fused(am, b0, sum[m][0]);
      sum[m][1] = fused(am, b1, sum[m][1]);
    }
  }
}

HWY_FLATTEN void dot_int16(int width, int block, int blocks, const std::int32_t* a,
                           const std::int32_t* b, std::int32_t* sums) noexcept {
  constexpr hn::Repartition<std::int16_t, decltype(kInts)> words;
  with_width(width, [=](auto n) HWY_ATTR {
    constexpr int N = n.value;
    // Highway shares the products of a vector among two sums, in an order of the target's.
    I sum[N][2], more[N][2];
#pragma GCC unroll 16
    for (int m = 0; m < N; ++m) sum[m][0] = sum[m][1] = more[m][0] = more[m][1] = hn::Zero(kInts);
    const std::int32_t* at_a = a + block * kPairs * N;
    const std::int32_t* at_b = b + block * kPairs * kNr;
    for (int k = 0; k < kPairs * blocks; ++k, at_a += N, at_b += kNr) {
      const auto b0 = hn::BitCast(words, hn::LoadU(kInts, at_b));
      const auto b1 = hn::BitCast(words, hn::LoadU(kInts, at_b + kLanes));
#pragma GCC unroll 16
      for (int m = 0; m < N; ++m) {
        const auto am = hn::BitCast(words, hn::Set(kInts, at_a[m]));
        sum[m][0] = hn::ReorderWidenMulAccumulate(kInts, am, b0, sum[m][0], more[m][0]);
        sum[m][1] = hn::ReorderWidenMulAccumulate(kInts, am, b1, sum[m][1], more[m][1]);
      }
    }
#pragma GCC unroll 16
    for (int m = 0; m < N; ++m) {
      std::int32_t* to = sums + m * kNr;
      hn::StoreU(hn::RearrangeToOddPlusEven(sum[m][0], more[m][0]), kInts, to);
      hn::StoreU(hn::RearrangeToOddPlusEven(sum[m][1], more[m][1]), kInts, to + kLanes);
    }
  });
}

// A product of two operands has at most 56 bits, so that only the fused step is exact.
HWY_FLATTEN void dot_f64(int width, int k_extent, const double* a, const double* b,
                         double* c) noexcept {
  with_width(width, [=](auto n) HWY_ATTR {
    constexpr int N = n.value;
    D sum[N][2];
#pragma GCC unroll 16
    for (int m = 0; m < N; ++m) sum[m][0] = sum[m][1] = hn::Zero(kDoubles);
    multiply(kDoubles, k_extent, a, b, sum);
#pragma GCC unroll 16
    for (int m = 0; m < N; ++m) {
      double* to = c + m * kNr;
      hn::StoreU(hn::Add(hn::LoadU(kDoubles, to), sum[m][0]), kDoubles, to);
      to += kLanes64;
      hn::StoreU(hn::Add(hn::LoadU(kDoubles, to), sum[m][1]), kDoubles, to);
    }
  });
}

HWY_FLATTEN void chain_f32(int width, int k_extent, const float* a, const float* b,
                           float* c) noexcept {
  with_width(width, [=](auto n) HWY_ATTR {
    constexpr int N = n.value;
    F sum[N][2];
#pragma GCC unroll 16
    for (int m = 0; m < N; ++m) {
      sum[m][0] = hn::LoadU(kFloats, c + m * kNr);
      sum[m][1] = hn::LoadU(kFloats, c + m * kNr + kLanes);
    }
    multiply(kFloats, k_extent, a, b, sum);
#pragma GCC unroll 16
    for (int m = 0; m < N; ++m) {
      hn::StoreU(sum[m][0], kFloats, c + m * kNr);
      hn::StoreU(sum[m][1], kFloats, c + m * kNr + kLanes);
    }
  });
}

HWY_FLATTEN void add_scaled(int width, const std::int32_t* sums, const double* scale_a,
                            const double* scale_b, double* c) noexcept {
  D of_b[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) of_b[i] = hn::LoadU(kDoubles, scale_b + i * kLanes64);
  for (int m = 0; m < width; ++m, sums += kNr, c += kNr) {
    const D of_a = hn::Set(kDoubles, scale_a[m]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const auto x = hn::LoadU(kIntsOfDoubles, sums + i * kLanes64);
      double* to = c + i * kLanes64;
      const D scaled = hn::Mul(hn::PromoteTo(kDoubles, x), of_b[i]);
      hn::StoreU(fused(scaled, of_a, hn::LoadU(kDoubles, to)), kDoubles, to);
    }
  }
}

/// to[i] += value * (x[i] * scale[i]) for `lanes` int16 and those that fill a vector, x the `half`
/// of pairs.
HWY_API void add_residual(int lanes, double value, const std::int32_t* pairs, int half,
                          const double* scale, double* to) {
  const D v = hn::Set(kDoubles, value);
#pragma GCC unroll 2
  for (int i = 0; i < lanes; i += kLanes) {
    const I pair = hn::LoadU(kInts, pairs + i);
    const I words = hn::ShiftRight<16>(half == 0 ? hn::ShiftLeft<16>(pair) : pair);
    const auto add = [&](hn::Vec<decltype(kIntsOfDoubles)> x, int at) HWY_ATTR {
      const D product = hn::Mul(hn::PromoteTo(kDoubles, x), hn::LoadU(kDoubles, scale + at));
      hn::StoreU(fused(v, product, hn::LoadU(kDoubles, to + at)), kDoubles, to + at);
    };
    add(hn::LowerHalf(kIntsOfDoubles, words), i);
    add(hn::UpperHalf(kIntsOfDoubles, words), i + kLanes64);
  }
}

HWY_FLATTEN void add_residuals_of_a(const Residual* residuals, int count, int from,
                                    const std::int32_t* b, const double* scale_b,
                                    double* c) noexcept {
  for (const Residual* r = residuals; r != residuals + count; ++r) {
    const int at = static_cast<int>(r->at) - from;
    add_residual(kNr, r->value, b + at / 2 * kNr, at % 2, scale_b + at / kBlock * kMaxNr,
                 c + r->lane * kNr);
  }
}

HWY_FLATTEN void add_residuals_of_b(int width, const Residual* residuals, int count, int from,
                                    const std::int32_t* a, const double* scale_a,
                                    double* d) noexcept {
  for (const Residual* r = residuals; r != residuals + count; ++r) {
    const int at = static_cast<int>(r->at) - from;
    add_residual(width, r->value, a + at / 2 * width, at % 2, scale_a + at / kBlock * kMaxMr,
                 d + r->lane * kMaxMr);
  }
}

HWY_FLATTEN void add_transposed(int width, const double* d, double* c) noexcept {
  for (int m = 0; m < width; m += 2) {
    for (int n = 0; n < kNr; n += kLanes64) {
      transpose(kDoubles, d + n * kMaxMr + m, kMaxMr, [=](int k, D column) HWY_ATTR {
        double* to = c + (m + k) * kNr + n;
        if (m + k < width) hn::StoreU(hn::Add(hn::LoadU(kDoubles, to), column), kDoubles, to);
      });
    }
  }
}

}  // namespace

Kernels kernels(Isa isa) {
  Kernels k;
  k.isa = isa;
  k.mr = kMr;
  k.mr_integers = kMr;
  k.nr = kNr;
  k.dot_int16 = dot_int16;
  k.add_scaled = add_scaled;
  k.add_residuals_of_a = add_residuals_of_a;
  k.add_residuals_of_b = add_residuals_of_b;
  k.add_transposed = add_transposed;
  k.dot_f64 = dot_f64;
  k.chain_f32 = chain_f32;
  set_packing(k);
  return k;
}

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

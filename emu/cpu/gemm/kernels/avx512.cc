// The inner loops for AVX-512 without VNNI: integers by vpmaddwd, floats by fma.
#include <immintrin.h>

#include "emu/cpu/gemm/kernels/avx512.h"
#include "emu/cpu/gemm/kernels/kernels.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma,f16c")
namespace mxo::cpu {
namespace {

constexpr int kWidth = 32;  // columns of a block of sums

template <int N>
struct Lanes {
  static constexpr int value = N;
};

template <typename Fn>
void with_width(int width, Fn fn) {
  switch (width) {
    case 1: return fn(Lanes<1>{});
    case 2: return fn(Lanes<2>{});
    case 3: return fn(Lanes<3>{});
    case 4: return fn(Lanes<4>{});
    case 5: return fn(Lanes<5>{});
    case 6: return fn(Lanes<6>{});
    case 7: return fn(Lanes<7>{});
    case 8: return fn(Lanes<8>{});
    case 9: return fn(Lanes<9>{});
    case 10: return fn(Lanes<10>{});
    case 11: return fn(Lanes<11>{});
    default: return fn(Lanes<12>{});
  }
}

template <int N>
void dot_int16_of(int pairs, const std::int32_t* a, const std::int32_t* b, std::int32_t* sums) {
  __m512i sum[N][2];
#pragma GCC unroll 16
  for (int m = 0; m < N; ++m) sum[m][0] = sum[m][1] = _mm512_setzero_si512();
  for (int p = 0; p < pairs; ++p, a += N, b += kWidth) {
    const __m512i b0 = _mm512_loadu_si512(b);
    const __m512i b1 = _mm512_loadu_si512(b + 16);
#pragma GCC unroll 16
    for (int m = 0; m < N; ++m) {
      const __m512i am = _mm512_set1_epi32(a[m]);
      sum[m][0] = _mm512_add_epi32(sum[m][0], _mm512_madd_epi16(am, b0));
      sum[m][1] = _mm512_add_epi32(sum[m][1], _mm512_madd_epi16(am, b1));
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < N; ++m) {
    _mm512_storeu_si512(sums + m * kWidth, sum[m][0]);
    _mm512_storeu_si512(sums + m * kWidth + 16, sum[m][1]);
  }
}

void place_pairs(int lanes, int blocks, const std::uint32_t* k_vectors,
                 std::int32_t* run) noexcept {
  avx512_interleave(lanes, kPairs * blocks, k_vectors, kRun, reinterpret_cast<std::uint32_t*>(run),
                    lanes);
}

void dot_int16(int width, int block, int blocks, const std::int32_t* a, const std::int32_t* b,
               std::int32_t* sums) noexcept {
  const int pairs = kPairs * blocks;
  a += block * kPairs * width;
  b += block * kPairs * kWidth;
  with_width(width, [=](auto lanes) { dot_int16_of<decltype(lanes)::value>(pairs, a, b, sums); });
}

// The sums come back from memory: a conversion that loads needs no shuffle port.
void add_scaled(int width, const std::int32_t* sums, const double* scale_a, const double* scale_b,
                double* c) noexcept {
  __m512d sb[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) sb[j] = _mm512_loadu_pd(scale_b + 8 * j);
  for (int m = 0; m < width; ++m, sums += kWidth, c += kWidth) {
    const __m512d sa = _mm512_set1_pd(scale_a[m]);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const auto* from = reinterpret_cast<const __m256i*>(sums + 8 * j);
      const __m512d x = _mm512_mul_pd(_mm512_cvtepi32_pd(_mm256_loadu_si256(from)), sb[j]);
      _mm512_storeu_pd(c + 8 * j, _mm512_fmadd_pd(x, sa, _mm512_loadu_pd(c + 8 * j)));
    }
  }
}

// The chosen half of 16 pairs, sign-extended.
__m512i half_of(__m512i pairs, int half) {
  return _mm512_srai_epi32(half == 0 ? _mm512_slli_epi32(pairs, 16) : pairs, 16);
}

__m512d scaled_half(__m256i words, const double* scale) {
  return _mm512_mul_pd(_mm512_cvtepi32_pd(words), _mm512_loadu_pd(scale));
}

// y += value * x, 16 numbers
void add_16(__m512d value, __m512i words, const double* scale, double* y) {
  const __m512d low = scaled_half(_mm512_castsi512_si256(words), scale);
  const __m512d high = scaled_half(_mm512_extracti64x4_epi64(words, 1), scale + 8);
  _mm512_storeu_pd(y, _mm512_fmadd_pd(value, low, _mm512_loadu_pd(y)));
  _mm512_storeu_pd(y + 8, _mm512_fmadd_pd(value, high, _mm512_loadu_pd(y + 8)));
}

void add_residual_of_a(double value, const std::int32_t* b, int at, const double* scale_b,
                       double* c) {
  b += at / 2 * kWidth;
  const int half = at % 2;
  const __m512d v = _mm512_set1_pd(value);
  add_16(v, half_of(_mm512_loadu_si512(b), half), scale_b, c);
  add_16(v, half_of(_mm512_loadu_si512(b + 16), half), scale_b + 16, c + 16);
}

void add_residual_of_b(int width, double value, const std::int32_t* a, int at,
                       const double* scale_a, double* d) {
  a += at / 2 * width;
  const int half = at % 2;
  const auto lanes = static_cast<__mmask16>((1u << width) - 1);
  add_16(_mm512_set1_pd(value), half_of(_mm512_maskz_loadu_epi32(lanes, a), half), scale_a, d);
}

void add_residuals_of_a(const Residual* residuals, int count, const std::int32_t* b,
                        const double* scale_b, double* c) noexcept {
  for (int i = 0; i < count; ++i) {
    const Residual& residual = residuals[i];
    const auto at = static_cast<int>(residual.at);
    add_residual_of_a(residual.value, b, at, scale_b + at / kBlock * kMaxNr,
                      c + residual.lane * kWidth);
  }
}

void add_residuals_of_b(int width, const Residual* residuals, int count, const std::int32_t* a,
                        const double* scale_a, double* d) noexcept {
  for (int i = 0; i < count; ++i) {
    const Residual& residual = residuals[i];
    const auto at = static_cast<int>(residual.at);
    add_residual_of_b(width, residual.value, a, at, scale_a + at / kBlock * kMaxMr,
                      d + residual.lane * kMaxMr);
  }
}

// Rows of 8 numbers to columns.
void transpose_8(__m512d (&r)[8]) {
  __m512d t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int j = 0; j < 2; ++j) {  // column 2 q + j of quarter q
    const __m512d a = _mm512_shuffle_f64x2(t[j], t[2 + j], 0x88);
    const __m512d b = _mm512_shuffle_f64x2(t[j], t[2 + j], 0xDD);
    const __m512d c = _mm512_shuffle_f64x2(t[4 + j], t[6 + j], 0x88);
    const __m512d d = _mm512_shuffle_f64x2(t[4 + j], t[6 + j], 0xDD);
    r[j] = _mm512_shuffle_f64x2(a, c, 0x88);
    r[4 + j] = _mm512_shuffle_f64x2(a, c, 0xDD);
    r[2 + j] = _mm512_shuffle_f64x2(b, d, 0x88);
    r[6 + j] = _mm512_shuffle_f64x2(b, d, 0xDD);
  }
}

void add_transposed(int width, const double* d, double* c) noexcept {
  for (int m = 0; m < width; m += 8) {
    for (int n = 0; n < kWidth; n += 8) {
      __m512d r[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) r[i] = _mm512_loadu_pd(d + (n + i) * kMaxMr + m);
      transpose_8(r);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        double* to = c + (m + i) * kWidth + n;
        if (m + i < width) _mm512_storeu_pd(to, _mm512_add_pd(_mm512_loadu_pd(to), r[i]));
      }
    }
  }
}

template <int N>
void dot_f64_of(int k_extent, const double* a, const double* b, double* c) {
  __m512d sum[N][2];
#pragma GCC unroll 16
  for (int m = 0; m < N; ++m) sum[m][0] = sum[m][1] = _mm512_setzero_pd();
  for (int k = 0; k < k_extent; ++k, a += N, b += 16) {
    const __m512d b0 = _mm512_loadu_pd(b);
    const __m512d b1 = _mm512_loadu_pd(b + 8);
#pragma GCC unroll 16
    for (int m = 0; m < N; ++m) {
      const __m512d am = _mm512_set1_pd(a[m]);
      sum[m][0] = _mm512_fmadd_pd(am, b0, sum[m][0]);
      sum[m][1] = _mm512_fmadd_pd(am, b1, sum[m][1]);
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < N; ++m, c += kWidth) {
    _mm512_storeu_pd(c, _mm512_add_pd(_mm512_loadu_pd(c), sum[m][0]));
    _mm512_storeu_pd(c + 8, _mm512_add_pd(_mm512_loadu_pd(c + 8), sum[m][1]));
  }
}

void dot_f64(int width, int k_extent, const double* a, const double* b, double* c) noexcept {
  with_width(width, [=](auto lanes) { dot_f64_of<decltype(lanes)::value>(k_extent, a, b, c); });
}

template <int N>
void chain_f32_of(int k_extent, const float* a, const float* b, float* c) {
  __m512 sum[N][2];
#pragma GCC unroll 16
  for (int m = 0; m < N; ++m) {
    sum[m][0] = _mm512_loadu_ps(c + m * kWidth);
    sum[m][1] = _mm512_loadu_ps(c + m * kWidth + 16);
  }
  for (int k = 0; k < k_extent; ++k, a += N, b += kWidth) {
    const __m512 b0 = _mm512_loadu_ps(b);
    const __m512 b1 = _mm512_loadu_ps(b + 16);
#pragma GCC unroll 16
    for (int m = 0; m < N; ++m) {
      const __m512 am = _mm512_set1_ps(a[m]);
      sum[m][0] = _mm512_fmadd_ps(am, b0, sum[m][0]);
      sum[m][1] = _mm512_fmadd_ps(am, b1, sum[m][1]);
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < N; ++m) {
    _mm512_storeu_ps(c + m * kWidth, sum[m][0]);
    _mm512_storeu_ps(c + m * kWidth + 16, sum[m][1]);
  }
}

void chain_f32(int width, int k_extent, const float* a, const float* b, float* c) noexcept {
  with_width(width, [=](auto lanes) { chain_f32_of<decltype(lanes)::value>(k_extent, a, b, c); });
}

}  // namespace

const Kernels& avx512_kernels() {
  static const Kernels kernels{Isa::avx512,
                               12,
                               12,
                               kWidth,
                               nullptr,
                               nullptr,
                               nullptr,
                               place_pairs,
                               dot_int16,
                               add_scaled,
                               add_residuals_of_a,
                               add_residuals_of_b,
                               add_transposed,
                               dot_f64,
                               chain_f32,
                               avx512_encode_int16,
                               avx512_interleave,
                               avx512_widen,
                               avx512_round,
                               avx512_round_exact};
  return kernels;
}

}  // namespace mxo::cpu
MXO_TARGET_END

// The inner loops for AVX2: integers by vpmaddwd, floats by fma.
#include <immintrin.h>

#include "emu/cpu/gemm/kernels/portable.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx2,fma")
namespace mxo::cpu {
namespace {

constexpr int kWidth = 16;

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
    default: return fn(Lanes<6>{});
  }
}

__m256i load(const std::int32_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
void store(std::int32_t* to, __m256i x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x); }

void place_pairs(int lanes, int blocks, const std::uint32_t* k_vectors,
                 std::int32_t* run) noexcept {
  portable_interleave(lanes, kPairs * blocks, k_vectors, kRun,
                      reinterpret_cast<std::uint32_t*>(run), lanes);
}

void dot_int16(int width, int block, int blocks, const std::int32_t* a, const std::int32_t* b,
               std::int32_t* sums) noexcept {
  const int pairs = kPairs * blocks;
  a += block * kPairs * width;
  b += block * kPairs * kWidth;
  with_width(width, [=](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    const std::int32_t* from_a = a;
    const std::int32_t* from_b = b;
    __m256i sum[n][2];
#pragma GCC unroll 8
    for (int m = 0; m < n; ++m) sum[m][0] = sum[m][1] = _mm256_setzero_si256();
    for (int p = 0; p < pairs; ++p, from_a += n, from_b += kWidth) {
      const __m256i b0 = load(from_b);
      const __m256i b1 = load(from_b + 8);
#pragma GCC unroll 8
      for (int m = 0; m < n; ++m) {
        const __m256i am = _mm256_set1_epi32(from_a[m]);
        sum[m][0] = _mm256_add_epi32(sum[m][0], _mm256_madd_epi16(am, b0));
        sum[m][1] = _mm256_add_epi32(sum[m][1], _mm256_madd_epi16(am, b1));
      }
    }
#pragma GCC unroll 8
    for (int m = 0; m < n; ++m) {
      store(sums + m * kWidth, sum[m][0]);
      store(sums + m * kWidth + 8, sum[m][1]);
    }
  });
}

void add_scaled(int width, const std::int32_t* sums, const double* scale_a, const double* scale_b,
                double* c) noexcept {
  for (int m = 0; m < width; ++m, sums += kWidth, c += kWidth) {
    const __m256d sa = _mm256_set1_pd(scale_a[m]);
    for (int j = 0; j < kWidth; j += 4) {
      const __m128i word = _mm_loadu_si128(reinterpret_cast<const __m128i*>(sums + j));
      const __m256d x = _mm256_mul_pd(_mm256_cvtepi32_pd(word), _mm256_loadu_pd(scale_b + j));
      _mm256_storeu_pd(c + j, _mm256_fmadd_pd(x, sa, _mm256_loadu_pd(c + j)));
    }
  }
}

// y += value * (x * scale) for four int16, one half of each pair
void add_4(__m256d value, const std::int32_t* pairs, int half, const double* scale, double* y) {
  const __m128i pair = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs));
  const __m128i word = _mm_srai_epi32(half == 0 ? _mm_slli_epi32(pair, 16) : pair, 16);
  const __m256d x = _mm256_mul_pd(_mm256_cvtepi32_pd(word), _mm256_loadu_pd(scale));
  _mm256_storeu_pd(y, _mm256_fmadd_pd(value, x, _mm256_loadu_pd(y)));
}

void add_residual_of_a(double value, const std::int32_t* b, int at, const double* scale_b,
                       double* c) {
  b += at / 2 * kWidth;
  const int half = at % 2;
  const __m256d v = _mm256_set1_pd(value);
  for (int n = 0; n < kWidth; n += 4) add_4(v, b + n, half, scale_b + n, c + n);
}

void add_residual_of_b(int width, double value, const std::int32_t* a, int at,
                       const double* scale_a, double* d) {
  a += at / 2 * width;
  const int half = at % 2;
  for (int m = 0; m < width; ++m) {
    const auto pair = static_cast<std::uint32_t>(a[m]) >> (16 * half);
    const auto x = static_cast<std::int16_t>(pair & 0xFFFFu);
    d[m] += value * (x * scale_a[m]);
  }
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

void add_transposed(int width, const double* d, double* c) noexcept {
  for (int m = 0; m < width; ++m) {
    for (int n = 0; n < kWidth; ++n) c[m * kWidth + n] += d[n * kMaxMr + m];
  }
}

void dot_f64(int width, int k_extent, const double* a, const double* b, double* c) noexcept {
  with_width(width, [=](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    const double* from_a = a;
    const double* from_b = b;
    __m256d sum[n][2];
#pragma GCC unroll 8
    for (int m = 0; m < n; ++m) sum[m][0] = sum[m][1] = _mm256_setzero_pd();
    for (int k = 0; k < k_extent; ++k, from_a += n, from_b += kWidth / 2) {
      const __m256d b0 = _mm256_loadu_pd(from_b);
      const __m256d b1 = _mm256_loadu_pd(from_b + 4);
#pragma GCC unroll 8
      for (int m = 0; m < n; ++m) {
        const __m256d am = _mm256_set1_pd(from_a[m]);
        sum[m][0] = _mm256_fmadd_pd(am, b0, sum[m][0]);
        sum[m][1] = _mm256_fmadd_pd(am, b1, sum[m][1]);
      }
    }
#pragma GCC unroll 8
    for (int m = 0; m < n; ++m) {
      double* to = c + m * kWidth;
      _mm256_storeu_pd(to, _mm256_add_pd(_mm256_loadu_pd(to), sum[m][0]));
      _mm256_storeu_pd(to + 4, _mm256_add_pd(_mm256_loadu_pd(to + 4), sum[m][1]));
    }
  });
}

void chain_f32(int width, int k_extent, const float* a, const float* b, float* c) noexcept {
  with_width(width, [=](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    const float* from_a = a;
    const float* from_b = b;
    __m256 sum[n][2];
#pragma GCC unroll 8
    for (int m = 0; m < n; ++m) {
      sum[m][0] = _mm256_loadu_ps(c + m * kWidth);
      sum[m][1] = _mm256_loadu_ps(c + m * kWidth + 8);
    }
    for (int k = 0; k < k_extent; ++k, from_a += n, from_b += kWidth) {
      const __m256 b0 = _mm256_loadu_ps(from_b);
      const __m256 b1 = _mm256_loadu_ps(from_b + 8);
#pragma GCC unroll 8
      for (int m = 0; m < n; ++m) {
        const __m256 am = _mm256_set1_ps(from_a[m]);
        sum[m][0] = _mm256_fmadd_ps(am, b0, sum[m][0]);
        sum[m][1] = _mm256_fmadd_ps(am, b1, sum[m][1]);
      }
    }
#pragma GCC unroll 8
    for (int m = 0; m < n; ++m) {
      _mm256_storeu_ps(c + m * kWidth, sum[m][0]);
      _mm256_storeu_ps(c + m * kWidth + 8, sum[m][1]);
    }
  });
}

}  // namespace

const Kernels& avx2_kernels() {
  static const Kernels kernels{Isa::avx2,
                               6,
                               6,
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
                               portable_encode_int16,
                               portable_interleave,
                               portable_widen,
                               portable_round,
                               portable_round_exact};
  return kernels;
}

}  // namespace mxo::cpu
MXO_TARGET_END

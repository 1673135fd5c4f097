// Matrix-unit models for AVX-512, exact by directed rounding.
//
// A fused sum truncates every product toward zero at a common last place u = 2^(M - F).  Adding a
// positive product to an accumulator whose own last place is u, with one fused rounding toward
// minus infinity, adds exactly that truncated product; a negative one needs rounding toward plus
// infinity.  So an accumulator starts at 1.5 * 2^23 u (1.5 * 2^52 u in f64), where its last place
// is u and stays u while |sum| < 2^22 u (2^51 u), which fits_f32 and fits_f64 guarantee.
// Positive and negative products go to separate accumulators; both differences from the start
// are exact, and so is their sum.
#include <immintrin.h>

#include "emu/cpu/models/model_kernels.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq")
namespace mxo::cpu {
namespace {

constexpr int kDown = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
constexpr int kUp = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;
constexpr int kTowardZero = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
constexpr int kVectors = 4;   // of a panel
constexpr int kNone = -4000;  // below every exponent of a term

// ------------------------------------------------------------------ f32, 64 columns

/// Largest exponent of each column's products, in bytes.
inline __m512i largest_bytes(const ModelChunk<float>& chunk, const ModelElement<float>* a) {
  __m512i even = _mm512_set1_epi8(-128);
  __m512i odd = even;
  for (int k = 0; k + 1 < chunk.terms; k += 2) {
    const __m512i b0 = _mm512_loadu_si512(chunk.b_exponents + k * 64);
    const __m512i b1 = _mm512_loadu_si512(chunk.b_exponents + k * 64 + 64);
    even = _mm512_max_epi8(even, _mm512_add_epi8(b0, _mm512_set1_epi32(a[k].exponents)));
    odd = _mm512_max_epi8(odd, _mm512_add_epi8(b1, _mm512_set1_epi32(a[k + 1].exponents)));
  }
  if (chunk.terms % 2 != 0) {
    const int k = chunk.terms - 1;
    const __m512i b = _mm512_loadu_si512(chunk.b_exponents + k * 64);
    even = _mm512_max_epi8(even, _mm512_add_epi8(b, _mm512_set1_epi32(a[k].exponents)));
  }
  return _mm512_max_epi8(even, odd);
}

/// Exponents of 16 f32, subnormals that of the smallest normal, zeros kNone.
inline __m512i exponents_of(__m512i word) {
  const __m512i magnitude = _mm512_and_si512(word, _mm512_set1_epi32(0x7FFFFFFF));
  const __m512i field = _mm512_srli_epi32(magnitude, 23);
  const __m512i exponent =
      _mm512_sub_epi32(_mm512_max_epi32(field, _mm512_set1_epi32(1)), _mm512_set1_epi32(127));
  const __mmask16 zero = _mm512_testn_epi32_mask(magnitude, magnitude);
  return _mm512_mask_mov_epi32(exponent, zero, _mm512_set1_epi32(kNone));
}

void fused_f32_row(const ModelChunk<float>& chunk, int row) {
  const ModelElement<float>* a = chunk.a + row * chunk.terms;
  float* c = chunk.c + row * chunk.c_stride;
  const __m512i bytes = largest_bytes(chunk, a);
  const __m128i quarter[kVectors] = {
      _mm512_extracti32x4_epi32(bytes, 0), _mm512_extracti32x4_epi32(bytes, 1),
      _mm512_extracti32x4_epi32(bytes, 2), _mm512_extracti32x4_epi32(bytes, 3)};
  __m512 start[kVectors];
  __m512 plus[kVectors];
  __m512 minus[kVectors];
  std::uint64_t left = 0;
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const __m512 joined = _mm512_loadu_ps(c + 16 * v);
    const __m512i product = _mm512_cvtepi8_epi32(quarter[v]);
    const __mmask16 none = _mm512_cmplt_epi32_mask(product, _mm512_set1_epi32(-40));
    __m512i largest = _mm512_mask_mov_epi32(product, none, _mm512_set1_epi32(kNone));
    largest = _mm512_max_epi32(largest, exponents_of(_mm512_castps_si512(joined)));
    largest = _mm512_max_epi32(largest, _mm512_set1_epi32(chunk.floor));
    // Beyond 2^100 the start would overflow; this includes NaN and infinity.
    left |= static_cast<std::uint64_t>(_mm512_cmpgt_epi32_mask(largest, _mm512_set1_epi32(100)))
            << (16 * v);
    const __m512i field =
        _mm512_slli_epi32(_mm512_add_epi32(largest, _mm512_set1_epi32(23 + 127 - chunk.bits)), 23);
    start[v] = _mm512_castsi512_ps(_mm512_or_si512(field, _mm512_set1_epi32(0x400000)));
    const __m512 zero = _mm512_setzero_ps();
    plus[v] = _mm512_add_round_ps(start[v], _mm512_max_ps(joined, zero), kDown);
    minus[v] = _mm512_add_round_ps(start[v], _mm512_min_ps(joined, zero), kUp);
  }
  const float* b = chunk.b;
  for (int k = 0; k < chunk.terms; ++k, b += 128) {
    const __m512 value = _mm512_set1_ps(a[k].value);
    const float* up = b + a[k].sign_plane;  // the factors that give positive products
    const float* down = b + (64 - a[k].sign_plane);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      plus[v] = _mm512_fmadd_round_ps(value, _mm512_loadu_ps(up + 16 * v), plus[v], kDown);
      minus[v] = _mm512_fmadd_round_ps(value, _mm512_loadu_ps(down + 16 * v), minus[v], kUp);
    }
  }
  left |= chunk.left[row];
  chunk.left[row] = left;
  // The difference has at most 22 bits: truncated to E8M13 by clearing bits of the word.
  const __m512i kept = _mm512_set1_epi32(static_cast<int>(~0u << (23 - chunk.mantissa)));
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const __m512 sum =
        _mm512_add_ps(_mm512_sub_ps(plus[v], start[v]), _mm512_sub_ps(minus[v], start[v]));
    const __m512i word = _mm512_and_si512(_mm512_castps_si512(sum), kept);
    const __mmask16 zero = _mm512_testn_epi32_mask(word, _mm512_set1_epi32(0x7FFFFFFF));
    const __m512i result = _mm512_mask_mov_epi32(word, zero, _mm512_setzero_si512());
    _mm512_mask_storeu_epi32(c + 16 * v, static_cast<__mmask16>(~(left >> (16 * v))), result);
  }
}

// ------------------------------------------------------------------ f64, 32 columns

/// Largest exponent of each column's products over terms [first, past), in 16 bits.
inline __m512i largest_words(const ModelChunk<double>& chunk, const ModelElement<double>* a,
                             int first, int past) {
  __m512i largest = _mm512_set1_epi16(-32768);
  for (int k = first; k < past; ++k) {
    const __m512i b = _mm512_loadu_si512(chunk.b_exponents + k * 32);
    largest = _mm512_max_epi16(largest, _mm512_add_epi16(b, _mm512_set1_epi32(a[k].exponents)));
  }
  return largest;
}

/// Lanes 8 v to 8 v + 7 of 32, widened.
inline __m512i lanes(__m512i words, int v) {
  switch (v) {
    case 0: return _mm512_cvtepi16_epi64(_mm512_castsi512_si128(words));
    case 1: return _mm512_cvtepi16_epi64(_mm512_extracti32x4_epi32(words, 1));
    case 2: return _mm512_cvtepi16_epi64(_mm512_extracti32x4_epi32(words, 2));
    default: return _mm512_cvtepi16_epi64(_mm512_extracti32x4_epi32(words, 3));
  }
}

/// 2^exponent.
inline __m512d power(__m512i exponent) {
  return _mm512_castsi512_pd(
      _mm512_slli_epi64(_mm512_add_epi64(exponent, _mm512_set1_epi64(1023)), 52));
}

/// 1.5 * 2^52 steps of 2^(largest - bits).
inline __m512d start_at(__m512i largest, int bits) {
  return _mm512_mul_pd(_mm512_set1_pd(1.5),
                       power(_mm512_add_epi64(largest, _mm512_set1_epi64(52 - bits))));
}

/// Exponents of 8 f32; of a zero `zero`.
inline __m512i exponents_of(__m256i word, long long zero) {
  const __m256i magnitude = _mm256_and_si256(word, _mm256_set1_epi32(0x7FFFFFFF));
  const __m256i field = _mm256_max_epi32(_mm256_srli_epi32(magnitude, 23), _mm256_set1_epi32(1));
  const __m512i exponent = _mm512_cvtepi32_epi64(_mm256_sub_epi32(field, _mm256_set1_epi32(127)));
  const __mmask8 none = _mm256_testn_epi32_mask(magnitude, magnitude);
  return _mm512_mask_mov_epi64(exponent, none, _mm512_set1_epi64(zero));
}

inline __mmask8 not_finite(__m256i word) {
  const __m256i magnitude = _mm256_and_si256(word, _mm256_set1_epi32(0x7FFFFFFF));
  return _mm256_cmpgt_epi32_mask(magnitude, _mm256_set1_epi32(0x7F7FFFFF));
}

/// Adds the truncated products of terms [first, past).
inline void add_products(const ModelChunk<double>& chunk, const ModelElement<double>* a, int first,
                         int past, __m512d* plus, __m512d* minus) {
  const double* b = chunk.b + first * 64;
  for (int k = first; k < past; ++k, b += 64) {
    const __m512d value = _mm512_set1_pd(a[k].value);
    const double* up = b + a[k].sign_plane;
    const double* down = b + (32 - a[k].sign_plane);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      plus[v] = _mm512_fmadd_round_pd(value, _mm512_loadu_pd(up + 8 * v), plus[v], kDown);
      minus[v] = _mm512_fmadd_round_pd(value, _mm512_loadu_pd(down + 8 * v), minus[v], kUp);
    }
  }
}

inline __m512d difference(__m512d plus, __m512d minus, __m512d start) {
  return _mm512_add_pd(_mm512_sub_pd(plus, start), _mm512_sub_pd(minus, start));
}

/// Toward zero; a magnitude of 2^128 or more is infinite; zero is +0.
inline __m256 cut_to_f32(__m512d sum, __m256i kept) {
  const __m256 cut = _mm512_cvt_roundpd_ps(sum, kTowardZero);
  const __mmask8 over = _mm512_cmp_pd_mask(_mm512_abs_pd(sum), _mm512_set1_pd(0x1p128), _CMP_GE_OQ);
  const __m256i sign =
      _mm256_and_si256(_mm256_castps_si256(cut), _mm256_set1_epi32(static_cast<int>(0x80000000u)));
  const __m256i infinity = _mm256_or_si256(sign, _mm256_set1_epi32(0x7F800000));
  const __m256i word = _mm256_and_si256(_mm256_castps_si256(cut), kept);
  return _mm256_castsi256_ps(_mm256_mask_mov_epi32(word, over, infinity));
}

inline __m256 positive_zero(__m256 x) {
  const __m256i word = _mm256_castps_si256(x);
  const __mmask8 zero = _mm256_testn_epi32_mask(word, _mm256_set1_epi32(0x7FFFFFFF));
  return _mm256_castsi256_ps(_mm256_mask_mov_epi32(word, zero, _mm256_setzero_si256()));
}

void fused_f64_row(const ModelChunk<double>& chunk, int row) {
  const ModelElement<double>* a = chunk.a + row * chunk.terms;
  float* c = chunk.c + row * chunk.c_stride;
  const __m512i words = largest_words(chunk, a, 0, chunk.terms);
  __m512d start[kVectors];
  __m512d plus[kVectors];
  __m512d minus[kVectors];
  std::uint64_t left = chunk.left[row];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const __m256 joined = _mm256_loadu_ps(c + 8 * v);
    const __m256i word = _mm256_castps_si256(joined);
    left |= static_cast<std::uint64_t>(not_finite(word)) << (8 * v);
    __m512i largest = _mm512_max_epi64(lanes(words, v), exponents_of(word, kNone));
    largest = _mm512_max_epi64(largest, _mm512_set1_epi64(chunk.floor));
    start[v] = start_at(largest, chunk.bits);
    const __m512d wide = _mm512_cvtps_pd(joined);
    plus[v] = _mm512_add_round_pd(start[v], _mm512_max_pd(wide, _mm512_setzero_pd()), kDown);
    minus[v] = _mm512_add_round_pd(start[v], _mm512_min_pd(wide, _mm512_setzero_pd()), kUp);
  }
  add_products(chunk, a, 0, chunk.terms, plus, minus);
  chunk.left[row] = left;
  const __m256i kept = _mm256_set1_epi32(static_cast<int>(~0u << (23 - chunk.mantissa)));
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const __m512d sum = difference(plus[v], minus[v], start[v]);
    const __m256 rounded =
        chunk.rounding == StepRounding::toward_zero ? cut_to_f32(sum, kept) : _mm512_cvtpd_ps(sum);
    _mm256_mask_storeu_ps(c + 8 * v, static_cast<__mmask8>(~(left >> (8 * v))),
                          positive_zero(rounded));
  }
}

// ------------------------------------------------------------------ CDNA3

/// The sum of truncated products of a part of the chunk, and its largest exponent.
struct Part {
  __m512d sum[kVectors];
  __m512i largest[kVectors];
};

inline Part sum_part(const ModelChunk<double>& chunk, const ModelElement<double>* a, int first,
                     int past) {
  const __m512i words = largest_words(chunk, a, first, past);
  Part part;
  __m512d start[kVectors];
  __m512d plus[kVectors];
  __m512d minus[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    // No nonzero term: any value far below the accumulator's -126 will do.
    part.largest[v] = _mm512_max_epi64(lanes(words, v), _mm512_set1_epi64(-600));
    start[v] = plus[v] = minus[v] = start_at(part.largest[v], chunk.bits);
  }
  add_products(chunk, a, first, past, plus, minus);
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) part.sum[v] = difference(plus[v], minus[v], start[v]);
  return part;
}

/// floor(x * 2^exponent); the product is exact.
inline __m512d floor_scaled(__m512d x, __m512i exponent) {
  return _mm512_floor_pd(_mm512_mul_pd(x, power(exponent)));
}

void cdna3_f64_row(const ModelChunk<double>& chunk, int row) {
  const ModelElement<double>* a = chunk.a + row * chunk.terms;
  float* c = chunk.c + row * chunk.c_stride;
  const int half = chunk.parity ? chunk.terms / 2 : chunk.terms;
  Part part = sum_part(chunk, a, 0, half);
  const __m512i bits = _mm512_set1_epi64(chunk.bits);
  if (chunk.parity) {
    const Part odd = sum_part(chunk, a, half, chunk.terms);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m512i largest = _mm512_max_epi64(part.largest[v], odd.largest[v]);
      const __m512i up = _mm512_sub_epi64(bits, largest);
      const __m512d steps =
          _mm512_add_pd(floor_scaled(part.sum[v], up), floor_scaled(odd.sum[v], up));
      part.sum[v] = _mm512_mul_pd(steps, power(_mm512_sub_epi64(largest, bits)));
      part.largest[v] = largest;
    }
  }
  std::uint64_t left = chunk.left[row];
  const __m512i sum_bits = _mm512_set1_epi64(31);
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const __m256 joined = _mm256_loadu_ps(c + 8 * v);
    const __m256i word = _mm256_castps_si256(joined);
    // From 2^126 on a product may reach 2^128, which the model treats as an infinity.
    const __mmask8 large = _mm512_cmpgt_epi64_mask(part.largest[v], _mm512_set1_epi64(125));
    left |= static_cast<std::uint64_t>(not_finite(word) | large) << (8 * v);
    const __m512i exponent = exponents_of(word, -126);
    const __m512i largest = _mm512_max_epi64(part.largest[v], exponent);
    const __m512d products = floor_scaled(part.sum[v], _mm512_sub_epi64(sum_bits, largest));
    __m512d kept = floor_scaled(_mm512_cvtps_pd(joined), _mm512_sub_epi64(bits, largest));
    kept = _mm512_mul_pd(kept, power(_mm512_sub_epi64(sum_bits, bits)));
    if (chunk.parity) {
      const __m512i least = _mm512_sub_epi64(largest, _mm512_add_epi64(bits, _mm512_set1_epi64(1)));
      kept =
          _mm512_mask_mov_pd(kept, _mm512_cmplt_epi64_mask(exponent, least), _mm512_setzero_pd());
    }
    const __m512d sum =
        _mm512_mul_pd(_mm512_add_pd(products, kept), power(_mm512_sub_epi64(largest, sum_bits)));
    _mm256_mask_storeu_ps(c + 8 * v, static_cast<__mmask8>(~(left >> (8 * v))),
                          positive_zero(_mm512_cvtpd_ps(sum)));
  }
  chunk.left[row] = left;
}

void fused_f32(const ModelChunk<float>& chunk) noexcept {
  for (int row = 0; row < chunk.rows; ++row) fused_f32_row(chunk, row);
}
void fused_f64(const ModelChunk<double>& chunk) noexcept {
  for (int row = 0; row < chunk.rows; ++row) fused_f64_row(chunk, row);
}
void cdna3_f64(const ModelChunk<double>& chunk) noexcept {
  for (int row = 0; row < chunk.rows; ++row) cdna3_f64_row(chunk, row);
}

}  // namespace

const ModelKernels kModelsAvx512{"avx512", true, fused_f32, fused_f64, cdna3_f64};

}  // namespace mxo::cpu
MXO_TARGET_END

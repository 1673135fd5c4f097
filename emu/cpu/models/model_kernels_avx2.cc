// Matrix-unit models for AVX2, exact by scaling to integers.
//
// Products are exact in the type they are computed in (8-bit codes: 8 bits in f32; bf16 and f16:
// 16 and 22 bits in f64).  Scaled by 2^(F - M), again exact, rounding to an integer toward zero is
// the model's truncation, and the integers of a chunk add without error below 2^24 (2^53).
#include <immintrin.h>

#include "emu/cpu/models/model_kernels.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx2,fma")
namespace mxo::cpu {
namespace {

constexpr int kVectors = 4;   // processed at once
constexpr int kNone = -4000;  // below every exponent of a term
constexpr int kTruncate = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
constexpr int kFloor = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;

inline __m256i magnitude_of(__m256i word) {
  return _mm256_and_si256(word, _mm256_set1_epi32(0x7FFFFFFF));
}

/// Exponents of 8 f32, subnormals that of the smallest normal; of a zero `zero`.
inline __m256i exponents_of(__m256i word, int zero) {
  const __m256i magnitude = magnitude_of(word);
  const __m256i field = _mm256_max_epi32(_mm256_srli_epi32(magnitude, 23), _mm256_set1_epi32(1));
  const __m256i exponent = _mm256_sub_epi32(field, _mm256_set1_epi32(127));
  const __m256i none = _mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256());
  return _mm256_blendv_epi8(exponent, _mm256_set1_epi32(zero), none);
}

/// A bit per lane where the f32 is NaN or infinite.
inline unsigned not_finite(__m256i word) {
  const __m256i large = _mm256_cmpgt_epi32(magnitude_of(word), _mm256_set1_epi32(0x7F7FFFFF));
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(large)));
}

/// All ones in the lanes whose bit of `bits` is clear.
inline __m256i lanes_to_store(std::uint64_t bits) {
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits & 0xFF)), bit);
  return _mm256_cmpeq_epi32(set, _mm256_setzero_si256());
}

inline __m256 positive_zero(__m256 x) {
  const __m256 zero = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_EQ_OQ);
  return _mm256_andnot_ps(zero, x);
}

// ------------------------------------------------------------------ f32, 32 columns at a time

/// 2^exponent for exponents of normal f32.
inline __m256 power(__m256i exponent) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23));
}

void fused_f32_row(const ModelChunk<float>& chunk, int row, int column) {
  const ModelElement<float>* a = chunk.a + row * chunk.terms;
  float* c = chunk.c + row * chunk.c_stride + column;
  __m256i bytes = _mm256_set1_epi8(-128);
  for (int k = 0; k < chunk.terms; ++k) {
    const __m256i b =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(chunk.b_exponents + k * 64 + column));
    bytes = _mm256_max_epi8(bytes, _mm256_add_epi8(b, _mm256_set1_epi32(a[k].exponents)));
  }
  alignas(32) std::int8_t largest_of[32];
  _mm256_store_si256(reinterpret_cast<__m256i*>(largest_of), bytes);
  __m256i largest[kVectors];
  __m256 scale[kVectors];
  __m256 sum[kVectors];
  std::uint64_t left = 0;
  for (int v = 0; v < kVectors; ++v) {
    const __m256 joined = _mm256_loadu_ps(c + 8 * v);
    const __m256i word = _mm256_castps_si256(joined);
    const __m256i product =
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(largest_of + 8 * v)));
    const __m256i none = _mm256_cmpgt_epi32(_mm256_set1_epi32(-40), product);
    __m256i top = _mm256_blendv_epi8(product, _mm256_set1_epi32(kNone), none);
    top = _mm256_max_epi32(top, exponents_of(word, kNone));
    top = _mm256_max_epi32(top, _mm256_set1_epi32(chunk.floor));
    // Outside 2^-100 .. 2^100 a scale may not be a normal f32; this includes NaN and infinity.
    const __m256i high = _mm256_cmpgt_epi32(top, _mm256_set1_epi32(100));
    const __m256i low = _mm256_cmpgt_epi32(_mm256_set1_epi32(-100), top);
    const __m256i some = _mm256_cmpgt_epi32(magnitude_of(word), _mm256_setzero_si256());
    const __m256i beyond = _mm256_or_si256(high, _mm256_and_si256(low, some));
    left |= static_cast<std::uint64_t>(_mm256_movemask_ps(_mm256_castsi256_ps(beyond))) << (8 * v);
    // Without any nonzero term any scale will do.
    largest[v] = _mm256_max_epi32(top, _mm256_set1_epi32(-100));
    scale[v] = power(_mm256_sub_epi32(_mm256_set1_epi32(chunk.bits), largest[v]));
    sum[v] = _mm256_round_ps(_mm256_mul_ps(joined, scale[v]), kTruncate);
  }
  const float* b = chunk.b + column;
  for (int k = 0; k < chunk.terms; ++k, b += 64) {
    const __m256 value = _mm256_set1_ps(a[k].value);
    for (int v = 0; v < kVectors; ++v) {
      const __m256 product =
          _mm256_mul_ps(_mm256_mul_ps(value, _mm256_loadu_ps(b + 8 * v)), scale[v]);
      sum[v] = _mm256_add_ps(sum[v], _mm256_round_ps(product, kTruncate));
    }
  }
  left |= chunk.left[row] >> column;
  chunk.left[row] |= left << column;
  const __m256i kept = _mm256_set1_epi32(static_cast<int>(~0u << (23 - chunk.mantissa)));
  for (int v = 0; v < kVectors; ++v) {
    const __m256 step = power(_mm256_sub_epi32(largest[v], _mm256_set1_epi32(chunk.bits)));
    const __m256i word = _mm256_and_si256(_mm256_castps_si256(_mm256_mul_ps(sum[v], step)), kept);
    _mm256_maskstore_ps(c + 8 * v, lanes_to_store(left >> (8 * v)),
                        positive_zero(_mm256_castsi256_ps(word)));
  }
}

// ------------------------------------------------------------------ f64, 16 columns at a time

/// 2^exponent, from 4 exponents of 32 bits.
inline __m256d power(__m128i exponent) {
  const __m256i wide = _mm256_cvtepi32_epi64(_mm_add_epi32(exponent, _mm_set1_epi32(1023)));
  return _mm256_castsi256_pd(_mm256_slli_epi64(wide, 52));
}

struct Exponents {
  __m128i of[kVectors];
};

/// Largest exponent of each column's products over terms [first, past), not below `least`.
inline Exponents largest_exponents(const ModelChunk<double>& chunk, const ModelElement<double>* a,
                                   int column, int first, int past, int least) {
  __m256i words = _mm256_set1_epi16(-32768);
  for (int k = first; k < past; ++k) {
    const __m256i b =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(chunk.b_exponents + k * 32 + column));
    words = _mm256_max_epi16(words, _mm256_add_epi16(b, _mm256_set1_epi32(a[k].exponents)));
  }
  alignas(32) std::int16_t of[16];
  _mm256_store_si256(reinterpret_cast<__m256i*>(of), words);
  Exponents largest;
  for (int v = 0; v < kVectors; ++v) {
    const __m128i four =
        _mm_cvtepi16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(of + 4 * v)));
    largest.of[v] = _mm_max_epi32(four, _mm_set1_epi32(least));
  }
  return largest;
}

/// Adds the truncated products of terms [first, past), in steps of 1 / scale.
inline void add_products(const ModelChunk<double>& chunk, const ModelElement<double>* a, int column,
                         int first, int past, const __m256d* scale, __m256d* sum) {
  const double* b = chunk.b + first * 32 + column;
  for (int k = first; k < past; ++k, b += 32) {
    const __m256d value = _mm256_set1_pd(a[k].value);
    for (int v = 0; v < kVectors; ++v) {
      const __m256d product =
          _mm256_mul_pd(_mm256_mul_pd(value, _mm256_loadu_pd(b + 4 * v)), scale[v]);
      sum[v] = _mm256_add_pd(sum[v], _mm256_round_pd(product, kTruncate));
    }
  }
}

/// Toward zero; a magnitude of 2^128 or more is infinite.  The nearest f32 is at most one step
/// too large; an infinity from rounding alone steps down to the largest finite value.
inline __m128 cut_to_f32(__m256d sum, int mantissa) {
  const __m256d absolute = _mm256_andnot_pd(_mm256_set1_pd(-0.0), sum);
  const __m128 nearest = _mm256_cvtpd_ps(absolute);
  const __m256d above = _mm256_cmp_pd(_mm256_cvtps_pd(nearest), absolute, _CMP_GT_OQ);
  const __m256d finite = _mm256_cmp_pd(absolute, _mm256_set1_pd(0x1p128), _CMP_LT_OQ);
  const __m256i both = _mm256_castpd_si256(_mm256_and_pd(above, finite));
  const __m128i down = _mm256_castsi256_si128(
      _mm256_permutevar8x32_epi32(both, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
  const __m128i kept = _mm_set1_epi32(static_cast<int>(~0u << (23 - mantissa)));
  const __m128i word = _mm_and_si128(_mm_add_epi32(_mm_castps_si128(nearest), down), kept);
  const __m128 sign = _mm_and_ps(_mm256_cvtpd_ps(sum), _mm_set1_ps(-0.0f));
  return _mm_or_ps(_mm_castsi128_ps(word), sign);
}

/// Stores 16 results; `left` has a bit for each.
inline void store(float* c, const __m128* result, std::uint64_t left) {
  for (int v = 0; v < kVectors; v += 2) {
    const __m256 eight = _mm256_set_m128(result[v + 1], result[v]);
    _mm256_maskstore_ps(c + 4 * v, lanes_to_store(left >> (4 * v)), positive_zero(eight));
  }
}

/// The lanes of 16 f32 at c that are not finite.
inline std::uint64_t not_finite_of(const float* c) {
  const unsigned low = not_finite(_mm256_castps_si256(_mm256_loadu_ps(c)));
  const unsigned high = not_finite(_mm256_castps_si256(_mm256_loadu_ps(c + 8)));
  return low | high << 8;
}

inline __m128i exponents_of(__m128i word, int zero) {
  return _mm256_castsi256_si128(exponents_of(_mm256_castsi128_si256(word), zero));
}

void fused_f64_row(const ModelChunk<double>& chunk, int row, int column) {
  const ModelElement<double>* a = chunk.a + row * chunk.terms;
  float* c = chunk.c + row * chunk.c_stride + column;
  Exponents largest = largest_exponents(chunk, a, column, 0, chunk.terms, chunk.floor);
  __m256d scale[kVectors];
  __m256d sum[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const __m128 joined = _mm_loadu_ps(c + 4 * v);
    largest.of[v] = _mm_max_epi32(largest.of[v], exponents_of(_mm_castps_si128(joined), kNone));
    scale[v] = power(_mm_sub_epi32(_mm_set1_epi32(chunk.bits), largest.of[v]));
    sum[v] = _mm256_round_pd(_mm256_mul_pd(_mm256_cvtps_pd(joined), scale[v]), kTruncate);
  }
  const std::uint64_t left = not_finite_of(c) | (chunk.left[row] >> column & 0xFFFF);
  chunk.left[row] |= left << column;
  add_products(chunk, a, column, 0, chunk.terms, scale, sum);
  __m128 result[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const __m256d value =
        _mm256_mul_pd(sum[v], power(_mm_sub_epi32(largest.of[v], _mm_set1_epi32(chunk.bits))));
    result[v] = chunk.rounding == StepRounding::toward_zero ? cut_to_f32(value, chunk.mantissa)
                                                            : _mm256_cvtpd_ps(value);
  }
  store(c, result, left);
}

// ------------------------------------------------------------------ CDNA3

/// floor(x * 2^exponent); the product is exact.
inline __m256d floor_scaled(__m256d x, __m128i exponent) {
  return _mm256_round_pd(_mm256_mul_pd(x, power(exponent)), kFloor);
}

void cdna3_f64_row(const ModelChunk<double>& chunk, int row, int column) {
  constexpr int kLeast = -600;  // no nonzero term: far below the accumulator's -126
  const ModelElement<double>* a = chunk.a + row * chunk.terms;
  float* c = chunk.c + row * chunk.c_stride + column;
  const __m128i bits = _mm_set1_epi32(chunk.bits);
  const __m128i sum_bits = _mm_set1_epi32(31);
  const int parts = chunk.parity ? 2 : 1;
  const int length = chunk.terms / parts;
  Exponents largest[2];
  __m256d sum[2][kVectors];
  for (int p = 0; p < parts; ++p) {
    largest[p] = largest_exponents(chunk, a, column, p * length, (p + 1) * length, kLeast);
    __m256d scale[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      scale[v] = power(_mm_sub_epi32(bits, largest[p].of[v]));
      sum[p][v] = _mm256_setzero_pd();
    }
    add_products(chunk, a, column, p * length, (p + 1) * length, scale, sum[p]);
  }
  std::uint64_t left = not_finite_of(c) | (chunk.left[row] >> column & 0xFFFF);
  __m128 result[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    __m128i top = largest[0].of[v];
    __m256d products = sum[0][v];  // in steps of 2^(top - bits)
    if (chunk.parity) {
      top = _mm_max_epi32(top, largest[1].of[v]);
      products = _mm256_add_pd(floor_scaled(sum[0][v], _mm_sub_epi32(largest[0].of[v], top)),
                               floor_scaled(sum[1][v], _mm_sub_epi32(largest[1].of[v], top)));
    }
    // From 2^126 on a product may reach 2^128, which the model treats as an infinity.
    const __m128i large = _mm_cmpgt_epi32(top, _mm_set1_epi32(125));
    left |= static_cast<std::uint64_t>(_mm_movemask_ps(_mm_castsi128_ps(large))) << (4 * v);
    const __m128 joined = _mm_loadu_ps(c + 4 * v);
    const __m128i exponent = exponents_of(_mm_castps_si128(joined), -126);
    const __m128i m = _mm_max_epi32(top, exponent);
    const __m128i widen = _mm_sub_epi32(sum_bits, bits);
    products = floor_scaled(products, _mm_add_epi32(widen, _mm_sub_epi32(top, m)));
    __m256d kept = floor_scaled(_mm256_cvtps_pd(joined), _mm_sub_epi32(bits, m));
    kept = _mm256_mul_pd(kept, power(widen));
    if (chunk.parity) {
      const __m128i least = _mm_sub_epi32(m, _mm_add_epi32(bits, _mm_set1_epi32(1)));
      const __m256i dropped = _mm256_cvtepi32_epi64(_mm_cmpgt_epi32(least, exponent));
      kept = _mm256_andnot_pd(_mm256_castsi256_pd(dropped), kept);
    }
    result[v] = _mm256_cvtpd_ps(
        _mm256_mul_pd(_mm256_add_pd(products, kept), power(_mm_sub_epi32(m, sum_bits))));
  }
  chunk.left[row] |= left << column;
  store(c, result, left);
}

void fused_f32(const ModelChunk<float>& chunk) noexcept {
  for (int row = 0; row < chunk.rows; ++row) {
    fused_f32_row(chunk, row, 0);
    fused_f32_row(chunk, row, 32);
  }
}
void fused_f64(const ModelChunk<double>& chunk) noexcept {
  for (int row = 0; row < chunk.rows; ++row) {
    fused_f64_row(chunk, row, 0);
    fused_f64_row(chunk, row, 16);
  }
}
void cdna3_f64(const ModelChunk<double>& chunk) noexcept {
  for (int row = 0; row < chunk.rows; ++row) {
    cdna3_f64_row(chunk, row, 0);
    cdna3_f64_row(chunk, row, 16);
  }
}

}  // namespace

const ModelKernels kModelsAvx2{"avx2", false, fused_f32, fused_f64, cdna3_f64};

}  // namespace mxo::cpu
MXO_TARGET_END

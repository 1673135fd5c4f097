// Loops over rows of floats for AVX2 and FMA (Haswell and later).
#include <immintrin.h>

#include "emu/cpu/exp_table.h"
#include "emu/cpu/float_kernels.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx2,fma")
namespace mxo::cpu {
namespace {

struct V {
  using F = __m256;
  using I = __m256i;
  using D = __m256d;
  static constexpr Index kLanes = 8;

  static F load(const float* x) { return _mm256_loadu_ps(x); }
  static void store(float* y, F a) { _mm256_storeu_ps(y, a); }
  static F load_upper_halves(const std::uint16_t* x) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  static void store_halves(std::uint16_t* y, I half) {
    const I packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(half, half), 0xD8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm256_castsi256_si128(packed));
  }
  static I bits(F a) { return _mm256_castps_si256(a); }
  static I all(int a) { return _mm256_set1_epi32(a); }
  static I add(I a, I b) { return _mm256_add_epi32(a, b); }
  static I bit_and(I a, I b) { return _mm256_and_si256(a, b); }
  template <int n>
  static I shift_right(I a) {
    return _mm256_srli_epi32(a, n);
  }
  static F set_float(float a) { return _mm256_set1_ps(a); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F canonical(F a) {
    return _mm256_blendv_ps(a, _mm256_castsi256_ps(all(0x7FC00000)), nan(a));
  }
  /// 1 above 30, 0 below -104, NaN of a NaN.
  static F ends(F x, F sigma) {
    const F above = _mm256_cmp_ps(x, set_float(30.0f), _CMP_GT_OQ);
    const F below = _mm256_cmp_ps(x, set_float(-104.0f), _CMP_LT_OQ);
    sigma = _mm256_blendv_ps(sigma, set_float(1.0f), above);
    return _mm256_blendv_ps(_mm256_andnot_ps(below, sigma), x, nan(x));
  }

  static void halves(F a, D* half) {
    half[0] = _mm256_cvtps_pd(_mm256_castps256_ps128(a));
    half[1] = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
  }
  static F join(const D* half) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(half[0])),
                                _mm256_cvtpd_ps(half[1]), 1);
  }
  static D set(double a) { return _mm256_set1_pd(a); }
  static D add(D a, D b) { return _mm256_add_pd(a, b); }
  static D sub(D a, D b) { return _mm256_sub_pd(a, b); }
  static D mul(D a, D b) { return _mm256_mul_pd(a, b); }
  static D div(D a, D b) { return _mm256_div_pd(a, b); }
  static D fma(D a, D b, D c) { return _mm256_fmadd_pd(a, b, c); }
  static D fnma(D a, D b, D c) { return _mm256_fnmadd_pd(a, b, c); }
  static D min(D a, D b) { return _mm256_min_pd(a, b); }
  static D max(D a, D b) { return _mm256_max_pd(a, b); }
  static D rint(D a) { return _mm256_round_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static D power(D n, D& high, D& low) {
    const __m128i step = _mm256_cvtpd_epi32(n);
    const __m128i entry = _mm_and_si128(step, _mm_set1_epi32(31));
    high = _mm256_i32gather_pd(kExp2Table.high, entry, 8);
    low = _mm256_i32gather_pd(kExp2Table.low, entry, 8);
    const __m128i field = _mm_add_epi32(_mm_srai_epi32(step, 5), _mm_set1_epi32(1023));
    return _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_cvtepi32_epi64(field), 52));
  }
  static D sticky(D high, D low) {
    const D below = _mm256_cmp_pd(low, _mm256_setzero_pd(), _CMP_LT_OQ);
    const D inexact = _mm256_cmp_pd(low, _mm256_setzero_pd(), _CMP_NEQ_UQ);
    const __m256i word = _mm256_add_epi64(_mm256_castpd_si256(high), _mm256_castpd_si256(below));
    const __m256i one = _mm256_srli_epi64(_mm256_castpd_si256(inexact), 63);
    return _mm256_castsi256_pd(_mm256_or_si256(word, one));
  }

 private:
  static F nan(F a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
};

#include "emu/cpu/float_lanes.inc"

#include "emu/cpu/swiglu_lanes.inc"

}  // namespace

const FloatKernels kFloatAvx2 = {
#include "emu/cpu/float_table.inc"
};

}  // namespace mxo::cpu
MXO_TARGET_END

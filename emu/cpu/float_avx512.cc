// Loops over rows of floats for AVX-512 F, BW, VL and DQ (Skylake-X and later).
#include <immintrin.h>

#include "emu/cpu/exp_table.h"
#include "emu/cpu/float_kernels.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq")
namespace mxo::cpu {
namespace {

struct V {
  using F = __m512;
  using I = __m512i;
  using D = __m512d;
  static constexpr Index kLanes = 16;

  static F load(const float* x) { return _mm512_loadu_ps(x); }
  static void store(float* y, F a) { _mm512_storeu_ps(y, a); }
  static F load_upper_halves(const std::uint16_t* x) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }
  static void store_halves(std::uint16_t* y, I half) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_cvtepi32_epi16(half));
  }
  static I bits(F a) { return _mm512_castps_si512(a); }
  static I all(int a) { return _mm512_set1_epi32(a); }
  static I add(I a, I b) { return _mm512_add_epi32(a, b); }
  static I bit_and(I a, I b) { return _mm512_and_si512(a, b); }
  template <int n>
  static I shift_right(I a) {
    return _mm512_srli_epi32(a, n);
  }
  static F set_float(float a) { return _mm512_set1_ps(a); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F canonical(F a) {
    const __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    return _mm512_castsi512_ps(_mm512_mask_set1_epi32(bits(a), nan, 0x7FC00000));
  }
  /// 1 above 30, 0 below -104, NaN of a NaN.
  static F ends(F x, F sigma) {
    sigma = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, set_float(30.0f), _CMP_GT_OQ), sigma,
                                 set_float(1.0f));
    sigma = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, set_float(-104.0f), _CMP_LT_OQ), sigma,
                                 _mm512_setzero_ps());
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), sigma, x);
  }

  static void halves(F a, D* half) {
    half[0] = _mm512_cvtps_pd(_mm512_castps512_ps256(a));
    half[1] = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
  }
  static F join(const D* half) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(half[0])),
                              _mm512_cvtpd_ps(half[1]), 1);
  }
  static D set(double a) { return _mm512_set1_pd(a); }
  static D add(D a, D b) { return _mm512_add_pd(a, b); }
  static D sub(D a, D b) { return _mm512_sub_pd(a, b); }
  static D mul(D a, D b) { return _mm512_mul_pd(a, b); }
  static D div(D a, D b) { return _mm512_div_pd(a, b); }
  static D fma(D a, D b, D c) { return _mm512_fmadd_pd(a, b, c); }
  static D fnma(D a, D b, D c) { return _mm512_fnmadd_pd(a, b, c); }
  static D min(D a, D b) { return _mm512_min_pd(a, b); }
  static D max(D a, D b) { return _mm512_max_pd(a, b); }
  static D rint(D a) { return _mm512_roundscale_pd(a, _MM_FROUND_TO_NEAREST_INT); }
  static D power(D n, D& high, D& low) {
    const __m512i step = _mm512_cvtepi32_epi64(_mm512_cvtpd_epi32(n));
    high = entry(kExp2Table.high, step);
    low = entry(kExp2Table.low, step);
    const __m512i field = _mm512_add_epi64(_mm512_srai_epi64(step, 5), _mm512_set1_epi64(1023));
    return _mm512_castsi512_pd(_mm512_slli_epi64(field, 52));
  }
  static D sticky(D high, D low) {
    const __mmask8 below = _mm512_cmp_pd_mask(low, _mm512_setzero_pd(), _CMP_LT_OQ);
    const __mmask8 inexact = _mm512_cmp_pd_mask(low, _mm512_setzero_pd(), _CMP_NEQ_UQ);
    const __m512i one = _mm512_set1_epi64(1);
    __m512i word = _mm512_castpd_si512(high);
    word = _mm512_mask_sub_epi64(word, below, word, one);
    return _mm512_castsi512_pd(_mm512_mask_or_epi64(word, inexact, word, one));
  }

 private:
  /// table[step mod 32].
  static D entry(const double* table, __m512i step) {
    const D first = _mm512_permutex2var_pd(_mm512_load_pd(table), step, _mm512_load_pd(table + 8));
    const D second =
        _mm512_permutex2var_pd(_mm512_load_pd(table + 16), step, _mm512_load_pd(table + 24));
    return _mm512_mask_blend_pd(_mm512_test_epi64_mask(step, _mm512_set1_epi64(16)), first, second);
  }
};

#include "emu/cpu/float_lanes.inc"

#include "emu/cpu/swiglu_lanes.inc"

}  // namespace

const FloatKernels kFloatAvx512 = {
#include "emu/cpu/float_table.inc"
};

}  // namespace mxo::cpu
MXO_TARGET_END

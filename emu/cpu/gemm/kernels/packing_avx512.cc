// Packing and rounding for AVX-512.
#include <immintrin.h>

#include "emu/cpu/gemm/kernels/avx512.h"
#include "emu/cpu/gemm/kernels/portable.h"
#include "emu/cpu/target_region.h"
#include "emu/exact/integer_unit.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma,f16c")
namespace mxo::cpu {
namespace {

// 32 codes as binary16 bits of the same exponent field: value * 2^(bias - 15).
__m512i half_bits(__m256i codes, int shift) {
  const __m512i word = _mm512_cvtepu8_epi16(codes);
  const __m512i sign = _mm512_and_si512(_mm512_slli_epi16(word, 8), _mm512_set1_epi16(-0x8000));
  const __m512i magnitude = _mm512_and_si512(word, _mm512_set1_epi16(0x7F));
  return _mm512_or_si512(sign, _mm512_sll_epi16(magnitude, _mm_cvtsi32_si128(shift)));
}

// The signs of two codes of a pair, in the order of memory.
__m512i int16_in_order(__m512i low, __m512i high) {
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  return _mm512_permutexvar_epi64(order, _mm512_packs_epi32(low, high));
}

struct Format {
  int shift;         // of the magnitude to binary16's place
  float correction;  // 2^(15 - bias)
  int max_finite;    // magnitudes above are NaN or infinite
  bool nan_minus_0;
};

Format format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::e4m3: return {7, 0x1p8f, 0x7E, false};
    case Dtype::e4m3fnuz: return {7, 0x1p7f, 0x7F, true};
    default: return {8, 1.0f, 0x7B, false};  // e5m2
  }
}

bool find_specials(const std::uint8_t* codes, const Format& format, EncodedRun& run) {
  const __m512i low = _mm512_loadu_si512(codes);
  const __m512i high = _mm512_loadu_si512(codes + 64);
  const __m512i mask = _mm512_set1_epi8(0x7F);
  const __m512i a = _mm512_and_si512(low, mask);
  const __m512i b = _mm512_and_si512(high, mask);
  __mmask64 special;
  if (format.nan_minus_0) {
    const __m512i nan = _mm512_set1_epi8(-0x80);
    special = _mm512_cmpeq_epi8_mask(low, nan) | _mm512_cmpeq_epi8_mask(high, nan);
  } else {
    const __m512i max_magnitude = _mm512_set1_epi8(static_cast<char>(format.max_finite));
    special = _mm512_cmpgt_epu8_mask(_mm512_max_epu8(a, b), max_magnitude);
  }
  const __m512i one = _mm512_set1_epi8(1);
  const __m512i least64 = _mm512_min_epu8(_mm512_sub_epi8(a, one), _mm512_sub_epi8(b, one));
  const __m256i least32 =
      _mm256_min_epu8(_mm512_castsi512_si256(least64), _mm512_extracti64x4_epi64(least64, 1));
  const __m128i least16 =
      _mm_min_epu8(_mm256_castsi256_si128(least32), _mm256_extracti128_si256(least32, 1));
  const __m128i least8 = _mm_min_epu8(least16, _mm_srli_epi16(least16, 8));
  run.min_magnitude = static_cast<std::uint8_t>(
      _mm_cvtsi128_si32(_mm_minpos_epu16(_mm_and_si128(least8, _mm_set1_epi16(0xFF)))));
  return special != 0;
}

}  // namespace

void avx512_encode_int16(Dtype dtype, const std::uint8_t* codes, const float* factor, bool joint,
                         std::int32_t* pairs, EncodedRun& run) noexcept {
  if (dtype == Dtype::e5m2fnuz) {  // its top exponent would be binary16's infinity
    portable_encode_int16(dtype, codes, factor, joint, pairs, run);
    return;
  }
  const Format format = format_of(dtype);
  run = {};
  run.special = find_specials(codes, format, run);
  if (run.special) {
    for (int i = 0; i < kRunPairs; ++i) pairs[i] = 0;
    return;
  }
  __m512 x[2 * kRunBlocks];
  __m512 norm2[kRunBlocks];
  __m512 max_magnitude[kRunBlocks];
  const __m512i no_sign = _mm512_set1_epi32(0x7FFFFFFF);
#pragma GCC unroll 4
  for (int b = 0; b < kRunBlocks; ++b) {
    const auto* from = reinterpret_cast<const __m256i*>(codes + kBlock * b);
    const __m512i bits = half_bits(_mm256_loadu_si256(from), format.shift);
    const __m512 f = _mm512_set1_ps(factor[b] * format.correction);
    const __m512 low = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_castsi512_si256(bits)), f);
    const __m512 high = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(bits, 1)), f);
    norm2[b] = _mm512_fmadd_ps(low, low, _mm512_mul_ps(high, high));
    const __m512i low_bits = _mm512_and_si512(_mm512_castps_si512(low), no_sign);
    const __m512i high_bits = _mm512_and_si512(_mm512_castps_si512(high), no_sign);
    max_magnitude[b] = _mm512_castsi512_ps(_mm512_max_epi32(low_bits, high_bits));
    x[2 * b] = low;
    x[2 * b + 1] = high;
  }
  if (joint) {
    const __m512 n =
        _mm512_add_ps(_mm512_add_ps(norm2[0], norm2[1]), _mm512_add_ps(norm2[2], norm2[3]));
    const __m512 m = _mm512_max_ps(_mm512_max_ps(max_magnitude[0], max_magnitude[1]),
                                   _mm512_max_ps(max_magnitude[2], max_magnitude[3]));
    run.norm2[0] = _mm512_reduce_add_ps(n) * kRoundedUp;
    const int e = unit_exponent(run.norm2[0], _mm512_reduce_max_ps(m));
    for (int b = 0; b < kRunBlocks; ++b) run.exponent[b] = e;
  } else {
    for (int b = 0; b < kRunBlocks; ++b) {
      run.norm2[b] = _mm512_reduce_add_ps(norm2[b]) * kRoundedUp;
      run.exponent[b] = unit_exponent(run.norm2[b], _mm512_reduce_max_ps(max_magnitude[b]));
    }
  }
  std::uint32_t residual[kRunBlocks];
#pragma GCC unroll 4
  for (int b = 0; b < kRunBlocks; ++b) {
    const __m512 inverse = _mm512_set1_ps(power_f32(-run.exponent[b]));
    const __m512 low = _mm512_mul_ps(x[2 * b], inverse);
    const __m512 high = _mm512_mul_ps(x[2 * b + 1], inverse);
    const __m512i low_int = _mm512_cvttps_epi32(low);
    const __m512i high_int = _mm512_cvttps_epi32(high);
    const __mmask16 low_residual =
        _mm512_cmp_ps_mask(low, _mm512_cvtepi32_ps(low_int), _CMP_NEQ_UQ);
    const __mmask16 high_residual =
        _mm512_cmp_ps_mask(high, _mm512_cvtepi32_ps(high_int), _CMP_NEQ_UQ);
    residual[b] =
        static_cast<std::uint32_t>(low_residual) | static_cast<std::uint32_t>(high_residual) << 16;
    _mm512_storeu_si512(pairs + kPairs * b, int16_in_order(low_int, high_int));
  }
  run.residual[0] = residual[0] | static_cast<std::uint64_t>(residual[1]) << 32;
  run.residual[1] = residual[2] | static_cast<std::uint64_t>(residual[3]) << 32;
}

namespace {

// 16 bytes of each of four rows: loads put them in place, not shuffles, which are what a transpose
// waits for.
__m512i four_rows(const std::uint32_t* a, const std::uint32_t* b, const std::uint32_t* c,
                  const std::uint32_t* d) {
  const auto at = [](const std::uint32_t* row) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row));
  };
  __m512i rows = _mm512_castsi128_si512(at(a));
  rows = _mm512_mask_broadcast_i32x4(rows, 0x00F0, at(b));
  rows = _mm512_mask_broadcast_i32x4(rows, 0x0F00, at(c));
  return _mm512_mask_broadcast_i32x4(rows, 0xF000, at(d));
}

// Four columns of 16 rows, x[k] of rows k, k + 4, k + 8 and k + 12, to rows.
void transpose(__m512i (&x)[4]) {
  const __m512i a = _mm512_unpacklo_epi32(x[0], x[1]);
  const __m512i b = _mm512_unpackhi_epi32(x[0], x[1]);
  const __m512i c = _mm512_unpacklo_epi32(x[2], x[3]);
  const __m512i d = _mm512_unpackhi_epi32(x[2], x[3]);
  x[0] = _mm512_unpacklo_epi64(a, c);
  x[1] = _mm512_unpackhi_epi64(a, c);
  x[2] = _mm512_unpacklo_epi64(b, d);
  x[3] = _mm512_unpackhi_epi64(b, d);
}

void interleave_16(int count, const std::uint32_t* in, std::ptrdiff_t in_step, std::uint32_t* out,
                   std::ptrdiff_t out_step) {
  const std::uint32_t* a = in;
  const std::uint32_t* b = a + 4 * in_step;
  const std::uint32_t* c = b + 4 * in_step;
  const std::uint32_t* d = c + 4 * in_step;
  for (int i = 0; i < count; i += 4) {
    __m512i x[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      x[k] = four_rows(a + k * in_step, b + k * in_step, c + k * in_step, d + k * in_step);
    }
    transpose(x);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) _mm512_storeu_si512(out + k * out_step, x[k]);
    a += 4;
    b += 4;
    c += 4;
    d += 4;
    out += 4 * out_step;
  }
}

// Fewer than 16 lanes; what is read in the place of a lane that there is not is not written.
void interleave_some(int lanes, int count, const std::uint32_t* in, int in_step, std::uint32_t* out,
                     int out_step) {
  const auto keep = static_cast<__mmask16>((1u << lanes) - 1);
  for (int i = 0; i < count; i += 4) {
    const auto row = [=](int lane) { return in + (lane < lanes ? lane : 0) * in_step + i; };
    __m512i x[4];
    for (int k = 0; k < 4; ++k) x[k] = four_rows(row(k), row(k + 4), row(k + 8), row(k + 12));
    transpose(x);
    for (int k = 0; k < 4; ++k) _mm512_mask_storeu_epi32(out + (i + k) * out_step, keep, x[k]);
  }
}

}  // namespace

void avx512_interleave(int lanes, int count, const std::uint32_t* in, int in_step,
                       std::uint32_t* out, int out_step) noexcept {
  for (int first = 0; first < lanes; first += 16) {
    if (lanes - first >= 16) {
      interleave_16(count, in + first * in_step, in_step, out + first, out_step);
    } else {
      interleave_some(lanes - first, count, in + first * in_step, in_step, out + first, out_step);
    }
  }
}

void avx512_widen(int lanes, int k_extent, const float* in, int in_step, double* out, int out_step,
                  double* norm2, float* min_magnitude) noexcept {
  const __m256 infinity = _mm256_set1_ps(__builtin_inff());
  const __m256 no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  for (int first = 0; first < lanes; first += 8) {
    const int n = lanes - first < 8 ? lanes - first : 8;
    const auto keep = static_cast<__mmask8>((1u << n) - 1);
    __m512d sum = _mm512_maskz_loadu_pd(keep, norm2 + first);
    __m256 low = _mm256_mask_loadu_ps(infinity, keep, min_magnitude + first);
    for (int c = 0; c < k_extent; ++c) {
      const __m256 x = _mm256_maskz_loadu_ps(keep, in + c * in_step + first);
      const __m512d wide = _mm512_cvtps_pd(x);
      sum = _mm512_fmadd_pd(wide, wide, sum);
      const __mmask8 nonzero = _mm256_cmp_ps_mask(x, _mm256_setzero_ps(), _CMP_NEQ_UQ);
      low = _mm256_mask_min_ps(low, nonzero, low, _mm256_and_ps(x, no_sign));
      _mm512_mask_storeu_pd(out + c * out_step + first, keep, wide);
    }
    _mm512_mask_storeu_pd(norm2 + first, keep, sum);
    _mm256_mask_storeu_ps(min_magnitude + first, keep, low);
  }
}

namespace {

// f64 to the bits of f32 or bf16, each rounded once; rounding.h has the scalar twin.
__m256i bits_of(__m512d x, Dtype out) {
  if (out == Dtype::f32) return _mm256_castps_si256(_mm512_cvtpd_ps(x));
  const __m256 cut = _mm512_cvt_roundpd_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __mmask8 inexact = _mm512_cmp_pd_mask(_mm512_cvtps_pd(cut), x, _CMP_NEQ_UQ);
  __m256i bits = _mm256_castps_si256(cut);
  bits = _mm256_mask_or_epi32(bits, inexact, bits, _mm256_set1_epi32(1));
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  return _mm256_srli_epi32(bits, 16);
}

}  // namespace

std::uint32_t avx512_round(const RowEnd& row, const ColumnEnds& columns, const double* sums, int n,
                           Dtype out_dtype, void* out) noexcept {
  std::uint32_t failed = 0;
  for (int i = 0; i < n; i += 8) {
    const auto keep = static_cast<__mmask8>(n - i < 8 ? (1u << (n - i)) - 1 : 0xFFu);
    const __m512d scale =
        _mm512_mul_pd(_mm512_set1_pd(row.scale), _mm512_loadu_pd(columns.scale + i));
    const __m512d sum = _mm512_loadu_pd(sums + i);
    const __m512d zero = _mm512_setzero_pd();
    const __m512d value = _mm512_add_pd(_mm512_mul_pd(sum, scale), zero);
    const __m512d cut = _mm512_fmsub_pd(sum, scale, value);
    const __m512d reach =
        _mm512_mul_pd(_mm512_set1_pd(row.reach), _mm512_loadu_pd(columns.reach + i));
    const __mmask8 exact = _mm512_cmp_pd_mask(reach, _mm512_set1_pd(0x1p53), _CMP_LE_OQ) &
                           _mm512_cmp_pd_mask(cut, zero, _CMP_EQ_OQ);
    const __m512d count =
        _mm512_add_pd(_mm512_set1_pd(row.roundings), _mm512_loadu_pd(columns.roundings + i));
    const __m512d norms =
        _mm512_mul_pd(_mm512_set1_pd(row.norm), _mm512_loadu_pd(columns.norm + i));
    const __m512d summing =
        _mm512_mul_pd(_mm512_mul_pd(norms, count),
                      _mm512_mul_pd(_mm512_abs_pd(scale), _mm512_set1_pd(0x1.01p-53)));
    const __m512d slack = _mm512_maskz_fmadd_pd(static_cast<__mmask8>(~exact), _mm512_abs_pd(value),
                                                _mm512_set1_pd(0x1p-51), summing);
    const __m256i low = bits_of(_mm512_sub_pd(value, slack), out_dtype);
    const __m256i high = bits_of(_mm512_add_pd(value, slack), out_dtype);
    const __mmask8 fails = _mm256_cmpneq_epi32_mask(low, high) |
                           _mm512_cmp_pd_mask(slack, _mm512_set1_pd(__builtin_inf()), _CMP_NLT_UQ);
    failed |= static_cast<std::uint32_t>(fails & keep) << i;
    if (out_dtype == Dtype::f32) {
      _mm256_mask_storeu_epi32(static_cast<std::uint32_t*>(out) + i, keep, low);
    } else {
      _mm_mask_storeu_epi16(static_cast<std::uint16_t*>(out) + i, keep, _mm256_cvtepi32_epi16(low));
    }
  }
  return failed;
}

void avx512_round_exact(const double* sums, int n, Dtype out_dtype, void* out) noexcept {
  for (int i = 0; i < n; i += 8) {
    const auto keep = static_cast<__mmask8>(n - i < 8 ? (1u << (n - i)) - 1 : 0xFFu);
    const __m512d sum = _mm512_add_pd(_mm512_loadu_pd(sums + i), _mm512_setzero_pd());
    const __m256i bits = bits_of(sum, out_dtype);
    if (out_dtype == Dtype::f32) {
      _mm256_mask_storeu_epi32(static_cast<std::uint32_t*>(out) + i, keep, bits);
    } else {
      _mm_mask_storeu_epi16(static_cast<std::uint16_t*>(out) + i, keep,
                            _mm256_cvtepi32_epi16(bits));
    }
  }
}

}  // namespace mxo::cpu
MXO_TARGET_END

// The inner loops for AVX-512 without VNNI: integers by vpmaddwd, floats by fma.
#include <immintrin.h>

#include <utility>

#include "emu/cpu/gemm/kernels/kernels.h"
#include "emu/cpu/gemm/kernels/vectors.h"
#include "emu/cpu/target_region.h"
#include "emu/exact/integer_unit.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma,f16c")
namespace mxo::cpu {
namespace {

struct V : Vectors<64> {
  static constexpr int kMr = 12;
  static F64 mul_add(F64 a, F64 b, F64 c) { return _mm512_fmadd_pd(a, b, c); }
  static F32 mul_add(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }
  static I32 mul_add(I32 a, I32 b, I32 c) {
    return c + reinterpret_cast<I32>(
                   _mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
  }
  static F64 to_f64(I32OfF64 x) { return _mm512_cvtepi32_pd(reinterpret_cast<__m256i>(x)); }
  static F32OfF64 to_f32(F64 x) { return _mm512_cvtpd_ps(x); }
  static I32 widened(const std::uint8_t* from) {
    return reinterpret_cast<I32>(
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  static __m256i narrowed(I32 x) { return _mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(x)); }
  static std::uint32_t differ(F32 a, F32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
  static U32OfF64 odd_of(F64 x) {
    const __m256 cut = _mm512_cvt_roundpd_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __mmask8 inexact = _mm512_cmp_pd_mask(_mm512_cvtps_pd(cut), x, _CMP_NEQ_UQ);
    const __m256i bits = _mm256_castps_si256(cut);
    return reinterpret_cast<U32OfF64>(
        _mm256_mask_or_epi32(bits, inexact, bits, _mm256_set1_epi32(1)));
  }
  static std::uint32_t signs(I64 x) { return _mm512_movepi64_mask(reinterpret_cast<__m512i>(x)); }
};

#include "emu/cpu/gemm/kernels/register_tiles.inc"

#include "emu/cpu/gemm/kernels/products.inc"

#include "emu/cpu/gemm/kernels/packing.inc"

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

bool find_specials_512(const CodeFormat& format, const std::uint8_t* codes, EncodedRun& run) {
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

/// encode_int16 by way of binary16, in three quarters of its time.
void encode_by_halves(const CodeFormat& format, const std::uint8_t* codes, const float* factor,
                      bool joint, std::int32_t* pairs, EncodedRun& run) noexcept {
  if (format.mantissa_bits == 2 && format.nan_minus_0) {
    // The top exponent of e5m2fnuz would be binary16's infinity.
    return encode_int16(format, codes, factor, joint, pairs, run);
  }
  const int shift = 10 - format.mantissa_bits;
  const float correction = power_f32(15 - format.bias);
  run = {};
  run.special = find_specials_512(format, codes, run);
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
    const __m512i bits = half_bits(_mm256_loadu_si256(from), shift);
    const __m512 f = _mm512_set1_ps(factor[b] * correction);
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

}  // namespace

const Kernels& avx512_kernels() {
  static const Kernels kernels = [] {
    Kernels k = table(Isa::avx512);
    k.encode_int16 = encode_by_halves;
    return k;
  }();
  return kernels;
}

}  // namespace mxo::cpu
MXO_TARGET_END

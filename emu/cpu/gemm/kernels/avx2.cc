// The inner loops for AVX2: integers by vpmaddwd, floats by fma.
#include <immintrin.h>

#include <utility>

#include "emu/cpu/gemm/kernels/kernels.h"
#include "emu/cpu/gemm/kernels/vectors.h"
#include "emu/cpu/target_region.h"
#include "emu/exact/integer_unit.h"

MXO_TARGET_BEGIN("avx2,fma")
namespace mxo::cpu {
namespace {

struct V : Vectors<32> {
  static constexpr int kMr = 6;
  static F64 mul_add(F64 a, F64 b, F64 c) { return _mm256_fmadd_pd(a, b, c); }
  static F32 mul_add(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }
  static I32 mul_add(I32 a, I32 b, I32 c) {
    return c + reinterpret_cast<I32>(
                   _mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  }
  static F64 to_f64(I32OfF64 x) { return _mm256_cvtepi32_pd(reinterpret_cast<__m128i>(x)); }
  static F32OfF64 to_f32(F64 x) { return _mm256_cvtpd_ps(x); }
  static I32 widened(const std::uint8_t* from) {
    return reinterpret_cast<I32>(_mm256_cvtepu8_epi32(_mm_loadu_si64(from)));
  }
  static __m128i narrowed(I32 x) {
    const auto words = reinterpret_cast<__m256i>(x);
    return _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  }
  static std::uint32_t differ(F32 a, F32 b) {
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NEQ_UQ)));
  }
  static std::uint32_t signs(I64 x) {
    return static_cast<std::uint32_t>(_mm256_movemask_pd(reinterpret_cast<__m256d>(x)));
  }
};

#include "emu/cpu/gemm/kernels/register_tiles.inc"

#include "emu/cpu/gemm/kernels/products.inc"

#include "emu/cpu/gemm/kernels/packing.inc"

}  // namespace

const Kernels& avx2_kernels() {
  static const Kernels kernels = table(Isa::avx2);
  return kernels;
}

}  // namespace mxo::cpu
MXO_TARGET_END

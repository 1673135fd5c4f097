// The codec loops for AVX2 and F16C (Haswell and later).
#include <immintrin.h>

#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx2,f16c")
namespace mxo::cpu {
namespace {

struct V {
  using I = __m256i;
  using F = __m256;
  using M = __m256i;
  static constexpr Index kLanes = 8;

  static I all(int value) { return _mm256_set1_epi32(value); }
  static F floats(I a) { return _mm256_castsi256_ps(a); }
  static I bits(F a) { return _mm256_castps_si256(a); }
  static F from_int(I a) { return _mm256_cvtepi32_ps(a); }
  static I add(I a, I b) { return _mm256_add_epi32(a, b); }
  static I sub(I a, I b) { return _mm256_sub_epi32(a, b); }
  static I bit_and(I a, I b) { return _mm256_and_si256(a, b); }
  static I bit_or(I a, I b) { return _mm256_or_si256(a, b); }
  static I min(I a, I b) { return _mm256_min_epi32(a, b); }
  static I max(I a, I b) { return _mm256_max_epi32(a, b); }
  template <int n>
  static I shift_right(I a) {
    return _mm256_srli_epi32(a, n);
  }
  template <int n>
  static I shift_left(I a) {
    return _mm256_slli_epi32(a, n);
  }
  static M gt(I a, I b) { return _mm256_cmpgt_epi32(a, b); }
  static I pick(M where, I a, I b) { return _mm256_blendv_epi8(b, a, where); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }

  static I load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static void store(void* to, I a) { _mm256_storeu_si256(static_cast<__m256i*>(to), a); }
  static I load_upper_halves(const std::uint16_t* from) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
  }
  static I load_f16(const std::uint16_t* from) {
    return bits(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  static I load_bytes(const std::uint8_t* from) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  }
  static int reduce_max(I a) {
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1));
    return _mm_cvtsi128_si32(m);
  }
  /// The low bytes of four vectors, in order.
  static void store_bytes(std::uint8_t* to, const I* code, Stores stores) {
    const I low = _mm256_packus_epi32(code[0], code[1]);
    const I high = _mm256_packus_epi32(code[2], code[3]);
    const I order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const I bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
    if (stores == Stores::streamed) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to), bytes);
    } else {
      store(to, bytes);
    }
  }
  /// The low halves of two vectors, in order.
  static void store_halves(std::uint16_t* to, const I* half) {
    store(to, _mm256_permute4x64_epi64(_mm256_packus_epi32(half[0], half[1]), 0xD8));
  }
  static void fence(Stores stores) {
    if (stores == Stores::streamed) _mm_sfence();
  }
};

#include "emu/cpu/codec_lanes.inc"

#include "emu/cpu/codec_decode_lanes.inc"

}  // namespace

const CodecKernels kCodecAvx2 = {
#include "emu/cpu/codec_table.inc"
};

}  // namespace mxo::cpu
MXO_TARGET_END

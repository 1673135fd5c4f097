// The codec loops for AVX-512 F, BW, VL and DQ (Skylake-X and later).
#include <immintrin.h>

#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq")
namespace mxo::cpu {
namespace {

struct V {
  using I = __m512i;
  using F = __m512;
  using M = __mmask16;
  static constexpr Index kLanes = 16;

  static I all(int value) { return _mm512_set1_epi32(value); }
  static F floats(I a) { return _mm512_castsi512_ps(a); }
  static I bits(F a) { return _mm512_castps_si512(a); }
  static F from_int(I a) { return _mm512_cvtepi32_ps(a); }
  static I add(I a, I b) { return _mm512_add_epi32(a, b); }
  static I sub(I a, I b) { return _mm512_sub_epi32(a, b); }
  static I bit_and(I a, I b) { return _mm512_and_si512(a, b); }
  static I bit_or(I a, I b) { return _mm512_or_si512(a, b); }
  static I min(I a, I b) { return _mm512_min_epi32(a, b); }
  static I max(I a, I b) { return _mm512_max_epi32(a, b); }
  template <int n>
  static I shift_right(I a) {
    return _mm512_srli_epi32(a, n);
  }
  template <int n>
  static I shift_left(I a) {
    return _mm512_slli_epi32(a, n);
  }
  static M gt(I a, I b) { return _mm512_cmpgt_epi32_mask(a, b); }
  static I pick(M where, I a, I b) { return _mm512_mask_blend_epi32(where, b, a); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }

  static I load(const void* from) { return _mm512_loadu_si512(from); }
  static void store(void* to, I a) { _mm512_storeu_si512(to, a); }
  static I load_upper_halves(const std::uint16_t* from) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
  }
  static I load_f16(const std::uint16_t* from) {
    return bits(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
  }
  static I load_bytes(const std::uint8_t* from) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static int reduce_max(I a) { return _mm512_reduce_max_epi32(a); }
  /// The low bytes of four vectors, in order.
  static void store_bytes(std::uint8_t* to, const I* code, Stores stores) {
    const I low = _mm512_packus_epi32(code[0], code[1]);
    const I high = _mm512_packus_epi32(code[2], code[3]);
    const I order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    store_line(to, _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high)), stores);
  }
  static void store_line(std::uint8_t* to, I bytes, Stores stores) {
    if (stores == Stores::streamed) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), bytes);
    } else {
      store(to, bytes);
    }
  }
  /// The low halves of two vectors, in order.
  static void store_halves(std::uint16_t* to, const I* half) {
    const I order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    store(to, _mm512_permutexvar_epi64(order, _mm512_packus_epi32(half[0], half[1])));
  }
  static void fence(Stores stores) {
    if (stores == Stores::streamed) _mm_sfence();
  }
};

#include "emu/cpu/codec_lanes.inc"

#include "emu/cpu/codec_decode_lanes.inc"

#include "emu/cpu/codec_bf16_avx512.inc"

}  // namespace

const CodecKernels kCodecAvx512 = {
#include "emu/cpu/codec_table.inc"
};

}  // namespace mxo::cpu
MXO_TARGET_END

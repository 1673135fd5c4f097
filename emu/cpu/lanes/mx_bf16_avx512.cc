// MX quantisation of bf16 in 16-bit lanes of AVX-512: 32 elements a vector, integers only.  By
// hand, because Highway 1.0.3 packs neither 16-bit lanes to bytes in order nor finds their maximum
// in one instruction (bench/RESULTS.md).
//
// A block's code is a function of the bf16 magnitude and one number, its shift: the magnitude less
// (scale - bias - mantissa bits) << 7 has the exponent field of the code above the fraction,
// counted from half of the least subnormal.  This holds for normal bf16.  Through the float lanes
// go blocks that hold Inf or NaN, those whose amax lies in the last binade, where the scale may be
// NaN, and those whose scale byte is below kLeastScale: from there on the exponent field of a
// subnormal bf16 lies so far below the normal range that all its bits are dropped, with or without
// an implicit one.
#include <immintrin.h>

#include "emu/cpu/lanes/beside.h"
#include "emu/cpu/lanes/lanes.h"
#include "emu/cpu/lanes/tables.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::N_AVX3 {
namespace {

using W = __m512i;

/// The same of any block, in float lanes.
template <FormatSpec S>
const QuantizeKernels& in_float_lanes() {
  constexpr int format =
      (S.mantissa_bits == 2 ? 2 : 0) + (S.special == Special::nan_minus_0 ? 1 : 0);
  constexpr int bf16 = input_index(Dtype::bf16);
  return kEncodeKernels.quantize[format][bf16];
}

void store_line(std::uint8_t* to, W bytes, Stores stores) {
  if (stores == Stores::streamed) {
    _mm512_stream_si512(reinterpret_cast<W*>(to), bytes);
  } else {
    _mm512_storeu_si512(to, bytes);
  }
}

template <FormatSpec S>
constexpr int kLeastScale = S.bias + 1 + S.mantissa_bits;
constexpr int kLargestAmax = 0x7EFF;
constexpr int kZeroShift = 0x7FFF;  // makes every magnitude of an all-zero block vanish

/// The magnitudes of codes, one per 16-bit lane.
template <FormatSpec S>
HWY_NOINLINE W encode_halves(W word, W shift) {
  constexpr int m = S.mantissa_bits;
  const W magnitude = _mm512_and_si512(word, _mm512_set1_epi16(0x7FFF));
  const W moved = _mm512_sub_epi16(magnitude, shift);
  const W field = _mm512_sub_epi16(_mm512_srai_epi16(moved, 7), _mm512_set1_epi16(m));
  // 1.fraction, 8 bits; kept bits 1 + m, one fewer for each binade below the normal range.
  const W significand =
      _mm512_ternarylogic_epi32(word, _mm512_set1_epi16(0x7F), _mm512_set1_epi16(0x80), 0xEA);
  const W low = _mm512_min_epi16(field, _mm512_set1_epi16(1));
  const W drop = _mm512_sub_epi16(_mm512_set1_epi16(8 - m), low);
  const W odd = _mm512_and_si512(_mm512_srlv_epi16(significand, drop), _mm512_set1_epi16(1));
  const W below_half =
      _mm512_srlv_epi16(_mm512_set1_epi16(-1), _mm512_add_epi16(low, _mm512_set1_epi16(9 + m)));
  const W rounded =
      _mm512_srlv_epi16(_mm512_add_epi16(_mm512_add_epi16(significand, below_half), odd), drop);
  // The kept bits of a normal result still carry the implicit one: hence the - 1.
  const W base = _mm512_slli_epi16(
      _mm512_sub_epi16(_mm512_max_epi16(field, _mm512_set1_epi16(1)), _mm512_set1_epi16(1)), m);
  return _mm512_min_epi16(_mm512_add_epi16(base, rounded), _mm512_set1_epi16(S.max_finite()));
}

/// The codes of two vectors, and whether one of them is subnormal: then they are not these.
struct NormalCodes {
  W bytes;
  bool some_subnormal;
};

/// A normal code is the magnitude less the shift, rounded; what lies below half of the least
/// subnormal is 0 the same way.  A product with 2^-drop rounds halves up, hence one less where the
/// last bit kept is even.
template <FormatSpec S>
HWY_INLINE NormalCodes encode_normals(W word0, W word1, W shift0, W shift1) {
  constexpr int m = S.mantissa_bits;
  constexpr int drop = 7 - m;
  const auto moved = [](W word, W shift) {
    return _mm512_sub_epi16(_mm512_and_si512(word, _mm512_set1_epi16(0x7FFF)), shift);
  };
  const auto rounded = [](W word, W at) {
    const __mmask32 even = _mm512_testn_epi16_mask(word, _mm512_set1_epi16(1 << drop));
    const W down = _mm512_mask_add_epi16(at, even, at, _mm512_set1_epi16(-1));
    return _mm512_mulhrs_epi16(down, _mm512_set1_epi16(1 << (15 - drop)));
  };
  const W at0 = moved(word0, shift0);
  const W at1 = moved(word1, shift1);
  const W counted = _mm512_packus_epi16(rounded(word0, at0), rounded(word1, at1));
  const W bytes = _mm512_subs_epu8(counted, _mm512_set1_epi8(m << m));
  const W least = _mm512_min_epu16(at0, at1);
  return {_mm512_min_epu8(bytes, _mm512_set1_epi8(S.max_finite())),
          _mm512_cmplt_epu16_mask(least, _mm512_set1_epi16((m + 1) << 7)) != 0};
}

/// 64 codes of two vectors, the signs put back (fnuz: not on zeros).
template <FormatSpec S>
HWY_INLINE void store_codes(std::uint8_t* to, W word0, W word1, W shift0, W shift1, Stores stores) {
  const NormalCodes normal = encode_normals<S>(word0, word1, shift0, shift1);
  W code = normal.bytes;
  if (normal.some_subnormal) [[unlikely]] {
    code = _mm512_packus_epi16(encode_halves<S>(word0, shift0), encode_halves<S>(word1, shift1));
  }
  // Signed saturation keeps the sign bit of a word in its byte.
  W signs = _mm512_packs_epi16(word0, word1);
  if constexpr (S.special == Special::nan_minus_0) {
    signs = _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(code, code), signs);
  }
  code = _mm512_ternarylogic_epi32(code, signs, _mm512_set1_epi8(-0x80), 0xF8);  // a | (b & c)
  const W order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  store_line(to, _mm512_permutexvar_epi64(order, code), stores);
}

/// Scale bytes of 32 blocks or columns with these magnitudes, their shifts, and which of them
/// need the float lanes.
template <FormatSpec S>
struct HalfScales {
  __m256i bytes;
  W shifts;
  __mmask32 special;
};

template <FormatSpec S>
HalfScales<S> half_scales(W amax, const MxRule& rule) {
  const W field = _mm512_srli_epi16(_mm512_add_epi16(amax, _mm512_set1_epi16(rule.up)), 7);
  const W code = _mm512_max_epi16(_mm512_sub_epi16(field, _mm512_set1_epi16(rule.less)),
                                  _mm512_setzero_si512());
  const __mmask32 zero = _mm512_testn_epi16_mask(amax, amax);
  const __mmask32 tiny = _mm512_cmplt_epi16_mask(code, _mm512_set1_epi16(kLeastScale<S>));
  const __mmask32 beyond = _mm512_cmpgt_epi16_mask(amax, _mm512_set1_epi16(kLargestAmax));
  constexpr short from = S.bias + S.mantissa_bits;
  const W shifts = _mm512_slli_epi16(_mm512_sub_epi16(code, _mm512_set1_epi16(from)), 7);
  return {_mm512_cvtepi16_epi8(code),
          _mm512_mask_blend_epi16(zero, shifts, _mm512_set1_epi16(kZeroShift)),
          (tiny & ~zero) | beyond};
}

W larger(W a, W b) { return _mm512_max_epu16(a, b); }

/// The largest magnitudes of eight blocks, one after another in each 16 bytes: every step halves
/// the lanes of a block and doubles the blocks of a vector.
W amax_of_eight(const std::uint16_t* x) {
  const auto one = [x](int i) {
    return _mm512_and_si512(_mm512_loadu_si512(x + i * kMxBlock), _mm512_set1_epi16(0x7FFF));
  };
  const auto two = [&](int i) {
    const W a = one(i);
    const W b = one(i + 1);
    return larger(_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b));
  };
  const auto four = [&](int i) {
    const W a = two(i);
    const W b = two(i + 2);
    return larger(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  };
  const W a = four(0);
  const W b = four(4);
  return larger(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/// The same of 32 blocks in order.
W amax_of_32(const std::uint16_t* x) {
  const auto joined = [](W a, W b) {
    return larger(_mm512_shuffle_i64x2(a, b, 0x88), _mm512_shuffle_i64x2(a, b, 0xDD));
  };
  const W first = joined(amax_of_eight(x), amax_of_eight(x + 8 * kMxBlock));
  const W second = joined(amax_of_eight(x + 16 * kMxBlock), amax_of_eight(x + 24 * kMxBlock));
  return joined(first, second);
}

template <FormatSpec S>
void mx_run_bf16(const void* from, Index blocks, Index block, const MxRule& rule,
                 std::uint8_t* codes, std::uint8_t* scales, Stores stores) noexcept {
  constexpr Index group = 32;  // blocks whose scales fill one vector
  const auto* all = static_cast<const std::uint16_t*>(from);
  const Index whole = block == kMxBlock ? blocks / group * group : 0;
  for (Index first = 0; first < whole; first += group) {
    const std::uint16_t* x = all + first * kMxBlock;
    std::uint8_t* to = codes + first * kMxBlock;
    const HalfScales<S> scale = half_scales<S>(amax_of_32(x), rule);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(scales + first), scale.bytes);
    alignas(64) std::uint16_t shifts[group];
    _mm512_store_si512(shifts, scale.shifts);
    for (Index b = 0; b < group; b += 2) {
      // Four groups ahead: reading is the other half of the work.
      __builtin_prefetch(x + (group * 4 + b) * kMxBlock);
      __builtin_prefetch(x + (group * 4 + b + 1) * kMxBlock);
      const W word0 = _mm512_loadu_si512(x + b * kMxBlock);
      const W word1 = _mm512_loadu_si512(x + (b + 1) * kMxBlock);
      store_codes<S>(to + b * kMxBlock, word0, word1,
                     _mm512_set1_epi16(static_cast<short>(shifts[b])),
                     _mm512_set1_epi16(static_cast<short>(shifts[b + 1])), stores);
    }
    for (std::uint32_t rest = scale.special; rest != 0; rest &= rest - 1) {
      const auto b = static_cast<Index>(__builtin_ctz(rest));
      in_float_lanes<S>().mx_run(x + b * kMxBlock, 1, kMxBlock, rule, to + b * kMxBlock,
                                 scales + first + b, Stores::cached);
    }
  }
  in_float_lanes<S>().mx_run(all + whole * block, blocks - whole, block, rule,
                             codes + whole * block, scales + whole, Stores::cached);
}

template <FormatSpec S>
void mx_panel_bf16(const void* from, Index x_stride, Index rows, Index columns, const MxRule& rule,
                   std::uint8_t* codes, Index codes_stride, std::uint8_t* scales, Stores stores,
                   const Beside& beside) noexcept {
  constexpr Index strip = 64;  // columns of one store
  const auto* x = static_cast<const std::uint16_t*>(from);
  const auto* after = static_cast<const std::uint16_t*>(beside.next);
  const Index whole = columns / strip * strip;
  const W positive = _mm512_set1_epi16(0x7FFF);
  for (Index k = 0; k < whole; k += strip, x += strip, after += strip) {
    W top0 = _mm512_setzero_si512();
    W top1 = top0;
    for (Index r = 0; r < rows; ++r) {
      const std::uint16_t* row = x + r * x_stride;
      top0 = larger(top0, _mm512_and_si512(_mm512_loadu_si512(row), positive));
      top1 = larger(top1, _mm512_and_si512(_mm512_loadu_si512(row + 32), positive));
    }
    const HalfScales<S> scale0 = half_scales<S>(top0, rule);
    const HalfScales<S> scale1 = half_scales<S>(top1, rule);
    _mm512_storeu_si512(scales + k,
                        _mm512_inserti64x4(_mm512_castsi256_si512(scale0.bytes), scale1.bytes, 1));
    for (Index r = 0; r < rows; ++r) {
      // Into the second level: the first one waits for few lines at a time.
      _mm_prefetch(after + r * x_stride, _MM_HINT_T1);
      _mm_prefetch(after + r * x_stride + 32, _MM_HINT_T1);
      const std::uint16_t* row = x + r * x_stride;
      store_codes<S>(codes + r * codes_stride + k, _mm512_loadu_si512(row),
                     _mm512_loadu_si512(row + 32), scale0.shifts, scale1.shifts, stores);
      send_line(beside, r);
    }
    if ((scale0.special | scale1.special) == 0) continue;
    in_float_lanes<S>().mx_panel(x, x_stride, rows, strip, rule, codes + k, codes_stride,
                                 scales + k, Stores::cached, {x});
  }
  if (whole < columns) {
    in_float_lanes<S>().mx_panel(x, x_stride, rows, columns - whole, rule, codes + whole,
                                 codes_stride, scales + whole, Stores::cached, {x});
  }
}

}  // namespace

const MxKernels kMxBF16[4] = {{mx_run_bf16<kE4M3>, mx_panel_bf16<kE4M3>},
                              {mx_run_bf16<kE4M3Fnuz>, mx_panel_bf16<kE4M3Fnuz>},
                              {mx_run_bf16<kE5M2>, mx_panel_bf16<kE5M2>},
                              {mx_run_bf16<kE5M2Fnuz>, mx_panel_bf16<kE5M2Fnuz>}};

}  // namespace mxo::cpu::N_AVX3
HWY_AFTER_NAMESPACE();

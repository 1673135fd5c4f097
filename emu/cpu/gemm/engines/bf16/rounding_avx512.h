// Sums of blocks in f32, added by AVX-512 to the ends of an interval, a row at a time.
#pragma once

#include "emu/cpu/gemm/engines/bf16/bf16_tiles.h"
#include "emu/cpu/gemm/tiles/rounded_row_avx512.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::cpu {

/// Both ends of an interval, rounded outward.
struct Between {
  __m512 low;
  __m512 high;

  [[gnu::always_inline]] inline void add(__m512 x) { widen(x, x); }
  [[gnu::always_inline]] inline void extend(__m512 by) {
    widen(_mm512_sub_ps(_mm512_setzero_ps(), by), by);
  }

 private:
  [[gnu::always_inline]] inline void widen(__m512 to_low, __m512 to_high) {
    low = _mm512_add_round_ps(low, to_low, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    high = _mm512_add_round_ps(high, to_high, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
  }
};

/// Rows of a pair of panels.
class BlockRows {
 public:
  struct Row {
    Between left;
    Between right;
  };

  BlockRows(int blocks, const BlockSums* sums, const KVectorErrors& a, const KVectorErrors& b)
      : blocks_(blocks), sums_(sums), a_(a), scale_(0, a, b) {
    for (int half = 0; half < 2; ++half) {
      places_[half] = _mm512_load_ps(b.lower + half * kTileLanes);
      losses_[half] = _mm512_load_ps(b.residuals + half * kTileLanes);
    }
  }

  [[gnu::always_inline]] inline Row row(int m) const { return {half_of(m, 0), half_of(m, 1)}; }

  /// The ends of row m as bf16, ties to even.  Rounding is monotonic: if both ends round to the
  /// same bf16, so does everything between.
  [[gnu::always_inline]] inline void put(int m, __m512i low, __m512i high,
                                         RowPutter& putter) const {
    const std::uint32_t failed = _mm512_mask_cmpneq_epi16_mask(scale_.wanted(m), low, high);
    putter.put(m, scale_.scaled(m, low), failed);
  }

 private:
  [[gnu::always_inline]] inline Between half_of(int m, int half) const {
    const __m512 first = _mm512_load_ps(sums_[0].halves[half][m]);
    Between sum{first, first};
    for (int i = 1; i < blocks_; ++i) sum.add(_mm512_load_ps(sums_[i].halves[half][m]));
    const __m512 place = _mm512_set1_ps(a_.lower[m]);
    sum.extend(_mm512_fmadd_ps(_mm512_set1_ps(a_.residuals[m]), places_[half],
                               _mm512_mul_ps(place, losses_[half])));
    return sum;
  }

  int blocks_;
  const BlockSums* sums_;
  const KVectorErrors& a_;
  RowScale scale_;
  __m512 places_[2];
  __m512 losses_[2];
};

}  // namespace mxo::cpu
MXO_TARGET_END

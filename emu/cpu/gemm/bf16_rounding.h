// Sums of blocks in f32, added and rounded to bf16; included in a target region, for whose
// processors it is.
#pragma once

namespace mxo::cpu {
namespace {

/// Both ends of an interval, each rounded away from the other.
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

/// Columns [16 * half, 16 * half + 16) of a pair.
template <int half>
struct BlockColumns {
  int blocks;
  const BlockSums* sums;
  __m512 places;
  __m512 losses;

  BlockColumns(int count, const BlockSums* of, const LineErrors& b)
      : blocks(count),
        sums(of),
        places(_mm512_load_ps(b.lower + half * kTileLanes)),
        losses(_mm512_load_ps(b.rests + half * kTileLanes)) {}

  [[gnu::always_inline]] inline Between row(int m, __m512 place, __m512 loss) const {
    const __m512 first = _mm512_load_ps(sums[0].halves[half][m]);
    Between sum{first, first};
    for (int i = 1; i < blocks; ++i) sum.add(_mm512_load_ps(sums[i].halves[half][m]));
    sum.extend(_mm512_fmadd_ps(loss, places, _mm512_mul_ps(place, losses)));
    return sum;
  }
};

/// to_words(left, right) is 32 bf16, ties to even.  That is monotonic: if both ends of an interval
/// round to one bf16, so does all between.
template <typename ToWords>
[[gnu::always_inline]] inline void round_blocks(int first, int past, int blocks,
                                                const BlockSums* sums, const LineErrors& a,
                                                const LineErrors& b, RoundedRows& to,
                                                const ToWords& to_words) {
  const RowScale scale(0, a, b);
  const BlockColumns<0> left(blocks, sums, b);
  const BlockColumns<1> right(blocks, sums, b);
  RowPutter putter(to);
  for (int m = first; m < past; ++m) {
    const __m512 place = _mm512_set1_ps(a.lower[m]);
    const __m512 loss = _mm512_set1_ps(a.rests[m]);
    const Between of_left = left.row(m, place, loss);
    const Between of_right = right.row(m, place, loss);
    const __m512i words = to_words(of_left.low, of_right.low);
    const __m512i others = to_words(of_left.high, of_right.high);
    const std::uint32_t open = _mm512_mask_cmpneq_epi16_mask(scale.wanted(m), words, others);
    putter.put(m, scale.scaled(m, words), open);
  }
  to.rows_left = putter.rows_left();
}

}  // namespace
}  // namespace mxo::cpu

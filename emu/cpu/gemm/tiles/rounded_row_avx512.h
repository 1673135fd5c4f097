// Shared by the AVX-512 row-rounding loops.  Everything is inlined into the loop over rows: a call
// would reload its constants for each row.
#pragma once

#include <immintrin.h>

#include "emu/cpu/gemm/tiles/tile.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::cpu {

[[gnu::always_inline]] inline __m512 converted(const std::int32_t* sums) {
  return _mm512_cvtepi32_ps(_mm512_load_si512(sums));
}

/// The ends of an interval, rounded: the upper 16 bits of each are a bf16.  Whatever lies strictly
/// between two numbers that round to one bf16, ties up, rounds to it, ties to even.
struct Ends {
  __m512i low;
  __m512i high;
};
[[gnu::always_inline]] inline Ends ends_of(__m512 c, __m512 error) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  return {_mm512_add_epi32(_mm512_castps_si512(_mm512_sub_ps(c, error)), half),
          _mm512_add_epi32(_mm512_castps_si512(_mm512_add_ps(c, error)), half)};
}

/// The upper halves of 32 words.
[[gnu::always_inline]] inline __m512i upper_halves(__m512i left, __m512i right) {
  alignas(64) static constexpr std::uint16_t kOdd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                         23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                         45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  return _mm512_permutex2var_epi16(left, _mm512_load_si512(kOdd), right);
}

/// 32 bf16 and a bit for each that failed the rounding test.
struct RoundedRow {
  __m512i words;
  std::uint32_t failed;
};
[[gnu::always_inline]] inline RoundedRow row_of(const Ends& left, const Ends& right,
                                                std::uint32_t wanted) {
  const __m512i words = upper_halves(left.low, right.low);
  return {words, _mm512_mask_cmpneq_epi16_mask(wanted, words, upper_halves(left.high, right.high))};
}

/// Scales one row of results by 2^exponent of both K-vectors; results of a zero K-vector are
/// +0.
struct RowScale {
  __m512i exponents;
  const KVectorErrors& a;
  const KVectorErrors& b;

  RowScale(int exponent, const KVectorErrors& of_a, const KVectorErrors& of_b)
      : exponents(_mm512_add_epi16(_mm512_load_si512(of_b.exponent),
                                   _mm512_set1_epi16(static_cast<short>(exponent << 7)))),
        a(of_a),
        b(of_b) {}

  [[gnu::always_inline]] inline std::uint32_t wanted(int m) const {
    return b.nonzero & (0u - (a.nonzero >> m & 1u));
  }
  [[gnu::always_inline]] inline __m512i scaled(int m, __m512i words) const {
    const __m512i by =
        _mm512_add_epi16(exponents, _mm512_set1_epi16(static_cast<short>(a.exponent[m])));
    return _mm512_maskz_add_epi16(wanted(m) & _mm512_test_epi16_mask(words, words), words, by);
  }
};

/// Stores rounded rows where RoundedRows says.
class RowPutter {
 public:
  explicit RowPutter(RoundedRows& to)
      : to_(to), out_(to.out), step_(to.step), streams_(to.streams) {}
  [[gnu::always_inline]] inline void put(int m, __m512i words, std::uint32_t failed) {
    if (failed != 0 || out_ == nullptr) {
      _mm512_store_si512(to_.left[m], words);
      to_.failed[m] = failed;
      rows_left_ |= 1u << m;
    } else if (streams_) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(out_ + m * step_), words);
    } else {
      _mm512_storeu_si512(out_ + m * step_, words);
    }
  }
  std::uint32_t rows_left() const { return rows_left_; }

 private:
  RoundedRows& to_;
  std::uint16_t* const out_;
  const std::int64_t step_;
  const bool streams_;
  std::uint32_t rows_left_ = 0;
};

/// Rows [first, end): round(row, wanted) is a RoundedRow.
template <typename Round>
[[gnu::always_inline]] inline void round_rows(int first, int end, const RowScale& scale,
                                              const Round& round, RoundedRows& to) {
  RowPutter putter(to);
  for (int m = first; m < end; ++m) {
    const RoundedRow row = round(m, scale.wanted(m));
    putter.put(m, scale.scaled(m, row.words), row.failed);
  }
  to.rows_left = putter.rows_left();
}

}  // namespace mxo::cpu
MXO_TARGET_END

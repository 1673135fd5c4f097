// The integer loop for AVX-512 with VNNI: multiply, add the pair, accumulate in one instruction.
#include <immintrin.h>

#include "emu/cpu/gemm/kernels/kernels.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
namespace mxo::cpu {
namespace {

constexpr int kWidth = 32;

// 2 N sums, two vectors of B and one broadcast: 27 of the 32 registers at N = 12.
template <int N>
void dot_int16_of(int pairs, const std::int32_t* a, const std::int32_t* b, std::int32_t* sums) {
  __m512i sum[N][2];
#pragma GCC unroll 16
  for (int m = 0; m < N; ++m) sum[m][0] = sum[m][1] = _mm512_setzero_si512();
  for (int p = 0; p < pairs; ++p, a += N, b += kWidth) {
    const __m512i b0 = _mm512_loadu_si512(b);
    const __m512i b1 = _mm512_loadu_si512(b + 16);
#pragma GCC unroll 16
    for (int m = 0; m < N; ++m) {
      const __m512i am = _mm512_set1_epi32(a[m]);
      sum[m][0] = _mm512_dpwssd_epi32(sum[m][0], am, b0);
      sum[m][1] = _mm512_dpwssd_epi32(sum[m][1], am, b1);
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < N; ++m) {
    _mm512_storeu_si512(sums + m * kWidth, sum[m][0]);
    _mm512_storeu_si512(sums + m * kWidth + 16, sum[m][1]);
  }
}

void dot_int16(int width, int block, int blocks, const std::int32_t* a, const std::int32_t* b,
               std::int32_t* sums) noexcept {
  const int pairs = kPairs * blocks;
  a += block * kPairs * width;
  b += block * kPairs * kWidth;
  switch (width) {
    case 1: return dot_int16_of<1>(pairs, a, b, sums);
    case 2: return dot_int16_of<2>(pairs, a, b, sums);
    case 3: return dot_int16_of<3>(pairs, a, b, sums);
    case 4: return dot_int16_of<4>(pairs, a, b, sums);
    case 5: return dot_int16_of<5>(pairs, a, b, sums);
    case 6: return dot_int16_of<6>(pairs, a, b, sums);
    case 7: return dot_int16_of<7>(pairs, a, b, sums);
    case 8: return dot_int16_of<8>(pairs, a, b, sums);
    case 9: return dot_int16_of<9>(pairs, a, b, sums);
    case 10: return dot_int16_of<10>(pairs, a, b, sums);
    case 11: return dot_int16_of<11>(pairs, a, b, sums);
    default: return dot_int16_of<12>(pairs, a, b, sums);
  }
}

}  // namespace

const Kernels& avx512_vnni_kernels() {
  static const Kernels kernels = [] {
    Kernels k = avx512_kernels();
    k.isa = Isa::avx512_vnni;
    k.dot_int16 = dot_int16;
    return k;
  }();
  return kernels;
}

}  // namespace mxo::cpu
MXO_TARGET_END

// The integer loop for AVX-512 with VNNI: multiply, add pairs and accumulate in one instruction.
#include <immintrin.h>

#include "emu/cpu/gemm/kernels/kernels.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
namespace mxo::cpu {
namespace {

constexpr int kLanes = 16;
constexpr int kNr = 2 * kLanes;

template <int N>
void dot(int steps, const std::int32_t* a, const std::int32_t* b, std::int32_t* sums) {
  __m512i sum[N][2];
#pragma GCC unroll 12
  for (int m = 0; m < N; ++m) sum[m][0] = sum[m][1] = _mm512_setzero_si512();
  for (int k = 0; k < steps; ++k, a += N, b += kNr) {
    const __m512i b0 = _mm512_loadu_si512(b);
    const __m512i b1 = _mm512_loadu_si512(b + kLanes);
#pragma GCC unroll 12
    for (int m = 0; m < N; ++m) {
      const __m512i am = _mm512_set1_epi32(a[m]);
      sum[m][0] = _mm512_dpwssd_epi32(sum[m][0], am, b0);
      sum[m][1] = _mm512_dpwssd_epi32(sum[m][1], am, b1);
    }
  }
#pragma GCC unroll 12
  for (int m = 0; m < N; ++m) {
    _mm512_storeu_si512(sums + m * kNr, sum[m][0]);
    _mm512_storeu_si512(sums + m * kNr + kLanes, sum[m][1]);
  }
}

template <int N>
void dot_width(int width, int steps, const std::int32_t* a, const std::int32_t* b,
               std::int32_t* sums) {
  if constexpr (N > 1) {
    if (width < N) return dot_width<N - 1>(width, steps, a, b, sums);
  }
  dot<N>(steps, a, b, sums);
}

}  // namespace

void avx512_vnni_dot_int16(int width, int block, int blocks, const std::int32_t* a,
                           const std::int32_t* b, std::int32_t* sums) noexcept {
  const int first = block * kPairs;
  dot_width<12>(width, kPairs * blocks, a + first * width, b + first * kNr, sums);
}

}  // namespace mxo::cpu
MXO_TARGET_END

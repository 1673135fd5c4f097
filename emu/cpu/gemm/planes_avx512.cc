// Byte planes by AVX-512, and a table that does with them what tiles would.
#include <immintrin.h>

#include "emu/cpu/gemm/avx512.h"
#include "emu/cpu/gemm/planes.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,fma")
namespace mxo::cpu {
namespace {

// 64 int16 to 64 high and 64 low bytes.
void split_64(const std::uint32_t* pairs, std::int8_t* high, std::int8_t* low) {
  for (int i = 0; i < 2; ++i) {
    const __m512i x = _mm512_loadu_si512(pairs + 16 * i);
    const __m256i h = _mm512_cvtepi16_epi8(_mm512_srli_epi16(x, 8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(high + 32 * i), h);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(low + 32 * i), _mm512_cvtepi16_epi8(x));
  }
}

// Byte `at % 4` of 16 dwords of each plane, joined to integers.
__m512i integers(__m512i high, __m512i low, int at) {
  const __m128i up = _mm_cvtsi32_si128(24 - 8 * (at % 4));
  const __m128i down = _mm_cvtsi32_si128(8 * (at % 4));
  const __m512i h = _mm512_srai_epi32(_mm512_sll_epi32(high, up), 24);
  const __m512i l = _mm512_and_si512(_mm512_srl_epi32(low, down), _mm512_set1_epi32(0xFF));
  return _mm512_add_epi32(_mm512_slli_epi32(h, 8), l);
}

void add_16(__m512d value, __m512i words, const double* scale, double* y) {
  for (int i = 0; i < 2; ++i) {
    const __m256i part =
        i == 0 ? _mm512_castsi512_si256(words) : _mm512_extracti64x4_epi64(words, 1);
    const __m512d x = _mm512_mul_pd(_mm512_cvtepi32_pd(part), _mm512_loadu_pd(scale + 8 * i));
    _mm512_storeu_pd(y + 8 * i, _mm512_fmadd_pd(value, x, _mm512_loadu_pd(y + 8 * i)));
  }
}

}  // namespace

void place_planes_a(int lanes, int, const std::uint32_t* lines, std::int32_t* run) noexcept {
  auto* bytes = reinterpret_cast<std::int8_t*>(run);
  for (int lane = 0; lane < lanes; ++lane) {
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      split_64(lines + lane * kRun + chunk * kChunk / 2, bytes + tile_of_a(0, chunk) + lane * 64,
               bytes + tile_of_a(1, chunk) + lane * 64);
    }
  }
}

void place_planes_b(int lanes, int, const std::uint32_t* lines, std::int32_t* run) noexcept {
  auto* bytes = reinterpret_cast<std::int8_t*>(run);
  alignas(64) std::uint32_t plane[2][kTileLanes][kRun / 4];
  for (int half = 0; half < lanes / kTileLanes; ++half) {
    for (int lane = 0; lane < kTileLanes; ++lane) {
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        split_64(lines + (half * kTileLanes + lane) * kRun + chunk * kChunk / 2,
                 reinterpret_cast<std::int8_t*>(plane[0][lane] + chunk * kChunk / 4),
                 reinterpret_cast<std::int8_t*>(plane[1][lane] + chunk * kChunk / 4));
      }
    }
    for (int p = 0; p < 2; ++p) {
      avx512_interleave(kTileLanes, kRun / 4, plane[p][0], kRun / 4,
                        reinterpret_cast<std::uint32_t*>(bytes + tile_of_b(half, p, 0)),
                        kTileLanes);
    }
  }
}

void planes_add_rest_of_a(double value, const std::int32_t* b, int at, const double* scale_b,
                          double* c) noexcept {
  const auto* bytes = reinterpret_cast<const std::int8_t*>(b);
  for (int half = 0; half < 2; ++half) {
    const int row = at / 4 * 64;  // chunks of one plane follow each other
    const __m512i words = integers(_mm512_loadu_si512(bytes + tile_of_b(half, 0, 0) + row),
                                   _mm512_loadu_si512(bytes + tile_of_b(half, 1, 0) + row), at);
    add_16(_mm512_set1_pd(value), words, scale_b + 16 * half, c + 16 * half);
  }
}

void planes_add_rest_of_b(int, double value, const std::int32_t* a, int at, const double* scale_a,
                          double* d) noexcept {
  const auto* bytes = reinterpret_cast<const std::int8_t*>(a);
  const __m512i lanes =
      _mm512_slli_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), 6);
  const int place = at % kChunk / 4 * 4;
  const __m512i high = _mm512_i32gather_epi32(lanes, bytes + tile_of_a(0, at / kChunk) + place, 1);
  const __m512i low = _mm512_i32gather_epi32(lanes, bytes + tile_of_a(1, at / kChunk) + place, 1);
  add_16(_mm512_set1_pd(value), integers(high, low, at), scale_a, d);
}

void join_planes(const PlaneSums& planes, int half, std::int32_t* sums) noexcept {
  for (int m = 0; m < kTileLanes; ++m) {
    const __m512i high = _mm512_slli_epi32(_mm512_loadu_si512(planes[0][m]), 16);
    const __m512i mixed = _mm512_slli_epi32(_mm512_loadu_si512(planes[1][m]), 8);
    const __m512i low = _mm512_loadu_si512(planes[2][m]);
    _mm512_storeu_si512(sums + m * kMaxLanesB + half * kTileLanes,
                        _mm512_add_epi32(_mm512_add_epi32(high, mixed), low));
  }
}

void planes_of_block(const std::int8_t* a, int block,
                     std::int8_t (&tiles)[2][kTileBytes]) noexcept {
  const int chunk = block * kBlock / kChunk;
  const __mmask64 keep = block % 2 == 0 ? 0xFFFFFFFFull : 0xFFFFFFFFull << 32;
  for (int plane = 0; plane < 2; ++plane) {
    for (int i = 0; i < kTileBytes; i += 64) {
      _mm512_storeu_si512(tiles[plane] + i,
                          _mm512_maskz_loadu_epi8(keep, a + tile_of_a(plane, chunk) + i));
    }
  }
}

namespace {

// What four tile instructions add: 16 x 64 bytes by 64 x 16, signed or not.
void add_tile_products(const std::int8_t* a_high, const std::int8_t* a_low,
                       const std::int8_t* b_high, const std::int8_t* b_low, PlaneSums& sums) {
  for (int m = 0; m < kTileLanes; ++m) {
    for (int n = 0; n < kTileLanes; ++n) {
      for (int c = 0; c < kChunk; ++c) {
        const int at_a = m * kChunk + c;
        const int at_b = c / 4 * kTileLanes * 4 + n * 4 + c % 4;
        const int al = static_cast<std::uint8_t>(a_low[at_a]);
        const int bl = static_cast<std::uint8_t>(b_low[at_b]);
        sums[0][m][n] += a_high[at_a] * b_high[at_b];
        sums[1][m][n] += a_high[at_a] * bl + al * b_high[at_b];
        sums[2][m][n] += al * bl;
      }
    }
  }
}

void dot_planes(int, int block, int blocks, const std::int32_t* run_a, const std::int32_t* run_b,
                std::int32_t* sums) noexcept {
  const auto* a = reinterpret_cast<const std::int8_t*>(run_a);
  const auto* b = reinterpret_cast<const std::int8_t*>(run_b);
  for (int half = 0; half < 2; ++half) {
    PlaneSums planes = {};
    if (block > 0 || blocks == 1) {
      std::int8_t tiles[2][kTileBytes];
      planes_of_block(a, block, tiles);
      const int chunk = block / 2;
      add_tile_products(tiles[0], tiles[1], b + tile_of_b(half, 0, chunk),
                        b + tile_of_b(half, 1, chunk), planes);
    } else {
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        add_tile_products(a + tile_of_a(0, chunk), a + tile_of_a(1, chunk),
                          b + tile_of_b(half, 0, chunk), b + tile_of_b(half, 1, chunk), planes);
      }
    }
    join_planes(planes, half, sums);
  }
}

}  // namespace

const Kernels& amx_layout_kernels() {
  static const Kernels kernels = [] {
    Kernels k = avx512_kernels();
    k.lanes_int16 = kTileLanes;
    k.full_int16 = true;
    k.place_a = place_planes_a;
    k.place_b = place_planes_b;
    k.dot_int16 = dot_planes;
    k.add_rest_of_a = planes_add_rest_of_a;
    k.add_rest_of_b = planes_add_rest_of_b;
    return k;
  }();
  return kernels;
}

}  // namespace mxo::cpu
MXO_TARGET_END

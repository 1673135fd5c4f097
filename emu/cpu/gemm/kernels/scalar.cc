// The inner loops in plain C++.
#include <cmath>

#include "emu/cpu/gemm/kernels/portable.h"

namespace mxo::cpu {
namespace {

constexpr int kWidth = 16;

std::int16_t half_of(std::int32_t pair, int half) {
  return static_cast<std::int16_t>(static_cast<std::uint32_t>(pair) >> (16 * half) & 0xFFFFu);
}

void place_pairs(int lanes, int blocks, const std::uint32_t* k_vectors,
                 std::int32_t* run) noexcept {
  portable_interleave(lanes, kPairs * blocks, k_vectors, kRun,
                      reinterpret_cast<std::uint32_t*>(run), lanes);
}

void dot_int16(int width, int block, int blocks, const std::int32_t* a, const std::int32_t* b,
               std::int32_t* sums) noexcept {
  const int pairs = kPairs * blocks;
  a += block * kPairs * width;
  b += block * kPairs * kWidth;
  for (int m = 0; m < width; ++m) {
    for (int n = 0; n < kWidth; ++n) {
      std::int32_t sum = 0;
      for (int p = 0; p < pairs; ++p) {
        const std::int32_t x = a[p * width + m];
        const std::int32_t y = b[p * kWidth + n];
        sum += half_of(x, 0) * half_of(y, 0) + half_of(x, 1) * half_of(y, 1);
      }
      sums[m * kWidth + n] = sum;
    }
  }
}

void add_scaled(int width, const std::int32_t* sums, const double* scale_a, const double* scale_b,
                double* c) noexcept {
  for (int m = 0; m < width; ++m) {
    for (int n = 0; n < kWidth; ++n) {
      c[m * kWidth + n] += sums[m * kWidth + n] * scale_b[n] * scale_a[m];
    }
  }
}

void add_residual_of_a(double value, const std::int32_t* b, int at, const double* scale_b,
                       double* c) {
  b += at / 2 * kWidth;
  const int half = at % 2;
  for (int n = 0; n < kWidth; ++n) c[n] += value * (half_of(b[n], half) * scale_b[n]);
}

void add_residual_of_b(int width, double value, const std::int32_t* a, int at,
                       const double* scale_a, double* d) {
  a += at / 2 * width;
  const int half = at % 2;
  for (int m = 0; m < width; ++m) d[m] += value * (half_of(a[m], half) * scale_a[m]);
}

void add_residuals_of_a(const Residual* residuals, int count, const std::int32_t* b,
                        const double* scale_b, double* c) noexcept {
  for (int i = 0; i < count; ++i) {
    const Residual& residual = residuals[i];
    const auto at = static_cast<int>(residual.at);
    add_residual_of_a(residual.value, b, at, scale_b + at / kBlock * kMaxNr,
                      c + residual.lane * kWidth);
  }
}

void add_residuals_of_b(int width, const Residual* residuals, int count, const std::int32_t* a,
                        const double* scale_a, double* d) noexcept {
  for (int i = 0; i < count; ++i) {
    const Residual& residual = residuals[i];
    const auto at = static_cast<int>(residual.at);
    add_residual_of_b(width, residual.value, a, at, scale_a + at / kBlock * kMaxMr,
                      d + residual.lane * kMaxMr);
  }
}

void add_transposed(int width, const double* d, double* c) noexcept {
  for (int m = 0; m < width; ++m) {
    for (int n = 0; n < kWidth; ++n) c[m * kWidth + n] += d[n * kMaxMr + m];
  }
}

// A product of two operands has at most 56 bits, so that only the fused step is exact.
void dot_f64(int width, int k_extent, const double* a, const double* b, double* c) noexcept {
  for (int m = 0; m < width; ++m) {
    for (int n = 0; n < kWidth / 2; ++n) {
      double sum = 0.0;
      for (int k = 0; k < k_extent; ++k) {
        sum = std::fma(a[k * width + m], b[k * (kWidth / 2) + n], sum);
      }
      c[m * kWidth + n] += sum;
    }
  }
}

void chain_f32(int width, int k_extent, const float* a, const float* b, float* c) noexcept {
  for (int m = 0; m < width; ++m) {
    for (int n = 0; n < kWidth; ++n) {
      float sum = c[m * kWidth + n];
      for (int k = 0; k < k_extent; ++k) sum = std::fma(a[k * width + m], b[k * kWidth + n], sum);
      c[m * kWidth + n] = sum;
    }
  }
}

}  // namespace

const Kernels& scalar_kernels() {
  static const Kernels kernels{Isa::scalar,
                               8,
                               8,
                               kWidth,
                               nullptr,
                               nullptr,
                               nullptr,
                               place_pairs,
                               dot_int16,
                               add_scaled,
                               add_residuals_of_a,
                               add_residuals_of_b,
                               add_transposed,
                               dot_f64,
                               chain_f32,
                               portable_encode_int16,
                               portable_interleave,
                               portable_widen,
                               portable_round,
                               portable_round_exact};
  return kernels;
}

}  // namespace mxo::cpu

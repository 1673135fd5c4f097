// Sums of slices recombined in 64 bits, and the residuals that the sums in f32 left out.
#include "emu/cpu/gemm/engines/three_slices/pair.h"

namespace mxo::cpu {
namespace {

/// The integer whose slices lie kTileBytes apart from `slice` on.
double recombined(const std::int8_t* slice) {
  return 65536 * slice[2 * kTileBytes] + 256 * slice[kTileBytes] + slice[0];
}

}  // namespace

double ThreeSlicePair::integer_of_a(int m, std::uint32_t at) const {
  const std::int8_t* chunk =
      static_cast<const std::int8_t*>(a_.data) + at / kChunk * kThreeSliceChunkBytes;
  return recombined(chunk + m * kChunk + slice_place(static_cast<int>(at % kChunk)));
}

double ThreeSlicePair::integer_of_b(int n, std::uint32_t at) const {
  const std::int8_t* chunk =
      static_cast<const std::int8_t*>(b_.data) +
      (n / kTileLanes * k_block_.runs() * kChunks + at / kChunk) * kThreeSliceChunkBytes;
  const int place = slice_place(static_cast<int>(at % kChunk));
  return recombined(chunk + place / 4 * kTileLanes * 4 + n % kTileLanes * 4 + place % 4);
}

double ThreeSlicePair::sum(int m, int n) const {
  const ThreeSliceSums& sums = halves_[n / kTileLanes];
  std::int64_t all = 0;
  for (int i = kSliceSums - 1; i >= 0; --i) all = all * 256 + sums[i][m][n % kTileLanes];
  double x = static_cast<double>(all) * a_.unit[m] * b_.unit[n];
  // Residuals of both K-vectors lie by rising element.
  const Residual* of_a = a_.residuals.data() + a_.residual_begin[m];
  const Residual* end_of_a = a_.residuals.data() + a_.residual_begin[m + 1];
  const Residual* of_b = b_.residuals.data() + b_.residual_begin[n];
  const Residual* end_of_b = b_.residuals.data() + b_.residual_begin[n + 1];
  for (const Residual* residual = of_a; residual != end_of_a; ++residual) {
    x += residual->value * (integer_of_b(n, residual->at) * b_.unit[n]);
  }
  for (; of_b != end_of_b; ++of_b) {
    x += of_b->value * (integer_of_a(m, of_b->at) * a_.unit[m]);
    while (of_a != end_of_a && of_a->at < of_b->at) ++of_a;
    if (of_a != end_of_a && of_a->at == of_b->at) x += of_a->value * of_b->value;
  }
  return x;
}

}  // namespace mxo::cpu

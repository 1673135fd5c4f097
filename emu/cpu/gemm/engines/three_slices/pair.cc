// Sums of digits joined in 64 bits, and the rests that the sums in f32 left out.
#include "emu/cpu/gemm/engines/three_slices/pair.h"

namespace mxo::cpu {
namespace {

/// The integer whose digits lie kTileBytes apart from `digit` on.
double joined(const std::int8_t* digit) {
  return 65536 * digit[2 * kTileBytes] + 256 * digit[kTileBytes] + digit[0];
}

}  // namespace

double DigitPair::integer_of_a(int m, std::uint32_t at) const {
  const std::int8_t* chunk =
      static_cast<const std::int8_t*>(a_.data) + at / kChunk * kDigitChunkBytes;
  return joined(chunk + m * kChunk + digit_place(static_cast<int>(at % kChunk)));
}

double DigitPair::integer_of_b(int n, std::uint32_t at) const {
  const std::int8_t* chunk =
      static_cast<const std::int8_t*>(b_.data) +
      (n / kTileLanes * depth_.runs() * kChunks + at / kChunk) * kDigitChunkBytes;
  const int place = digit_place(static_cast<int>(at % kChunk));
  return joined(chunk + place / 4 * kTileLanes * 4 + n % kTileLanes * 4 + place % 4);
}

double DigitPair::sum(int m, int n) const {
  const DigitSums& sums = halves_[n / kTileLanes];
  std::int64_t all = 0;
  for (int i = kDigitSums - 1; i >= 0; --i) all = all * 256 + sums[i][m][n % kTileLanes];
  double x = static_cast<double>(all) * a_.unit[m] * b_.unit[n];
  // Rests of both lines lie by rising element.
  const Rest* of_a = a_.rests.data() + a_.rest_begin[m];
  const Rest* past_a = a_.rests.data() + a_.rest_begin[m + 1];
  const Rest* of_b = b_.rests.data() + b_.rest_begin[n];
  const Rest* past_b = b_.rests.data() + b_.rest_begin[n + 1];
  for (const Rest* rest = of_a; rest != past_a; ++rest) {
    x += rest->value * (integer_of_b(n, rest->at) * b_.unit[n]);
  }
  for (; of_b != past_b; ++of_b) {
    x += of_b->value * (integer_of_a(m, of_b->at) * a_.unit[m]);
    while (of_a != past_a && of_a->at < of_b->at) ++of_a;
    if (of_a != past_a && of_a->at == of_b->at) x += of_a->value * of_b->value;
  }
  return x;
}

}  // namespace mxo::cpu

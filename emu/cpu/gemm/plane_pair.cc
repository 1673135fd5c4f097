// Sums of planes joined in 64 bits, and the rests that the sums in f32 left out.
#include "emu/cpu/gemm/plane_pair.h"

namespace mxo::cpu {

double PlanePair::value_of_a(int m, Index run, std::uint32_t at) const {
  const auto* tiles = static_cast<const std::int8_t*>(a_.data) + run * kRunBytes;
  const int chunk = static_cast<int>(at) / kChunk;
  const int place = m * kChunk + static_cast<int>(at) % kChunk;
  const int high = tiles[tile_of_a(0, chunk) + place];
  const int low = static_cast<std::uint8_t>(tiles[tile_of_a(1, chunk) + place]);
  return (256 * high + low) * a_.unit[m];
}

double PlanePair::value_of_b(int n, Index run, std::uint32_t at) const {
  const auto* tiles = static_cast<const std::int8_t*>(b_.data) + run * 2 * kRunBytes;
  const int chunk = static_cast<int>(at) / kChunk;
  const int c = static_cast<int>(at) % kChunk;
  const int place = c / 4 * kTileLanes * 4 + n % kTileLanes * 4 + c % 4;
  const int high = tiles[tile_of_b(n / kTileLanes, 0, chunk) + place];
  const int low = static_cast<std::uint8_t>(tiles[tile_of_b(n / kTileLanes, 1, chunk) + place]);
  return (256 * high + low) * b_.unit[n];
}

double PlanePair::sum(int m, int n) const {
  const PlaneSums& sums = halves_[n / kTileLanes];
  const std::int64_t high = sums[0][m][n % kTileLanes];
  const std::int64_t mixed = sums[1][m][n % kTileLanes];
  const std::int64_t low = sums[2][m][n % kTileLanes];
  double x = static_cast<double>((high * 256 + mixed) * 256 + low) * a_.unit[m] * b_.unit[n];
  for (Index run = 0; run < depth_.runs(); ++run) {
    for (std::uint32_t i = a_.rest_begin[run]; i < a_.rest_begin[run + 1]; ++i) {
      const Rest& of_a = a_.rests[i];
      if (static_cast<int>(of_a.lane) == m) x += of_a.value * value_of_b(n, run, of_a.at);
    }
    for (std::uint32_t j = b_.rest_begin[run]; j < b_.rest_begin[run + 1]; ++j) {
      const Rest& of_b = b_.rests[j];
      if (static_cast<int>(of_b.lane) != n) continue;
      x += of_b.value * value_of_a(m, run, of_b.at);
      for (std::uint32_t i = a_.rest_begin[run]; i < a_.rest_begin[run + 1]; ++i) {
        const Rest& of_a = a_.rests[i];
        if (static_cast<int>(of_a.lane) == m && of_a.at == of_b.at) x += of_a.value * of_b.value;
      }
    }
  }
  return x;
}

}  // namespace mxo::cpu

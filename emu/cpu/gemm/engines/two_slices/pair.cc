// Sums of slices recombined in 64 bits, and the residuals that the sums in f32 left out.
#include "emu/cpu/gemm/engines/two_slices/pair.h"

#include <bit>

namespace mxo::cpu {
namespace {

/// A residual and where in K it is.
struct Placed {
  double value;
  int at;
};
Placed residual_of(const MicroPanel& panel, int transpose) {
  const std::uint32_t i = panel.by_lane[transpose];
  int run = 0;
  while (i >= panel.residual_begin[run + 1]) ++run;
  return {panel.residuals[i].value, run * kRun + static_cast<int>(panel.residuals[i].at)};
}

}  // namespace

int TwoSlicePair::integer_of_a(int m, int at) const {
  const auto* tiles = static_cast<const std::int8_t*>(a_.data) + at / kRun * kRunBytes;
  const int chunk = at % kRun / kChunk;
  const int place = m * kChunk + at % kChunk;
  const int high = tiles[tile_of_a(0, chunk) + place];
  const int low = static_cast<std::uint8_t>(tiles[tile_of_a(1, chunk) + place]);
  return 256 * high + low;
}

int TwoSlicePair::integer_of_b(int n, int at) const {
  const auto* tiles = static_cast<const std::int8_t*>(b_.data) + at / kRun * 2 * kRunBytes;
  const int chunk = at % kRun / kChunk;
  const int c = at % kChunk;
  const int place = c / 4 * kTileLanes * 4 + n % kTileLanes * 4 + c % 4;
  const int high = tiles[tile_of_b(n / kTileLanes, 0, chunk) + place];
  const int low = static_cast<std::uint8_t>(tiles[tile_of_b(n / kTileLanes, 1, chunk) + place]);
  return 256 * high + low;
}

void TwoSlicePair::sum_residuals(int m, std::uint32_t columns, float (&row)[kMaxNr]) const {
  for (std::uint32_t left = columns; left != 0; left &= left - 1) {
    const int n = std::countr_zero(left);
    for (int i = a_.lane_begin[m]; i < a_.lane_begin[m + 1]; ++i) {
      const Placed of_a = residual_of(a_, i);
      row[n] += static_cast<float>(of_a.value / a_.unit[m]) *
                static_cast<float>(integer_of_b(n, of_a.at));
    }
    for (int j = b_.lane_begin[n]; j < b_.lane_begin[n + 1]; ++j) {
      const Placed of_b = residual_of(b_, j);
      row[n] += static_cast<float>(of_b.value / b_.unit[n]) *
                static_cast<float>(integer_of_a(m, of_b.at));
    }
  }
}

double TwoSlicePair::sum(int m, int n) const {
  const TwoSliceSums& sums = halves_[n / kTileLanes];
  const std::int64_t high = sums[0][m][n % kTileLanes];
  const std::int64_t mixed = sums[1][m][n % kTileLanes];
  const std::int64_t low = sums[2][m][n % kTileLanes];
  double x = static_cast<double>((high * 256 + mixed) * 256 + low) * a_.unit[m] * b_.unit[n];
  for (int i = a_.lane_begin[m]; i < a_.lane_begin[m + 1]; ++i) {
    const Placed of_a = residual_of(a_, i);
    x += of_a.value * (integer_of_b(n, of_a.at) * b_.unit[n]);
    for (int j = b_.lane_begin[n]; j < b_.lane_begin[n + 1]; ++j) {
      const Placed of_b = residual_of(b_, j);
      if (of_b.at == of_a.at) x += of_a.value * of_b.value;
    }
  }
  for (int j = b_.lane_begin[n]; j < b_.lane_begin[n + 1]; ++j) {
    const Placed of_b = residual_of(b_, j);
    x += of_b.value * (integer_of_a(m, of_b.at) * a_.unit[m]);
  }
  return x;
}

}  // namespace mxo::cpu

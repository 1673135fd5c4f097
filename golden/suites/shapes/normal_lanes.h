// The loop of normal_sums, for a file of each instruction set to compile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "formats/philox.h"
#include "golden/suites/shapes/normal_sums.h"

namespace mxo {

inline constexpr int kNormalLanes = 64;

/// kNormalLanes sums from element `first` on, side by side: the rounds of formats/philox.h.
[[gnu::always_inline]] inline void normal_lanes(std::uint64_t seed, std::uint32_t stream,
                                                std::uint64_t first, std::int32_t* out) {
  std::uint32_t w[4][kNormalLanes];
  for (std::uint64_t l = 0; l < kNormalLanes; ++l) {
    w[0][l] = static_cast<std::uint32_t>(first + l);
    w[1][l] = static_cast<std::uint32_t>((first + l) >> 32);
    w[2][l] = stream;
    w[3][l] = 0;
  }
  auto low = static_cast<std::uint32_t>(seed);
  auto high = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int l = 0; l < kNormalLanes; ++l) {
      const std::uint64_t a = std::uint64_t{0xD2511F53u} * w[0][l];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * w[2][l];
      w[0][l] = static_cast<std::uint32_t>(b >> 32) ^ w[1][l] ^ low;
      w[1][l] = static_cast<std::uint32_t>(b);
      w[2][l] = static_cast<std::uint32_t>(a >> 32) ^ w[3][l] ^ high;
      w[3][l] = static_cast<std::uint32_t>(a);
    }
    low += 0x9E3779B9u;
    high += 0xBB67AE85u;
  }
  for (int l = 0; l < kNormalLanes; ++l) {
    std::uint32_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += (w[i][l] >> 16) + (w[i][l] & 0xFFFFu);
    out[l] = static_cast<std::int32_t>(sum) - kMostNormalSum;
  }
}

[[gnu::always_inline]] inline void normal_sums_by_lanes(std::uint64_t seed, std::uint32_t stream,
                                                        std::uint64_t first,
                                                        std::span<std::int32_t> out) {
  while (out.size() >= kNormalLanes) {
    normal_lanes(seed, stream, first, out.data());
    first += kNormalLanes;
    out = out.subspan(kNormalLanes);
  }
  if (out.empty()) return;
  std::int32_t last[kNormalLanes];
  normal_lanes(seed, stream, first, last);
  std::copy_n(last, out.size(), out.data());
}

}  // namespace mxo

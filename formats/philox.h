// Philox4x32-10: random words as a pure function of a counter, on host and device.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cstdint>

#include "formats/host_device.h"

namespace mxo {

/// Four words; the counter going in, the random words coming out.
struct PhiloxWords {
  std::uint32_t word[4] = {};
  friend constexpr bool operator==(const PhiloxWords&, const PhiloxWords&) = default;
};

/// Ten rounds.  `key` is the seed, low word first.
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, 3.3, table 2.
MXO_HD constexpr PhiloxWords philox(PhiloxWords counter, std::uint64_t key) {
  auto low = static_cast<std::uint32_t>(key);
  auto high = static_cast<std::uint32_t>(key >> 32);
  PhiloxWords x = counter;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * x.word[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * x.word[2];
    x = {{static_cast<std::uint32_t>(b >> 32) ^ x.word[1] ^ low, static_cast<std::uint32_t>(b),
          static_cast<std::uint32_t>(a >> 32) ^ x.word[3] ^ high, static_cast<std::uint32_t>(a)}};
    low += 0x9E3779B9u;   // the golden ratio
    high += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return x;
}

/// The words of element `element` of stream `stream`; `last` is the fourth word of the counter.
MXO_HD constexpr PhiloxWords philox(std::uint64_t element, std::uint32_t stream, std::uint64_t seed,
                                    std::uint32_t last = 0) {
  return philox({{static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(element >> 32),
                  stream, last}},
                seed);
}

}  // namespace mxo

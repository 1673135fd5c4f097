// Elements of inputs::Distribution::normal, many at a time.
// Thread safety: functions of their arguments; any threads at once.
#pragma once

#include <cstdint>
#include <span>

namespace mxo {

inline constexpr std::int32_t kMostNormalSum = 262140;

/// out[i] is 2^16 times element first + i: the sum that inputs::bell scales.
void normal_sums(std::uint64_t seed, std::uint32_t stream, std::uint64_t first,
                 std::span<std::int32_t> out);

}  // namespace mxo

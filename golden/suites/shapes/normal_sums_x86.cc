// Normal elements with AVX-512 where it is, which takes a third of the time.
#include "golden/suites/shapes/normal_lanes.h"

namespace mxo {
namespace {

[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void with_avx512(
    std::uint64_t seed, std::uint32_t stream, std::uint64_t first, std::span<std::int32_t> out) {
  normal_sums_by_lanes(seed, stream, first, out);
}

}  // namespace

void normal_sums(std::uint64_t seed, std::uint32_t stream, std::uint64_t first,
                 std::span<std::int32_t> out) {
  static const bool avx512 =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  avx512 ? with_avx512(seed, stream, first, out) : normal_sums_by_lanes(seed, stream, first, out);
}

}  // namespace mxo

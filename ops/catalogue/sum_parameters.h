// The sum.* keys beside an operator's own.
#pragma once

#include <array>

#include "ops/sums.h"

namespace mxo {

/// `own`, then what sum_from reads.
template <std::size_t N>
constexpr auto with_sum_parameters(const ParameterSpec (&own)[N]) {
  std::array<ParameterSpec, N + std::size(kSumParameters)> all{};
  for (std::size_t i = 0; i < N; ++i) all[i] = own[i];
  for (std::size_t i = 0; i < std::size(kSumParameters); ++i) all[N + i] = kSumParameters[i];
  return all;
}

}  // namespace mxo

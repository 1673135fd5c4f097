// Tensors given by their bits, and numbers without a pattern.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/golden/came.h"

namespace mxo {

using Bits = std::vector<std::uint64_t>;

/// Elements of any type by their bits.
inline Tensor of_bits(Dtype dtype, std::vector<Index> shape, const Bits& bits) {
  Tensor t(dtype, std::move(shape));
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    std::memcpy(t.data() + i * size, &bits[i], size);  // the low bytes
  }
  return t;
}

/// Numbers from 1 to 2 of either sign, no pattern in their bits.
inline std::vector<float> some_numbers(std::size_t n) {
  std::vector<float> values;
  for (std::size_t i = 1; i <= n; ++i) {
    const auto f = static_cast<double>(static_cast<std::uint32_t>(i) * 2654435761u) * 0x1p-32;
    values.push_back(static_cast<float>((1.0 + f) * (i % 3 == 0 ? -1.0 : 1.0)));
  }
  return values;
}

/// Each of some numbers as from(number).
inline std::vector<float> each_of(std::vector<float> values,
                                  const std::function<double(double)>& f) {
  for (float& v : values) v = static_cast<float>(f(v));
  return values;
}

}  // namespace mxo

// Outputs given by their bits, and what was said of values that came as a function of others.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/find/output/recover.h"
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

/// "id: sentence (elements)" of each claim, and that they settle as much.
inline std::vector<std::string> mapped(Came& came) {
  std::vector<std::string> words;
  const Index left = came.output.left;
  Index settled = 0;
  for (const Claim& c : recover_mapped(came.output)) {
    EXPECT_EQ(c.where.tensor, "y");
    settled += static_cast<Index>(c.elements);
    words.push_back(c.id + ": " + c.sentence + " (" + std::to_string(std::lround(c.elements)) +
                    ")");
  }
  EXPECT_EQ(left - came.output.left, settled);
  return words;
}

/// Of one row.
inline std::vector<std::string> mapped(Dtype dtype, const Bits& wanted, const Bits& actual) {
  const auto n = static_cast<Index>(wanted.size());
  Came came(of_bits(dtype, {1, n}, wanted), of_bits(dtype, {1, n}, actual));
  return mapped(came);
}

/// Of one row of bits that came as map(bits).
inline std::vector<std::string> mapped(Dtype dtype, const Bits& wanted,
                                       const std::function<std::uint64_t(std::uint64_t)>& map) {
  Bits actual;
  for (const std::uint64_t w : wanted) actual.push_back(map(w));
  return mapped(dtype, wanted, actual);
}

inline std::vector<std::string> mapped(const std::vector<float>& wanted,
                                       const std::vector<float>& actual) {
  Bits from;
  Bits to;
  for (const float v : wanted) from.push_back(std::bit_cast<std::uint32_t>(v));
  for (const float v : actual) to.push_back(std::bit_cast<std::uint32_t>(v));
  return mapped(Dtype::f32, from, to);
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

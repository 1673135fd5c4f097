// Operators called by name on a backend, on normal numbers, what 16 bits keep of these, and whether
// results have the same bytes.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>

#include "emu/backends.h"
#include "ops/catalogue.h"
#include "tests/support/products.h"

namespace mxo::test {

inline NamedTensors call(const char* backend, const char* op, const NamedTensors& in,
                         const std::string& settings = "") {
  return call_operator(*make_backend(backend, 2), op, in, parameters(settings));
}

inline Tensor normal_floats(std::vector<Index> shape, unsigned seed, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = normal(random);
  return t;
}

/// To bf16 and back, by integers.
inline float bf16(float x) {
  auto word = bit_cast<std::uint32_t>(x);
  word += 0x7FFFu + (word >> 16 & 1u);
  return bit_cast<float>(word & 0xFFFF0000u);
}

/// To f16 and back: a multiple of a unit in the last place of ten bits and one.
inline float f16(float x) {
  if (std::isnan(x) || std::isinf(x) || x == 0.0f) return x;
  const int unit = std::max(std::ilogb(x), -14) - 10;
  const double whole = std::nearbyint(std::ldexp(static_cast<double>(x), -unit));
  const double rounded = std::ldexp(whole, unit);
  return std::fabs(rounded) >= 65536.0 ? std::copysign(INFINITY, x) : static_cast<float>(rounded);
}
inline bool same_bytes(const NamedTensors& a, const NamedTensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.shape() == y.second.shape() &&
           std::memcmp(x.second.data(), y.second.data(), x.second.bytes()) == 0;
  });
}

}  // namespace mxo::test

// Operators called by name on a backend, on normal numbers, and whether they gave the same bytes.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "emu/backends.h"
#include "ops/catalogue.h"

namespace mxo::test {

inline NamedTensors call(const char* backend, const char* op, const NamedTensors& in,
                         const std::vector<std::pair<const char*, const char*>>& settings) {
  Parameters set;
  for (const auto& [key, value] : settings) set.set(key, value);
  return call_operator(*make_backend(backend, 2), op, in, set);
}

inline Tensor normal_floats(std::vector<Index> shape, unsigned seed, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = normal(random);
  return t;
}

inline bool same_bytes(const NamedTensors& a, const NamedTensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.shape() == y.second.shape() &&
           std::memcmp(x.second.data(), y.second.data(), x.second.bytes()) == 0;
  });
}

}  // namespace mxo::test

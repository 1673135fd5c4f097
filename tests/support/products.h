// Calling products through the catalogue, and counting the bits that differ.
#pragma once

#include <algorithm>
#include <sstream>

#include "emu/backends.h"
#include "ops/catalogue.h"
#include "tests/support/random_tensors.h"

namespace mxo::test {

/// "key=value" pairs as Parameters.
inline Parameters settings(const std::vector<std::string>& assignments) {
  Parameters set;
  for (const std::string& assignment : assignments) set.set(assignment);
  return set;
}

/// The parts of a list between these.
inline std::vector<std::string> split(std::string_view list, char between) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(between), list.size());
    parts.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

/// "key=value key=value" as Parameters.
inline Parameters parameters(const std::string& text) {
  Parameters set;
  std::istringstream words(text);
  for (std::string word; words >> word;) set.set(word);
  return set;
}

/// `tensor` with another shape of as many elements.
inline Tensor reshaped(const Tensor& tensor, std::vector<Index> shape) {
  Tensor copy(tensor.dtype(), std::move(shape));
  std::memcpy(copy.data(), tensor.data(), copy.bytes());
  return copy;
}

/// f32 ones.
inline Tensor ones(std::vector<Index> shape) {
  Tensor tensor(Dtype::f32, std::move(shape));
  for (Index i = 0; i < tensor.elements(); ++i) tensor.as<float>()[i] = 1.0f;
  return tensor;
}

/// Codes [M, K] by [..., N, K] as a product of one group whose scales are ones.
inline NamedTensors plain_product(const Tensor& a, const Tensor& b) {
  const Index n = b.extent(b.rank() - 2);
  return {{"x.codes", a},
          {"x.scales", ones({a.extent(0)})},
          {"w.codes", reshaped(b, {1, n, a.extent(1)})},
          {"w.scales", ones({1, n})},
          {"group_ends", ends_of({static_cast<std::int32_t>(a.extent(0))})}};
}

/// Elements whose bits differ, among the first `expected` (all if negative).
inline Index differing(const Tensor& expected, const Tensor& actual, Index expected_output = -1) {
  if (expected.elements() != actual.elements()) return -1;
  const Index n = expected_output < 0 ? expected.elements() : expected_output;
  const auto size = static_cast<Index>(size_of(expected.dtype()));
  Index count = 0;
  for (Index i = 0; i < n; ++i) {
    count += std::memcmp(expected.data() + i * size, actual.data() + i * size,
                         static_cast<std::size_t>(size)) != 0
                 ? 1
                 : 0;
  }
  return count;
}

}  // namespace mxo::test

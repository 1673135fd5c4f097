// Tensors of random numbers, the same on every machine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/tensor.h"

namespace mxo::test {

/// Uniform 32-bit words of a linear congruence; good enough to make tests varied.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  std::uint32_t word() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  /// In [-1, 1), a multiple of 2^-23.
  float unit() { return static_cast<float>(static_cast<std::int32_t>(word()) >> 8) * 0x1p-23f; }
  /// Bell-shaped with a spread of about 1, times a power of two in [2^-spread, 2^spread].
  float value(int spread) {
    const float sum = unit() + unit() + unit();
    const int power =
        spread == 0 ? 0
                    : static_cast<int>(word() % (2u * static_cast<unsigned>(spread) + 1)) - spread;
    return std::ldexp(sum, power);
  }

 private:
  std::uint64_t state_;
};

inline void put(Tensor& tensor, Index i, float value) {
  visit_wide_float(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    tensor.as<T>()[i] = from_float<T>(value);
  });
}

inline float get(const Tensor& tensor, Index i) {
  return visit_wide_float(tensor.dtype(), [&](auto tag) {
    return to_float(tensor.as<typename decltype(tag)::type>()[i]);
  });
}

/// Values of Random::value.
inline Tensor random_floats(Dtype dtype, std::vector<Index> shape, std::uint64_t seed,
                            int spread = 3) {
  Tensor tensor(dtype, std::move(shape));
  Random random(seed);
  for (Index i = 0; i < tensor.elements(); ++i) put(tensor, i, random.value(spread));
  return tensor;
}

inline Tensor integers_of(std::vector<Index> shape, const std::vector<std::int32_t>& values) {
  Tensor tensor(Dtype::i32, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.as<std::int32_t>());
  return tensor;
}
inline Tensor integers_of(const std::vector<std::int32_t>& values) {
  return integers_of({static_cast<Index>(values.size())}, values);
}
inline Tensor group_ends_of(const std::vector<std::int32_t>& ends) { return integers_of(ends); }
inline Tensor ends_of(const std::vector<std::int32_t>& ends) { return integers_of(ends); }

/// A copy whose last two axes are exchanged.
inline Tensor exchanged(const Tensor& from) {
  std::vector<Index> shape = from.shape();
  Index& rows = shape[shape.size() - 2];
  Index& columns = shape[shape.size() - 1];
  std::swap(rows, columns);
  Tensor to(from.dtype(), shape);
  const std::size_t size = size_of(from.dtype());
  for (Index i = 0; i < to.elements(); ++i) {
    const Index column = i % columns;
    const Index row = i / columns % rows;
    const Index at = (i / columns / rows * columns + column) * rows + row;
    std::memcpy(to.data() + static_cast<std::size_t>(i) * size,
                from.data() + static_cast<std::size_t>(at) * size, size);
  }
  return to;
}

}  // namespace mxo::test

// Small tensors from lists.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "formats/tensor.h"

namespace mxo {

template <typename T>
Tensor tensor_from(Dtype dtype, std::vector<Index> shape, std::initializer_list<T> values) {
  Tensor tensor(dtype, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.as<T>());
  return tensor;
}

/// A tensor of T whose element i is value(i).
template <typename T, typename Value>
Tensor filled(Dtype dtype, std::vector<Index> shape, const Value& value) {
  Tensor t(dtype, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<T>()[i] = static_cast<T>(value(i));
  return t;
}

inline Tensor floats(std::vector<Index> shape, std::initializer_list<float> values) {
  return tensor_from<float>(Dtype::f32, std::move(shape), values);
}

/// group_ends: the row behind each group.
inline Tensor ends_at(const std::vector<Index>& ends) {
  Tensor t(Dtype::i32, {static_cast<Index>(ends.size())});
  std::transform(ends.begin(), ends.end(), t.as<std::int32_t>(),
                 [](Index end) { return static_cast<std::int32_t>(end); });
  return t;
}

}  // namespace mxo

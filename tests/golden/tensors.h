// Small tensors from lists.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "formats/tensor.h"

namespace mxo {

template <typename T>
Tensor tensor_from(Dtype dtype, std::vector<Index> shape, std::initializer_list<T> values) {
  Tensor tensor(dtype, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.as<T>());
  return tensor;
}

inline Tensor floats(std::vector<Index> shape, std::initializer_list<float> values) {
  return tensor_from<float>(Dtype::f32, std::move(shape), values);
}

}  // namespace mxo

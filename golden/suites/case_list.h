// Putting a list of cases together.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "golden/suites/suites.h"

namespace mxo {

using Settings = std::map<std::string, std::string, std::less<>>;
using MakeInputs = std::function<NamedTensors(const InputStream&)>;

inline void add_case(std::vector<SuiteCase>& cases, std::string id, std::string op,
                     Settings parameters, std::vector<std::string> flags, MakeInputs inputs) {
  cases.push_back({std::move(id),
                   std::move(op),
                   std::move(parameters),
                   std::move(flags),
                   std::move(inputs),
                   {},
                   {}});
}

/// One tensor as the inputs of a call.
inline NamedTensors one(std::string name, Tensor tensor) {
  NamedTensors tensors;
  tensors.emplace(std::move(name), std::move(tensor));
  return tensors;
}

/// i32 [n]; group_ends and the like.
inline Tensor integers(std::initializer_list<std::int32_t> values) {
  Tensor tensor(Dtype::i32, {static_cast<Index>(values.size())});
  Index i = 0;
  for (const std::int32_t value : values) tensor.as<std::int32_t>()[i++] = value;
  return tensor;
}

/// Floats as a tensor of f32, or rounded to bf16 or f16.
inline Tensor tensor_of(const std::vector<float>& values, Dtype dtype, std::vector<Index> shape) {
  Tensor tensor(dtype, std::move(shape));
  visit_wide_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < values.size(); ++i) tensor.as<T>()[i] = from_float<T>(values[i]);
  });
  return tensor;
}

}  // namespace mxo

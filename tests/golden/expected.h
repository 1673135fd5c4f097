// What an output has to be and the gate that it is held to, for tests of the judge.
#pragma once

#include "golden/judge/outputs.h"

namespace mxo {

inline ExpectedOutput owe(const Tensor& expected, Dtype format) {
  ExpectedOutput expected_output;
  expected_output.expected = &expected;
  expected_output.format = format;
  return expected_output;
}
inline ExpectedOutput owe(const Tensor& expected) { return owe(expected, expected.dtype()); }

inline JudgedOutput question(std::string name, const Tensor& expected, const Tensor* actual) {
  return {std::move(name), owe(expected), actual};
}

/// The tensors of a call.
template <typename Call>
NamedTensors operands_of(const Call& call) {
  NamedTensors in;
  for (const auto& [name, tensor] : call.inputs) in.emplace(name, *tensor);
  return in;
}

inline CompareOptions gated(std::string_view gate) {
  CompareOptions options;
  options.gate = parse_gate(gate);
  return options;
}

}  // namespace mxo

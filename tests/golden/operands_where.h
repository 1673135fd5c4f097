// Operands of a call where a cause of its list holds, as plain numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "golden/explain/case/wide_values.h"
#include "tests/golden/causes_listed.h"

namespace mxo {

/// Bytes that count from one number on.
inline Tensor counted_bytes(std::vector<Index> shape, int first) {
  Tensor t(Dtype::u8, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(first + i);
  }
  return t;
}

/// f32 that count from one number on.
inline Tensor counted_floats(std::vector<Index> shape, float first) {
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = first + static_cast<float>(i);
  return t;
}

/// Bytes, i32, or elements of a wide type.
inline std::vector<double> plain_numbers(const Tensor& t) {
  std::vector<double> all;
  for (Index i = 0; i < t.elements(); ++i) {
    all.push_back(size_of(t.dtype()) == 1   ? t.as<std::uint8_t>()[i]
                  : t.dtype() == Dtype::i32 ? t.as<std::int32_t>()[i]
                                            : static_cast<double>(wide_value(t, i)));
  }
  return all;
}

/// An operand where a cause holds; nothing where it says nothing of the call.
inline std::vector<double> operand_if(const CausesListed& causes, std::string_view cause,
                                      std::string_view operand, std::string_view words = "") {
  const std::optional<Call> other = causes.altered(cause, words);
  return other ? plain_numbers(other->input(operand)) : std::vector<double>{};
}

}  // namespace mxo

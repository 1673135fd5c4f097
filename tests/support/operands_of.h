// Operands of a call as a line of text.
#pragma once

#include <algorithm>
#include <cctype>
#include <sstream>

#include "ops/catalogue.h"

namespace mxo {

/// "x bf16 2 3" is a tensor of zeros, "ends = 5 8" one of i32, "e i32 1 2 = 0 1" one of these.  Of
/// a name given twice the last counts; "- x" takes x away.
inline void add_operand(const std::string& text, NamedTensors& to) {
  std::istringstream words(text);
  std::string name, type = "i32";
  std::vector<Index> shape, values;
  bool valued = false;
  words >> name;
  for (std::string word; words >> word;) {
    if (name == "-") {
      to.erase(word);
    } else if (word == "=") {
      valued = true;
    } else if (std::isalpha(static_cast<unsigned char>(word[0])) != 0) {
      type = word;
    } else {
      (valued ? values : shape).push_back(std::stoll(word));
    }
  }
  if (name.empty() || name == "-") return;
  if (valued && shape.empty()) shape = {static_cast<Index>(values.size())};
  Tensor t(dtype_named(type), shape);
  std::copy(values.begin(), values.end(), t.as<std::int32_t>());
  to.insert_or_assign(name, std::move(t));
}

/// Operands separated by commas.
inline NamedTensors operands_of(const std::string& text) {
  NamedTensors operands;
  std::istringstream list(text);
  for (std::string operand; std::getline(list, operand, ',');) add_operand(operand, operands);
  return operands;
}

}  // namespace mxo

// Copies of operands, and tensors that have no expected value.
#include "golden/suites/other_tensors.h"

#include <algorithm>
#include <cstring>

namespace mxo {
namespace {

constexpr std::size_t kNamed = 4;

bool copied(const Tensor& one, const TensorFile& actual, const std::string& name) {
  const auto at = actual.tensors.find(name);
  return at != actual.tensors.end() && at->second.bytes() == one.bytes() &&
         (one.bytes() == 0 || std::memcmp(at->second.data(), one.data(), one.bytes()) == 0);
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  const std::size_t more = names.size() - std::min(names.size(), kNamed);
  return more == 0 ? text : text + " and " + std::to_string(more) + " more";
}

}  // namespace

bool holds_all(const TensorFile& actual, const TensorFile& expected,
               const std::set<std::string>& operands) {
  return !operands.empty() &&
         std::all_of(operands.begin(), operands.end(), [&](const std::string& name) {
           return copied(expected.tensors.at(name), actual, name);
         });
}

void see_other_tensors(const TensorFile& actual, const std::set<std::string>& outputs,
                       const std::set<std::string>& operands, bool copy, CaseVerdict& verdict) {
  if (copy && verdict.outcome != Outcome::fail) {
    verdict.outcome = Outcome::invalid;
    verdict.outputs.clear();
    verdict.reason = "ACTUAL holds the operands, " + listed({operands.begin(), operands.end()}) +
                     ": a copy of the case is not an output; needs a file of outputs alone";
    return;
  }
  std::vector<std::string> others;
  for (const auto& [name, tensor] : actual.tensors) {
    if (!outputs.contains(name) && name != "group_ends") others.push_back(name);
  }
  if (!others.empty()) verdict.note = "ACTUAL holds more, not compared: " + listed(others);
}

}  // namespace mxo

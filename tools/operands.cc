// The operands of a call as a command line gives them: files, and arrays with a name.
#include "tools/operands.h"

#include <algorithm>
#include <span>

#include "formats/error.h"
#include "golden/files/read_tensors.h"
#include "ops/catalogue.h"
#include "ops/catalogue/ranks.h"

namespace mxo::tools {
namespace {

void check_names(const std::string& op, const std::string& text, const NamedTensors& tensors) {
  const std::span<const OperandSpec> specs = catalogue_entry(op).inputs;
  std::string names;
  for (const OperandSpec& spec : specs) {
    names += (names.empty() ? "" : ", ") + std::string(spec.name);
  }
  if (tensors.empty()) throw Error(Fault::file, text + ": holds no tensor, needs " + names);
  const std::string file = file_of_typed(text);
  for (const auto& given : tensors) {
    const std::string& name = given.first;
    if (std::any_of(specs.begin(), specs.end(),
                    [&](const OperandSpec& spec) { return names_operand(spec.name, name); })) {
      continue;
    }
    throw Error(Fault::file, text + ": " + op + " has no operand '" + name + "'; needs " +
                                 (file.ends_with(".npy") ? "NAME=" + file + ", with NAME " : "") +
                                 "one of " + names);
  }
}

}  // namespace

NamedTensors read_operands(const std::string& op, const std::vector<std::string>& texts) {
  NamedTensors all;
  for (const std::string& text : texts) {
    NamedTensors tensors = read_typed(text).tensors;
    check_names(op, text, tensors);
    for (auto& [name, tensor] : tensors) {
      if (!all.emplace(name, std::move(tensor)).second) {
        throw Error(Fault::file, text + ": tensor '" + name + "' was in an earlier file too");
      }
    }
  }
  return all;
}

}  // namespace mxo::tools

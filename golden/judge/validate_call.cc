// Operands, parameters and expected outputs against the operator's own checks.
#include "golden/judge/validate_call.h"

#include <algorithm>

#include "formats/error.h"
#include "golden/judge/checked_outputs.h"

namespace mxo {

void validate_call(std::string_view where, std::string_view op, const NamedTensors& inputs,
                   const Parameters& parameters,
                   const std::map<std::string, const Tensor*>& expected) {
  const std::string prefix = std::string(where) + ": ";
  std::vector<OutputShape> outputs;
  try {
    outputs = checked_outputs(op, inputs, parameters);
  } catch (const Error& error) {
    throw Error(Fault::file, prefix + error.what());
  }
  const auto named = [&](std::string_view name) {
    return std::find_if(outputs.begin(), outputs.end(),
                        [&](const OutputShape& output) { return output.name == name; });
  };
  if (outputs.empty() || named("splits") != outputs.end()) return;
  for (const auto& [name, tensor] : expected) {
    const auto at = named(name);
    if (at == outputs.end()) {
      throw Error(Fault::file,
                  prefix + std::string(op) + ": " + name + ": not an output of this operator");
    }
    if (at->shape != tensor->shape() || size_of(at->format) != size_of(tensor->dtype())) {
      throw Error(Fault::file,
                  prefix + std::string(op) + ": " + name + ": found " +
                      describe(tensor->operand()) + ", the call gives " +
                      describe(to_read(view_of_shape(at->format, at->shape, nullptr))));
    }
  }
}

}  // namespace mxo

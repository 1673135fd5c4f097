// Operands, parameters and expected outputs against the operator's own checks.
#include "golden/judge/validate_call.h"

#include "formats/error.h"

namespace mxo {

void validate_call(std::string_view where, std::string_view op, const NamedTensors& inputs,
                   const Parameters& parameters,
                   const std::map<std::string, const Tensor*>& expected) {
  const std::string prefix = std::string(where) + ": ";
  NamedTensors outputs;
  try {
    outputs = check_call(op, inputs, parameters);
  } catch (const Error& error) {
    throw Error(Fault::file, prefix + error.what());
  }
  if (outputs.empty() || outputs.contains("splits")) return;
  for (const auto& [name, tensor] : expected) {
    const auto at = outputs.find(name);
    if (at == outputs.end()) {
      throw Error(Fault::file,
                  prefix + std::string(op) + ": " + name + ": not an output of this operator");
    }
    if (at->second.shape() != tensor->shape() ||
        size_of(at->second.dtype()) != size_of(tensor->dtype())) {
      throw Error(Fault::file, prefix + std::string(op) + ": " + name + ": found " +
                                   describe(tensor->operand()) + ", the call gives " +
                                   describe(at->second.operand()));
    }
  }
}

}  // namespace mxo

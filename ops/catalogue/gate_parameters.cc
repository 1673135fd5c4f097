// The gate that a call names.
#include "ops/catalogue/gate_parameters.h"

#include <cmath>
#include <string>

#include "formats/error.h"

namespace mxo {
namespace {

/// The place of the value of `spec.key` among the values it lists; 0 where it is not given.
int listed(const Parameters& set, const ParameterSpec& spec) {
  const std::string_view value = set.text(spec.key, "");
  std::string_view rest = spec.values;
  for (int i = 0;; ++i) {
    const std::size_t bar = rest.find('|');
    if (rest.substr(0, bar) == value) return i;
    if (bar == std::string_view::npos) return 0;
    rest.remove_prefix(bar + 1);
  }
}

}  // namespace

GateRule gate_of(const Parameters& set) {
  GateRule gate;
  gate.activation = static_cast<Activation>(listed(set, kActivationParameter));
  gate.halves = static_cast<Halves>(listed(set, kHalvesParameter));
  gate.bf16_steps = static_cast<Bf16Steps>(listed(set, kStepsParameter));
  gate.alpha = static_cast<float>(set.real("alpha", gate.alpha));
  const double limit = set.real("limit", gate.limit);
  gate.limit = static_cast<float>(limit);
  if (std::isinf(gate.limit) && !std::isinf(limit)) {
    throw Error(Fault::argument, "limit: found " + std::string(set.text("limit", "")) +
                                     ", needs a number that a float holds, or inf for none");
  }
  gate.up_offset = static_cast<float>(set.real("up_offset", gate.up_offset));
  gate.arithmetic = static_cast<GateArithmetic>(listed(set, kArithmeticParameter));
  return gate;
}

}  // namespace mxo

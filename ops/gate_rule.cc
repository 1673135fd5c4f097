// Checks of the constants of a gate.
#include "ops/gate_rule.h"

#include <cmath>

#include "ops/checked.h"

namespace mxo {

void check_gate(const Check& check, const GateRule& gate) {
  const auto needs = [&](bool holds, const char* what) {
    if (!holds) check.fail(Fault::argument, what);
  };
  needs(std::isfinite(gate.alpha), "alpha: found no finite number, needs one");
  needs(std::isfinite(gate.up_offset), "up_offset: found no finite number, needs one");
  needs(gate.limit > 0.0f, "limit: found no positive number, needs one");
  needs(gate.alpha == 1.0f || gate.activation == Activation::silu,
        "alpha: found with an activation that has none, needs silu");
  needs(gate.arithmetic == GateArithmetic::rounded || gate.activation == Activation::silu,
        "arithmetic: found Triton's with an activation other than silu, needs silu");
  needs(gate.up_offset == 0.0f || gate.halves != Halves::gate_only,
        "up_offset: found with halves=gate_only, needs two halves");
}

void check_gradients_gate(const Check& check, const GateRule& gate) {
  if (gate.arithmetic == GateArithmetic::rounded) return;
  check.fail(Fault::argument, "arithmetic: found Triton's, needs rounded: gradients have no other");
}

}  // namespace mxo

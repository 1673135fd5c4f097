// Checks of swiglu and swiglu_backward.
#include "ops/swiglu.h"

#include "ops/checked.h"

namespace mxo {
namespace {

/// x [R, 2F] and the optional probabilities of its rows; returns F.
Index check_input(const Check& check, const Operand& x, const Operand& probs,
                  const GateRule& gate) {
  check_gate(check, gate);
  check.rank("x", x, 2);
  check.dtype("x", x, {Dtype::f32, Dtype::bf16, Dtype::f16});
  check.multiple("x", "the number of columns, 2F,", x.extent[1], halves_of(gate));
  if (probs.given()) {
    check.dtype("probs", probs, {Dtype::f32});
    check.shape("probs", probs, {x.extent[0]});
  }
  return x.extent[1] / halves_of(gate);
}

}  // namespace

void swiglu(Backend& backend, const Swiglu& op) {
  const Check check("swiglu");
  const Index f = check_input(check, op.x, op.probs, op.gate);
  check.dtype("y", op.y, {Dtype::f32, Dtype::bf16, Dtype::f16});
  check.shape("y", op.y, {op.x.extent[0], f});
  check.apart("y", op.y, "x", op.x);
  check.apart("y", op.y, "probs", op.probs);
  Checked::run(backend, op);
}

void swiglu_backward(Backend& backend, const SwigluBackward& op) {
  const Check check("swiglu_backward");
  const Index f = check_input(check, op.x, op.probs, op.gate);
  check_gradients_gate(check, op.gate);
  check.dtype("dy", op.dy, {Dtype::f32, Dtype::bf16, Dtype::f16});
  check.shape("dy", op.dy, {op.x.extent[0], f});
  check.dtype("dx", op.dx, {Dtype::f32, Dtype::bf16, Dtype::f16});
  check.shape("dx", op.dx, {op.x.extent[0], op.x.extent[1]});
  check.that(op.probs.given() == op.dprobs.given(),
             "dprobs: needs to be given exactly when "
             "probs is");
  for (const auto& [name, read] :
       {std::pair{"x", op.x}, std::pair{"dy", op.dy}, std::pair{"probs", op.probs}}) {
    check.apart("dx", op.dx, name, read);
    if (op.dprobs.given()) check.apart("dprobs", op.dprobs, name, read);
  }
  if (op.dprobs.given()) {
    check.dtype("dprobs", op.dprobs, {Dtype::f32});
    check.shape("dprobs", op.dprobs, {op.x.extent[0]});
    check.apart("dprobs", op.dprobs, "dx", op.dx);
  }
  Checked::run(backend, op);
}

}  // namespace mxo
